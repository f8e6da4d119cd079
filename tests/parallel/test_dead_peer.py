"""A job of two processes of which one is killed goes on by itself, to its right end."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import tiny

from jepa_text.parallel import exits
from jepa_text.running import metrics

STEPS = 40
CONFIG = """
    import json
    from pathlib import Path
    from ml_collections import ConfigDict
    def get_config():
        return ConfigDict(json.loads(Path(__file__).with_suffix('.json').read_text()))
"""


def settings(folder):
    """One phase; checkpoints often enough that the kill falls between them."""
    return tiny.config(
        folder,
        steps=STEPS,
        mesh=dict(data=-1, fsdp=1, tensor=1),
        phases=(dict(objective=dict(name='mlm', rate=0.3)),),
        checkpoint=dict(every=10, keep=2),
        evaluate=dict(every=0, rate=0.15, most_rows=16),
        watchdog=dict(seconds=60, compile=180, pause=60),
    )


def config_file(folder, config):
    """A config file for the command line that gives these settings."""
    path = folder / 'settings.py'
    path.write_text(textwrap.dedent(CONFIG))
    path.with_suffix('.json').write_text(json.dumps(config))
    return path


def supervised_pair(folder, config):
    """`jepa-text supervise train` as two processes of a job, with a log of each."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        'JAX_COORDINATOR_ADDRESS': f'localhost:{port}',
        'JAX_NUM_PROCESSES': '2',
        'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',
        'JAX_COMPILATION_CACHE_DIR': str(folder / 'cache'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        'XLA_FLAGS': '--xla_force_host_platform_device_count=1',
    }
    words = ['supervise', 'train', f'--config={config}', f'--workdir={folder / "run"}']
    logs = [(folder / f'{index}.txt').open('w') for index in (0, 1)]
    return [
        subprocess.Popen(
            [sys.executable, '-m', 'jepa_text.main', *words],
            env=environment | {'JAX_PROCESS_ID': str(index)},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        for index, log in enumerate(logs)
    ]


def wait_for(workdir, step, seconds=240):
    """Returns when the run has written the metrics of a step."""
    path, deadline = Path(workdir) / metrics.FILE, time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().count('\n') > step:
            return
        time.sleep(0.01)
    raise TimeoutError(f'{path} has no step {step}')


@pytest.mark.slow
@pytest.mark.xdist_group('jobs of several processes, one at a time')
@pytest.mark.parametrize('victim', [0, 1])
def test_a_killed_process_is_joined_again_and_the_end_is_right(victim, tmp_path):
    config = settings(tmp_path)
    tiny.train(config, tmp_path / 'straight')
    job = supervised_pair(tmp_path, config_file(tmp_path, config))
    try:
        wait_for(tmp_path / 'run', 15)
        (child,) = psutil.Process(job[victim].pid).children()
        child.send_signal(signal.SIGKILL)
        codes = [process.wait(timeout=400) for process in job]
    finally:
        said = [(tmp_path / f'{i}.txt').read_text() for i in (0, 1)]
        for process in job:
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()
    assert codes == [exits.DONE, exits.DONE], said
    assert 'starting again' in said[victim]
    lines = [tiny.log(tmp_path / name) for name in ('straight', 'run')]
    assert [x['step'] for x in lines[0]] == [x['step'] for x in lines[1]]
    assert lines[0][-1]['train/loss'] == pytest.approx(lines[1][-1]['train/loss'], 1e-4)
