"""The accelerator checks on a CPU: results, messages, exit codes."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace as Made

import jax
import pytest

from jepa_text.models.attention import attend, blockwise
from jepa_text.planning import benchmark
from jepa_text.planning.accelerator import __main__ as command
from jepa_text.planning.accelerator import inside, page, settings, tasks
from jepa_text.planning.accelerator.tasks import Task

ROOT = Path(__file__).parents[2]
ONE = [dict(dtype='float32', length=256, head_width=16, causal=True, window=None)]
ABOUT = dict(
    platform='cpu',
    device='cpu',
    devices=1,
    runtime='cpu',
    driver={},
    versions={'jax': '1'},
)
SPEED = dict(
    seconds=0.5,
    tokens=1000,
    flops=10.0,
    peak=100.0,
    memory=2**30,
    attention=['xla'],
    library='jax',
)


@pytest.fixture
def one_request(monkeypatch):
    monkeypatch.setattr(inside, 'requests', lambda: ONE)


def test_kernel_is_right_or_unsupported_with_reason(one_request):
    found = inside.kernels('blockwise')
    assert found['wrong'] == [] and found['answers'][0]['result'] == 'right'
    assert len(found['answers'][0]['off']) == 4
    for name in set(attend.BACKENDS) - {'xla', 'blockwise'}:
        found = inside.kernels(name)
        assert found['wrong'] == []
        assert found['answers'][0]['result'].startswith('cannot: it runs on')


def test_unsupported_backend_is_not_counted_as_right(monkeypatch):
    results = ['cannot: no package', 'cannot: no package']
    answers = [{'result': result} for result in results]
    monkeypatch.setattr(tasks, 'run_check', lambda *_, **__: {'answers': answers})
    with pytest.raises(tasks.Unsupported, match='^no package$'):
        tasks.kernel(60, 'tokamax')
    answers[0]['result'] = 'right'
    assert tasks.kernel(60, 'tokamax') == {'answers': answers}
    named = dict(right='passed', wrong='failed', absent='cannot', late='left')
    kernels = {
        name: dict(group='kernels', status=status, why='', found={})
        for name, status in named.items()
    }
    about = dict(group='environment', status='passed', found=ABOUT)
    found = dict(date='', commit='', results={'environment': about, **kernels})
    assert '1 of 2 supported attention backends' in page.paragraph(found, [])


def test_wrong_and_failing_kernels_are_reported(one_request, monkeypatch):
    def breaks(*_, **__):
        raise RuntimeError('no such instruction\nmore')

    sound = blockwise.attend
    for attend_function, words in (
        (lambda *x, **o: 1.1 * sound(*x, **o), 'its result is off by 1'),
        (lambda *x, **o: math.nan * sound(*x, **o), 'its result is off by nan'),
        (breaks, 'RuntimeError: no such instruction'),
    ):
        monkeypatch.setattr(blockwise, 'attend', attend_function)
        (wrong,) = inside.kernels('blockwise')['wrong']
        assert wrong.startswith('float32, 256 x 16, causal: ') and words in wrong


def test_requests_have_windows_long_rows_and_both_precisions():
    requests = inside.requests()
    assert {one['dtype'] for one in requests} == {'bfloat16', 'float32'}
    assert {one['window'] for one in requests} == {None, 20}
    assert max(one['length'] for one in requests) == 2048
    assert {one['causal'] for one in requests} == {True, False}


def test_wrong_arithmetic_is_reported(monkeypatch):
    wrong = {'a sum': (0.5, 1e-4), 'another': (float('nan'), 1e-4), 'right': (0.0, 1e-4)}
    monkeypatch.setattr(inside.self_test, 'deviations', lambda devices: wrong)
    names = [text.split(' is off')[0] for text in inside.arithmetic()['wrong']]
    assert names == ['a sum', 'another']


def test_environment_describes_this_machine():
    found = inside.environment()
    assert found['platform'] == 'cpu' and found['versions']['jax'] == jax.__version__
    assert found['host_memory'] > 2**28 and found['driver'] == {}


def test_amd_is_rejected(monkeypatch):
    client = Made(platform_version='PJRT C API\nrocm 60443')
    device = Made(client=client, device_kind='AMD Instinct MI300X', platform='gpu')
    monkeypatch.setattr(inside.jax, 'local_devices', lambda: [device])
    with pytest.raises(RuntimeError, match='MI300X is driven by ROCm.*no kernels'):
        inside.environment()


def test_unknown_platform_is_rejected(monkeypatch):
    client = Made(platform_version='METAL 1')
    device = Made(client=client, device_kind='Apple M3', platform='METAL')
    monkeypatch.setattr(inside.jax, 'local_devices', lambda: [device])
    with pytest.raises(
        RuntimeError, match="M3 has the unsupported platform 'METAL'; .*cpu, gpu"
    ):
        inside.environment()


def test_driver_is_read_from_nvidia_smi(tmp_path, monkeypatch):
    program = tmp_path / 'nvidia-smi'
    program.write_text(
        '#!/bin/sh\necho "NVIDIA H200, 580.65, 143771 MiB, 700 W, 1980 MHz"'
    )
    program.chmod(0o700)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    assert inside.nvidia()['driver_version'] == '580.65'
    program.write_text('#!/bin/sh\necho "has failed"; exit 9')
    assert inside.nvidia() == {}


def test_tasks_run_independently_of_each_other():
    def fails(seconds):
        raise ValueError('no such device')

    def cannot(seconds):
        raise tasks.Unsupported('not here')

    def hangs(seconds):
        raise TimeoutError(f'timed out after {seconds} s')

    made = [
        Task('a', 'right', lambda s: {'x': 1}),
        Task('a', 'wrong', lambda s: {'wrong': ['one', 'two']}),
        Task('a', 'fails', fails),
        Task('a', 'cannot', cannot),
        Task('a', 'hangs', hangs),
        Task('b', 'last', lambda s: {}),
    ]
    done, reported = {}, []
    on_result = lambda *one: reported.append(one)  # noqa: E731
    tasks.run(made, math.inf, 150, done, on_result, at_once=2)
    assert {name: one['status'] for name, one in done.items()} == {
        'right': 'passed',
        'wrong': 'failed',
        'fails': 'failed',
        'cannot': 'cannot',
        'hangs': 'failed',
        'last': 'passed',
    }
    assert list(done) == [task.name for task in made] == [name for name, _ in reported]
    assert done['wrong']['why'] == 'one; two' and done['fails']['why'] == 'no such device'
    assert done['hangs']['why'] == 'timed out after 150 s'


def test_tasks_without_time_are_left():
    def times_out(seconds):
        raise TimeoutError

    done = {}
    now = time.monotonic()
    short, late = Task('a', 'short', times_out), Task('a', 'late', lambda s: {})
    tasks.run([short], now + tasks.SHORTEST + 20, 150, done)
    tasks.run([late], now + tasks.SHORTEST / 2, 150, done)
    assert [done[name]['status'] for name in ('short', 'late')] == ['left', 'left']


def fake_benchmark(monkeypatch, rows_that_fit, unsupported=False):
    calls = []

    def run_case(case, timeout, python):
        calls.append((case['rows'], python))
        if case['rows'] > rows_that_fit:
            message = 'RESOURCE_EXHAUSTED: out of memory'
            message = 'its head cannot' if unsupported else message
            raise benchmark.CaseError(message, unsupported)
        return SPEED | {'tokens': case['rows']}

    monkeypatch.setattr(benchmark, 'run_case', run_case)
    return calls


def case(*changes):
    model = dict(dtype='bfloat16', remat='names')
    return settings.case(model, 1, '210m', 'mlm', dict(changes))


def test_rows_are_halved_until_they_fit_and_for_later_cases(monkeypatch):
    calls = fake_benchmark(monkeypatch, 4)
    divisors = {}
    found = tasks.speed(60, case(), 'python', divisors)
    assert [rows for rows, _ in calls] == [16, 8, 4] and found['rows'] == 4
    assert found['tokens_per_second'] == 8.0 and found['mfu'] == 0.2
    tasks.speed(60, case(), 'python', divisors)
    peer = case(('side', 'transformers'))
    tasks.speed(60, peer, 'python', divisors)
    # transformers has its own number of rows and its own interpreter.
    assert calls[3:] == [(4, None), (16, 'python'), (8, 'python'), (4, 'python')]
    with pytest.raises(RuntimeError, match='RESOURCE_EXHAUSTED'):
        fake_benchmark(monkeypatch, 0)
        tasks.speed(60, case(), None, {})


def test_optional_cases_keep_their_rows(monkeypatch):
    calls = fake_benchmark(monkeypatch, 8)
    for change in (('remat', 'none'), ('rows', 32), ('attention', 'xla')):
        with pytest.raises(tasks.Unsupported, match='RESOURCE_EXHAUSTED'):
            tasks.speed(60, case(change))
    assert [rows for rows, _ in calls] == [16, 32, 16]


def test_unsupported_case_fails_only_with_default_settings(monkeypatch):
    fake_benchmark(monkeypatch, 0, unsupported=True)
    with pytest.raises(tasks.Unsupported, match='its head cannot'):
        tasks.speed(60, case(('attention', 'pallas')))
    with pytest.raises(RuntimeError, match='its head cannot'):
        tasks.speed(60, case())


@pytest.mark.parametrize('platform', ['cpu', 'gpu', 'tpu'])
def test_most_important_cases_come_first(platform):
    made = settings.speeds(('210m', '610m', '1b'), platform, 8, 'one')
    names = [one['name'] for one in made]
    assert names[:6] == [
        '210m mlm',
        '210m mlm by transformers',
        '610m mlm',
        '1b mlm',
        '210m hybrid',
        '210m clm',
    ]
    assert len(set(names)) == len(names)
    for backend in attend.FASTEST[platform]:
        assert f'210m mlm, attention {backend}' in names
    assert {'210m mlm, remat full', '210m mlm, 256 rows', '1b hybrid'} - set(names) == {
        '210m mlm, 256 rows'
    }
    plain, peer = made[:2]
    # All devices; transformers uses one.
    assert (plain['rows'], plain['mesh']['fsdp']) == (128, 8)
    assert (peer['rows'], peer['mesh']['fsdp'], peer['peer_attention']) == (
        16,
        1,
        'flash',
    )
    assert plain['model']['dtype'] == ('float32' if platform == 'cpu' else 'bfloat16')
    assert [one['optional'] for one in made[:3]] == [False, True, False]


def test_gpu_without_bfloat16_computes_in_float32():
    for kind, dtype in (('Tesla T4', 'float32'), ('NVIDIA L4', 'bfloat16')):
        assert settings.dtype('gpu', kind) == dtype
    assert settings.dtype('gpu', 'unknown') == 'bfloat16'


def test_curve_is_compared_with_the_cpu(monkeypatch, tmp_path):
    losses = {'device': [8.0, 7.0, 6.5, 6.0], 'cpu': [8.0, 7.001, 6.5, 6.0]}

    def train(check, seconds, environ, config, run):
        where = run.rpartition('-')[2]
        calls.append((where, environ.get('JAX_PLATFORMS'), config['model']['dtype']))
        return {'losses': losses[where]}

    calls = []
    monkeypatch.setattr(tasks, 'run_check', train)
    assert tasks.curve(100, 8, tmp_path)['wrong'] == []
    assert calls == [('device', None, 'bfloat16'), ('cpu', 'cpu', 'float32')]
    losses['device'] = [8.0, 7.5, 6.5, 6.0]
    assert tasks.curve(100, 8, tmp_path)['wrong'] == [
        'a step is 0.499 nats from the CPU (0.02 are allowed)'
    ]
    losses['device'] = losses['cpu'] = [8.0, math.nan]
    assert len(tasks.curve(100, 8, tmp_path)['wrong']) == 3


def test_large_presets_use_the_settings_of_the_papers(tmp_path):
    toy, large = (
        settings.run(name, 8, 10, tmp_path, dtype='bfloat16') for name in ('toy', '210m')
    )
    assert large['model']['vocab_rows'] == 128_256 and 'vocab_rows' not in toy['model']
    assert (large['data']['row_length'], large['schedule']['peak']) == (2048, 5e-4)


def fake_tasks(monkeypatch, environment=lambda s: ABOUT, wrong=()):
    """Replaces the tasks by ones that return at once."""
    curve = dict(steps=[1, 2], losses=[8.0, 7.0])
    off = {'a step': 0.001, 'the last quarter': 0.0}
    trace = dict(file='x', seconds=1.0, costliest=[['dot', 0.5, 0.5]])
    rows = dict(rows=8, size='toy', objective='mlm', remat='none', mfu=0.25)
    one = SPEED | rows | dict(side='ours', tokens_per_second=2000.0)
    other = one | dict(side='transformers', tokens_per_second=1000.0, mfu=None)
    sums = dict(programs={'a sum': dict(off=1e-7, allowed=1e-4)}, wrong=list(wrong))
    kernel = dict(answers=[ONE[0] | {'result': 'right', 'off': {'its result': 0.01}}])
    loop = curve | dict(size='toy', rows=8, length=128, tokens_per_second=5.0)
    made = [
        Task('arithmetic', 'arithmetic', lambda s: sums),
        Task('kernels', 'attention xla', lambda s: kernel),
        Task('curve', 'curve', lambda s: dict(device=curve, cpu=curve, off=off)),
        Task('speed', 'toy mlm', lambda s: one),
        Task('speed', 'toy mlm by transformers', lambda s: other),
        Task('trace', 'trace', lambda s: {'trace': trace}),
        Task('loop', 'loop', lambda s: loop),
    ]
    task = Task('environment', 'environment', environment)
    monkeypatch.setattr(tasks, 'environment', lambda: task)
    monkeypatch.setattr(tasks, 'checks', lambda *given: (made, 1))
    monkeypatch.setattr(tasks, 'speeds', lambda *given: [])


def run_command(folder, *options):
    path = folder / 'new' / 'found.json'
    code = command.main([f'--to={path}', *options])
    return code, json.loads(path.read_text()), path.with_suffix('.html').read_text()


def test_page_and_paragraph_have_the_results(monkeypatch, tmp_path, capsys):
    fake_tasks(monkeypatch)
    code, found, html = run_command(tmp_path)
    assert code == 0 and found['failed'] == found['left'] == []
    assert found['results']['toy mlm']['found']['tokens_per_second'] == 2000.0
    text = found['paragraph']
    assert 'toy mlm trains at 2,000 tokens/s (MFU 25.0%)' in text
    assert 'toy mlm has 2.00 × the speed of transformers' in text
    assert '1 programs agree' in text
    assert text in capsys.readouterr().out
    for words in ('Arithmetic', 'Speed of a step', 'Costliest operations', '2.00'):
        assert words in html
    assert html.count('<svg') == 2 and 'Failed' not in html


def test_failures_exit_with_1_and_are_on_the_page(monkeypatch, tmp_path, capsys):
    fake_tasks(monkeypatch, wrong=['a sum is off'])
    code, found, html = run_command(tmp_path)
    assert code == 1 and found['failed'] == ['arithmetic: a sum is off']
    assert found['results']['loop']['status'] == 'passed'
    assert '**Failed**: arithmetic: a sum is off' in found['paragraph']
    assert 'Failed' in html and 'FAILED  arithmetic' in capsys.readouterr().out


def test_without_a_device_no_other_check_runs(monkeypatch, tmp_path):
    def none(seconds):
        raise RuntimeError('no CUDA-capable device is detected')

    fake_tasks(monkeypatch, none)
    code, found, html = run_command(tmp_path)
    assert code == 1 and list(found['results']) == ['environment']
    assert 'no CUDA-capable device' in html
    assert 'no CUDA-capable device' in found['paragraph']


def test_results_are_written_after_a_signal(monkeypatch, tmp_path):
    def stops(seconds):
        raise KeyboardInterrupt

    fake_tasks(monkeypatch, stops)
    assert run_command(tmp_path)[1]['paragraph'] == 'No device was measured.'
    fake_tasks(monkeypatch)
    monkeypatch.setattr(tasks, 'speeds', lambda *x: [Task('speed', 'more', stops)])
    code, found, html = run_command(tmp_path)
    assert code == 1 and found['stopped'] and 'toy mlm' in found['results']
    assert 'stopped by a signal' in html


def test_second_signal_does_not_interrupt_writing(monkeypatch, tmp_path):
    def stops(seconds):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    def summary(found):
        for one in command.SIGNALS:
            os.kill(os.getpid(), one)
        return summarized(found)

    fake_tasks(monkeypatch)
    summarized = page.summary
    monkeypatch.setattr(page, 'summary', summary)
    monkeypatch.setattr(tasks, 'run', lambda *_: stops(1))
    before = [signal.getsignal(one) for one in command.SIGNALS]
    code, found, html = run_command(tmp_path)
    assert code == 1 and found['stopped'] in html
    assert [signal.getsignal(one) for one in command.SIGNALS] == before


def test_invalid_options_are_rejected(tmp_path, capsys):
    for option, words in (
        ('--minutes=0', '--minutes=0.0 must be above 0'),
        ('--cells=0', '--cells=0 must be at least 1'),
        ('--sizes=210m,7b', "unknown size '7b'; known: 210m, 610m, 1b, tiny, toy"),
        ('--peer-python=/no/python', '--peer-python=/no/python is not an executable'),
        ('--to=found.html', '--to=found.html must be a file name that ends in .json'),
        ('--to=/proc/no/found.json', 'its folder cannot be created'),
    ):
        with pytest.raises(SystemExit) as ended:
            command.main([option])
        assert ended.value.code == 2
        assert words in capsys.readouterr().err


def test_peers_are_compared_per_device():
    one = dict(status='passed', group='speed', why='')
    ours = one | {'found': dict(side='ours', tokens_per_second=800.0)}
    theirs = one | {'found': dict(side='transformers', tokens_per_second=50.0)}
    about = dict(group='environment', status='passed', found=ABOUT | {'devices': 8})
    found = {'environment': about, 'a': ours, 'a by transformers': theirs}
    assert page.peers(found) == [('a', 2.0)]


@pytest.mark.slow
def test_the_script_on_a_cpu(tmp_path):
    path = tmp_path / 'found.json'
    command = [
        'bash',
        'launch/accelerator.sh',
        '--minutes=15',
        '--cells=2',
        '--sizes=tiny',
    ]
    done = subprocess.run(
        [*command, f'--to={path}'],
        cwd=ROOT,
        env=os.environ
        | {'PYTHON_RUN': sys.executable, 'XLA_FLAGS': ''}
        | {'JAX_DISABLE_MOST_OPTIMIZATIONS': '0'},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    results = {name: one['status'] for name, one in found['results'].items()}
    for name in ('arithmetic', 'attention xla', 'attention blockwise', 'curve'):
        assert results[name] == 'passed'
    for name in ('tiny mlm', 'trace', 'loop'):
        assert results[name] == 'passed'
    assert 0 < found['results']['curve']['found']['off']['a step'] < 0.02
    assert {p.name for p in tmp_path.iterdir()} == {
        'found.json',
        'found.html',
        'found.trace',
    }
    assert list((tmp_path / 'found.trace').rglob('*.xplane.pb'))
    assert found['paragraph'] in done.stdout
    assert found['left'] == [] and results['tiny mlm by transformers'] != 'failed'
