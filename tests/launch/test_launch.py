"""Common behavior of all launch scripts; local.sh, accelerator.sh, peers.sh, apart.sh."""

import functools
import re
import subprocess
import sys

import pytest
from launching import JOB, ROOT, Machine, documented

# {script: (the program that it needs, required environment variables)}
LAUNCHERS = {
    'local.sh': (None, {}),
    'slurm.sh': ('sbatch', {}),
    'gke.sh': ('kubectl', dict(NAME='first', IMAGE='jepa-text', GPU='nvidia-l4')),
    'sky.sh': ('sky', dict(BUCKET='gs://bucket')),
    'docker.sh': ('docker', {}),
}
EACH = pytest.mark.parametrize('script', LAUNCHERS)
# The others: on this machine jepa-text itself refuses what is wrong.
CLUSTERS = [name for name in LAUNCHERS if name != 'local.sh']


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def fake_all(machine):
    for program, _ in LAUNCHERS.values():
        if program:
            machine.fake(program)


@EACH
def test_dry_run_only_prints(machine, script):
    program, env = LAUNCHERS[script]
    fake_all(machine)
    before = sorted(machine.folder.rglob('*'))
    words = (*JOB, '--config.name=two words')
    code, output = machine.run(script, '--dry-run', *words, **env)
    assert code == 0 and not machine.calls()
    assert sorted(machine.folder.rglob('*')) == before
    # The output has every argument, and the space is preserved.
    assert all(word in output for word in JOB)
    assert re.search(r'two(\\)* words', output)
    # --dry-run may come last; it does not need the program.
    if program:
        (machine.bin / program).unlink()
    assert machine.run(script, *words, '--dry-run', **env) == (code, output)


@pytest.mark.parametrize('script', CLUSTERS)
def test_missing_program_is_reported_in_one_line(machine, script):
    program, env = LAUNCHERS[script]
    code, output = machine.run(script, *JOB, **env)
    (line,) = output.split('\n')[1:-1]
    assert code == 2
    assert line.startswith(f'jepa-text: {script}: {program} is missing. ')


NO_SUCH_CONFIG = ('train', '--config=dask:mlm', '--workdir=/data/a')
LOST = (*JOB[:2], '--workdir=runs/a')
STUDY = ('study', '--config=quickstart', '--workdir=/data/seeds')
SEVERAL = {'slurm.sh': 'NODES', 'sky.sh': 'NODES', 'gke.sh': 'HOSTS'}
TPU = dict(GPU='', TPU='tpu-v6e-slice', TOPOLOGY='4x4')


@pytest.mark.parametrize(
    'script, words, env, message',
    [
        # All scripts leave this to command_line.sh: each has the mistake NO_SUCH_CONFIG.
        ('local.sh', (), {}, 'no COMMAND'),
        ('local.sh', JOB[1:], {}, 'no COMMAND'),
        ('slurm.sh', ('train', JOB[2]), {}, 'the config is missing'),
        ('slurm.sh', ('train', '--config=', JOB[2]), {}, 'the config is missing'),
        ('slurm.sh', JOB[:2], {}, '--workdir is missing'),
        *((script, NO_SUCH_CONFIG, {}, 'does not exist') for script in CLUSTERS),
        ('local.sh', JOB, dict(ACCELERATOR='gpu'), 'gpu; use cpu, cuda, cuda12 or tpu'),
        ('slurm.sh', JOB, dict(NODES='two'), 'NODES=two is not a whole number'),
        ('slurm.sh', JOB, dict(GPUS='0'), 'GPUS=0 is not a whole number'),
        ('slurm.sh', JOB, dict(SEEDS='0 1'), 'SEEDS, PRESETS and LIST were removed'),
        ('gke.sh', JOB, dict(NAME='First'), 'is not a valid name in a cluster'),
        ('gke.sh', JOB, dict(NAME='a' * 41), 'at most 40'),
        ('gke.sh', JOB, dict(IMAGE=''), 'IMAGE is not set'),
        ('gke.sh', JOB, dict(TPU='tpu-v6e-slice'), 'but not both'),
        ('gke.sh', JOB, TPU | dict(SLICES='2'), 'SLICES was removed'),
        ('gke.sh', JOB, TPU | dict(TPU=''), 'set TPU'),
        ('gke.sh', JOB, TPU | dict(TOPOLOGY=''), 'TOPOLOGY is not set'),
        ('gke.sh', JOB, TPU | dict(CHIPS='four'), 'CHIPS=four is not'),
        ('gke.sh', JOB, dict(RESTARTS='-1'), 'RESTARTS=-1 is not'),
        *(
            (script, words, {name: '2'}, f'{name}=2 with {words[0]}, which would run as')
            for words in (STUDY, ('analyze', *STUDY[1:]), ('prepare', *STUDY[1:]))
            for script, name in SEVERAL.items()
        ),
        *(
            (script, ('train', own, JOB[2]), {}, f'{own} is not in the container')
            for script in ('docker.sh', 'gke.sh')
            for own in ('my.py', f'{ROOT}/configs/toy.py')
        ),
        ('docker.sh', ('train', '/data/no.py', JOB[2]), {}, '/runs/no.py does not exist'),
        *(
            (script, LOST, {}, '--workdir=runs/a is lost')
            for script in ('gke.sh', 'sky.sh', 'docker.sh')
        ),
    ],
)
def test_wrong_usage_is_reported_before_anything_starts(
    machine, script, words, env, message
):
    fake_all(machine)
    code, output = machine.run(script, *words, **LAUNCHERS[script][1] | env)
    assert code == 2 and message in output and not machine.calls()
    assert output.startswith(f'\njepa-text: {script}: ') and output.count('\n') == 2


@pytest.mark.parametrize('script', ['docker.sh', 'gke.sh', 'sky.sh'])
def test_a_config_may_be_in_the_storage(machine, script):
    fake_all(machine)
    (machine.folder / 'my.py').touch()
    env = LAUNCHERS[script][1] | dict(DATA=str(machine.folder))
    words = ('train', '/data/my.py:a', '--workdir=/data/first')
    code, output = machine.run(script, '--dry-run', *words, **env)
    assert code == 0 and '/data/my.py:a' in output


@EACH
def test_help_is_the_header_and_lists_all_variables(machine, script):
    code, output = machine.run(script, '--help')
    top = [line for line in documented(script) if not line.startswith('#SBATCH')]
    assert code == 0 and len(top) <= 24
    assert output.splitlines()[0] == top[0][2:]
    assert '--dry-run' in output
    text = (ROOT / 'launch' / script).read_text()
    read = set(re.findall(r'\$\{([A-Z_]+):[-+]', text))
    internal = {word for word in read if word.startswith('SLURM_')} | {'POLL'}
    assert read - internal
    assert all(re.search(rf'\b{name}\b', output) for name in read - internal)


@pytest.mark.parametrize('code', [0, 2, 87])
def test_local_runs_in_the_repository_with_the_exit_code_of_the_program(machine, code):
    machine.fake('jepa-text', f'pwd; test -f configs/toy.py && exit {code}')
    words = (*JOB, "--config.name=it's $HOME; *")
    assert machine.run('local.sh', *words) == (code, f'{ROOT}\n')
    assert machine.called('jepa-text') == [list(words)]


@pytest.mark.parametrize(
    'words',
    [
        ('init', 'toy:mlm', 'my.py'),
        ('analyze', '--model=a', '--task=bundled'),
        ('help', 'mlm'),
        ('study', '--config', 'studies/pfs', '--workdir', 'runs/pfs'),
        ('train', '--workdir=runs/a'),
    ],
)
def test_local_passes_on_all_commands(machine, words):
    assert machine.run('local.sh', *words)[0] == 0
    assert machine.called('jepa-text') == [list(words)]


@pytest.mark.parametrize(
    'script, program',
    [('local.sh', 'jepa-text'), ('sky.sh', 'sky'), ('docker.sh', 'docker')],
)
def test_program_replaces_the_script_and_gets_its_signals(machine, script, program):
    machine.fake(program, 'echo "last process: $$"')
    data = dict(DATA=str(machine.folder / 'data'))
    process = machine.start(script, *JOB, **LAUNCHERS[script][1], **data)
    output, _ = process.communicate(timeout=30)
    assert output.splitlines()[-1] == f'last process: {process.pid}'


SHOW = 'echo "$JAX_PLATFORMS $*"'


def accelerator(machine, words=('--x=1',), **env):
    """Runs launch/accelerator.sh with an interpreter that prints JAX_PLATFORMS."""
    program = machine.fake('python-run', SHOW)
    return machine.run('accelerator.sh', *words, PYTHON_RUN=str(program), **env)


@pytest.mark.parametrize(
    'driver, device, platforms',
    [
        ('580.65.06', 'cuda', 'cuda,cpu'),
        ('610.2\n610.2', 'cuda', 'cuda,cpu'),
        ('570.133.20', 'cuda12', 'cuda,cpu'),
        ('525.60.13', 'cuda12', 'cuda,cpu'),
        (None, 'cpu', 'cpu'),
    ],
)
def test_environment_depends_on_the_driver(machine, driver, device, platforms):
    if driver:
        machine.fake('nvidia-smi', f'printf "{driver}\n"')
    code, output = accelerator(machine)
    assert code == 0
    assert output.split()[:3] == ['jepa-text', 'device', device]
    *_, checks, _, benchmark = output.splitlines()
    assert checks.startswith(f'{platforms} -m pytest -m accelerator')
    assert benchmark.startswith(f'{platforms} -m jepa_text.main benchmark --config=')
    assert benchmark.endswith(' --x=1')
    assert ('preset=210m' in benchmark) == (device != 'cpu')


def test_a_size_that_is_given_replaces_its_own(machine):
    """A key may be given once."""
    words = '--config.rows=8', '--config.model.preset=610m'
    benchmark = accelerator(machine, words, ACCELERATOR='tpu')[1].splitlines()[-1]
    assert benchmark.endswith(' --config.rows=8 --config.model.preset=610m')
    assert all(benchmark.count(f'{x}=') == 1 for x in ('.rows', 'preset', 'row_length'))


def test_explicit_accelerator_is_used(machine):
    machine.fake('nvidia-smi', 'exit 9')
    assert 'device     tpu' in accelerator(machine, ACCELERATOR='tpu')[1]
    code, output = accelerator(machine, ACCELERATOR='cuda12', JAX_PLATFORMS='cuda')
    assert code == 0 and output.splitlines()[-1].startswith('cuda -m')


@pytest.mark.parametrize(
    'program, script, message',
    [
        ('nvidia-smi', 'echo "No devices were found"; exit 6', 'names no GPU'),
        ('nvidia-smi', 'exit 9', 'names no GPU'),
        ('nvidia-smi', 'echo 470.82.01', 'driver is 470; jax needs 525'),
        ('rocm-smi', '', 'AMD GPUs (ROCm), for which jepa_text has no kernels'),
    ],
)
def test_unusable_accelerator_is_rejected(machine, program, script, message):
    machine.fake(program, script)
    code, output = accelerator(machine)
    assert code == 2 and message in output
    assert 'ACCELERATOR=cpu' in output


# A Python with fake pip and pytest; everything else is real.
PYTHON = """
case "$*" in
  '-m pip freeze'*) printf 'numpy==2.4.6\\ntorch==1.0\\n' ;;
  '-m pip install'*) echo "$PIP_SAYS"; [ -z "$PIP_SAYS" ] ;;
  '-m pytest'*) printf '%s' "$PYTEST_WRITES" >"${!#/--junitxml=}"; exit "$PYTEST_EXIT" ;;
  *) exec REAL "$@" ;;
esac
"""
CASE = '<testcase classname="a" name="b"{}'


def looks_finished(machine, extras):
    """The folder of an environment that counts as complete, with a fake Python."""
    folder = machine.folder / 'venv'
    (folder / 'bin').mkdir(parents=True)
    python = folder / 'bin' / 'python'
    python.symlink_to(machine.fake('python', PYTHON.replace('REAL', sys.executable)))
    (folder / 'made-by-launch').touch()
    (folder / 'installed').write_text(f'{digest()}{extras}\n')
    return folder


@functools.cache
def digest():
    """What the scripts expect of a finished environment, wherever it is."""
    it = f'source launch/venv.sh; digest {sys.executable}'
    return subprocess.run(
        ['bash', '-c', it], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def checks(machine):
    """(exit code, output) of a script that runs tests with more packages."""
    env = {'VENV': str(looks_finished(machine, 'eval viz test gs s3 https stores ray'))}

    def call(script, case='', exit_code=0, pip_says=''):
        return machine.run(
            *script.split(),
            **env,
            PIP_SAYS=pip_says,
            PYTEST_WRITES=f'<testsuites><testsuite>{case}</testsuite></testsuites>',
            PYTEST_EXIT=str(exit_code),
        )

    return call


@pytest.mark.slow
def test_more_packages_are_installed_once_if_needed(machine):
    venv = looks_finished(machine, 'eval viz')
    machine.fake('jepa-text').rename(venv / 'bin' / 'jepa-text')
    del machine.env['JEPA_TEXT']

    def installed(*words, **env):
        before = len(machine.called('python'))
        code, output = machine.run('local.sh', *words, **env, VENV=str(venv), PIP_SAYS='')
        assert code == 0, output
        called = machine.called('python')[before:]
        return [words for words in called if words[:3] == ['-m', 'pip', 'install']]

    assert installed(*JOB) == []
    job = (*JOB[:2], '--workdir=gs://bucket/first')
    packages, own = installed(*job)
    assert '--require-hashes' in packages and own[-1] == str(ROOT)
    lock = packages[packages.index('--constraint') + 1]
    assert re.search(r'requirements/py31[12]\.txt$', lock)
    wanted = (venv / 'wanted.txt').read_text()
    assert all(client in wanted for client in ('gcsfs', 's3fs', 'aiohttp', 'matplotlib'))
    assert installed(*job) == []
    # What is there stays there, with the same versions.
    assert len(installed(*JOB, ACCELERATOR='tpu')) == 2
    wanted = (venv / 'wanted.txt').read_text()
    assert 'gcsfs' in wanted and 'jax[tpu]' in wanted
    assert installed(*job) == installed(*JOB, ACCELERATOR='tpu') == []


@pytest.mark.parametrize(
    'versions, chosen',
    [
        (['3.13.0', '3.12.1', '3.11.7'], '3.12.1'),
        (['3.11.7', '3.13.0'], '3.13.0'),
        (['3.14.0', '3.11.7'], '3.11.7'),
        (['3.10.1', '3.14.0'], '3.14.0'),
    ],
)
def test_python_of_a_version_manager_is_used(machine, versions, chosen):
    """Also if it is not on the PATH; 3.12 first."""
    for version in versions:
        python = machine.folder / '.pyenv' / 'versions' / version / 'bin' / 'python3'
        python.parent.mkdir(parents=True)
        short = version.rpartition('.')[0]
        enough = short != '3.10'
        fake = machine.fake(f'fake-{version}', f'{enough} && echo {short}'.lower())
        python.symlink_to(fake)
    machine.fake('python3.12', 'exit 127')  # a version manager's shim
    code, output = machine.shell('source launch/venv.sh; find_python; echo $INTERPRETER')
    assert code == 0 and f'/{chosen}/' in output


@pytest.mark.parametrize('extra, words', [('gs', 'gcsfs>='), ('gz', 'no extra gz; use')])
def test_requirements_are_those_of_known_extras(machine, extra, words):
    line = f'source launch/venv.sh; VENV={sys.prefix} requirements_of eval {extra}'
    code, output = machine.shell(line)
    assert (code == 0) == (extra == 'gs') and words in output


@pytest.mark.parametrize('venv', ['', 'mine', '/mine'])
def test_an_environment_is_that_of_the_repository_in_any_folder(machine, venv):
    line = f'source {ROOT}/launch/venv.sh; cd /tmp; echo $VENV'
    output = machine.shell(line, machine.folder, VENV=venv)[1]
    assert output == f'{ROOT / (venv or ".venv")}\n'


PASSES, SKIPS, FAILS = map(
    CASE.format, ('/>', '><skipped/></testcase>', '><failure/></testcase>')
)


@pytest.mark.parametrize(
    'script, case, exit_code, code, message',
    [
        ('peers.sh', PASSES, 0, 0, 'peer tests: 1; skipped: none'),
        ('apart.sh remote ray', PASSES, 0, 0, 'remote or ray tests: 1; skipped: none'),
        ('peers.sh', SKIPS, 0, 1, 'tests: 1; skipped: b'),
        ('peers.sh', '', 0, 1, 'tests: 0'),
        ('apart.sh remote', SKIPS, 0, 1, 'tests: 1; skipped: b'),
        ('apart.sh remote', FAILS, 1, 1, 'skipped: none'),
    ],
)
def test_scripts_fail_if_a_test_is_skipped_or_none_ran(
    checks, machine, script, case, exit_code, code, message
):
    got, output = checks(script, case, exit_code)
    assert (got, 'FAILED' in output) == (code, code == 1) and message in output
    calls = machine.called('python')
    installed = [call for call in calls if call[:3] == ['-m', 'pip', 'install']]
    assert script != 'peers.sh' or {'torch==2.13.0', '--constraint'} < {*installed[0]}


@pytest.mark.parametrize(
    'says, code, message',
    [
        ('No matching distribution found for torch==2.13.0', 77, 'did not run'),
        ('connection broken\nNo matching distribution found for torch', 2, 'could not'),
        ('no space left', 2, 'pip could not install torch==2.13.0'),
    ],
)
def test_installation_failures_of_peers(checks, says, code, message):
    got, output = checks('peers.sh', pip_says=says)
    assert got == code and message in output
