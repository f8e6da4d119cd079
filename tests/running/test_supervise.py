"""The supervisor restarts while there is progress, and gives up otherwise."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from jepa_text.parallel import exits
from jepa_text.running import supervise

# The n-th run ends with the n-th of the codes; a negative code is a signal.
CHILD = """
    import os, sys
    from pathlib import Path
    folder, codes = Path(sys.argv[1]), sys.argv[2].split(',')
    count = len(list(folder.glob('started-*')))
    (folder / f'started-{count}').touch()
    code = codes[min(count, len(codes) - 1)]
    if code.endswith('+'):
        code = code[:-1]
        step = folder / 'checkpoints' / str(count)
        step.mkdir(parents=True)
        (step / 'CHECKSUMS.json').touch()
    if int(code) < 0:
        os.kill(os.getpid(), -int(code))
    os._exit(int(code))
"""


def run(folder, codes, restarts=2):
    """(exit code, number of times the child was started)."""
    command = [sys.executable, '-c', textwrap.dedent(CHILD), str(folder), codes]
    code = supervise.supervise(
        command, restarts, lambda: supervise.complete(folder), pause=0.01
    )
    return code, len(list(folder.glob('started-*')))


@pytest.mark.parametrize(
    ('codes', 'expected'),
    [
        ('0', (0, 1)),
        ('1,0', (0, 2)),
        ('87,-9,0', (0, 3)),
        ('2', (2, 1)),
        ('1,2', (2, 2)),
        ('75', (75, 1)),
        ('1', (1, 3)),
        ('-6', (128 + signal.SIGABRT, 3)),
        # Codes above 128 that are of no signal, and signals without a name.
        ('255,-35,0', (0, 3)),
        # Each checkpoint resets the number of restarts.
        ('1,1,1+,1,1+,1,0', (0, 7)),
    ],
)
def test_restarts_depend_on_exit_codes_and_progress(codes, expected, tmp_path):
    assert run(tmp_path, codes) == expected


def test_pauses_double_and_are_logged(tmp_path, capfd):
    run(tmp_path, '1')
    stderr = capfd.readouterr().err
    assert 'starting again in 0.01 s (restart 1 of 2' in stderr
    assert 'starting again in 0.02 s (restart 2 of 2' in stderr
    assert '3 times without progress: giving up' in stderr


def test_invalid_restarts_raise():
    with pytest.raises(ValueError, match='restarts=0'):
        supervise.supervise(['true'], 0, set)


SUPERVISOR = """
    import sys
    from jepa_text.running import supervise
    sys.exit(supervise.supervise(sys.argv[1:], 3, set, pause=30.0))
"""
# Saves when asked to stop; its worker would keep running.
GRACEFUL = """
    import signal, subprocess, sys, time
    worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
    def stop(*_):
        sys.exit(75)
    signal.signal(signal.SIGTERM, stop)
    print(worker.pid, flush=True)
    time.sleep(60)
"""


def supervised(program):
    command = [sys.executable, '-c', textwrap.dedent(program)]
    return subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(SUPERVISOR), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_signals_are_forwarded_and_no_process_remains():
    process = supervised(GRACEFUL)
    try:
        worker = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == exits.RESUME
    finally:
        process.kill()
    deadline = time.monotonic() + 60
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(worker)


def alive(pid):
    try:
        # A killed process is listed until its parent waits for it.
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_signal_between_two_children_ends_immediately():
    process = supervised('import os; os._exit(1)')
    try:
        assert 'starting again in 30 s' in process.stderr.readline()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=25) == exits.RESUME
    finally:
        process.kill()
