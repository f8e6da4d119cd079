"""slurm.sh, gke.sh, sky.sh and docker.sh, with fake programs."""

import json
import re
import shlex
import shutil
import signal
import time

import children
import pytest
import yaml
from launching import JOB, ROOT, Machine

LAUNCH = ROOT / 'launch'


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


# Runs the command after its own options, once.
SRUN = 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"'


@pytest.fixture
def slurm(machine):
    """(exit code, output) of slurm.sh as a job; `state` is the output of squeue."""
    machine.fake('srun', SRUN)
    machine.fake('scontrol')
    machine.fake('scancel')
    machine.fake('squeue', 'echo "$STATE"')

    def call(*words, state='RUNNING', **env):
        return machine.run('slurm.sh', *words, SLURM_JOB_ID='7', STATE=state, **env)

    # A job starts in the folder that it was submitted from, the repository.
    (machine.folder / 'launch').symlink_to(LAUNCH)
    (machine.folder / 'configs').symlink_to(ROOT / 'configs')
    return call


def test_sbatch_gets_the_options(machine):
    machine.fake('sbatch')
    env = dict(NODES='4', GPUS='8', TIME='24:00:00')
    code, output = machine.run('slurm.sh', *JOB, **env)
    assert code == 0, output
    (words,) = machine.called('sbatch')
    assert words[-4:] == ['launch/slurm.sh', *JOB]
    assert {*words[:-4]} == {
        *(f'--chdir={ROOT}', '--output=runs/slurm-%j.out', '--nodes=4', '--exclusive'),
        *('--gpus-per-node=8', '--time=24:00:00'),
    }
    machine.run('slurm.sh', *JOB, CPUS='3')
    options = machine.called('sbatch')[-1]
    assert '--cpus-per-task=3' in options
    assert not re.search('exclusive|gpus|time', ' '.join(options))


def test_sbatch_reads_its_directives():
    lines = (LAUNCH / 'slurm.sh').read_text().splitlines()
    directives = [line[8:] for line in lines if line.startswith('#SBATCH ')]
    assert {'--requeue', '--signal=B:USR1@120', '--open-mode=append'} < set(directives)
    # sbatch stops reading at the first command.
    first = next(i for i, line in enumerate(lines) if line and line[0] != '#')
    assert max(i for i, line in enumerate(lines) if line.startswith('#SBATCH')) < first


@pytest.mark.parametrize(
    'state, code',
    [*(('RUNNING', code) for code in (0, 1, 2, 75, 87, 137, 143)), ('COMPLETING', 75)],
)
def test_recoverable_failures_are_requeued(slurm, machine, code, state):
    machine.fake('jepa-text', f'exit {code}')
    got, output = slurm(*JOB, state=state)
    assert got == code, output
    is_requeued = code in (1, 75, 87, 137) and state == 'RUNNING'
    assert machine.called('scontrol') == ([['requeue', '7']] if is_requeued else [])
    assert machine.called('jepa-text') == [list(JOB)]


def test_failures_are_counted_until_the_next_saved_stop(slurm, machine):
    def requeues(code, restarts):
        machine.fake('jepa-text', f'exit {code}')
        before = len(machine.called('scontrol'))
        output = slurm(*JOB, RESTARTS=str(restarts))[1]
        return len(machine.called('scontrol')) - before, output

    assert [requeues(code, 2)[0] for code in (1, 87)] == [1, 1]
    count, output = requeues(1, 2)
    assert count == 0 and 'queued again 2 times after failures' in output
    assert requeues(75, 2)[0] == 1
    assert requeues(1, 2)[0] == 1
    assert requeues(1, 0)[0] == 0


@pytest.mark.parametrize('seconds', [0, 1])
def test_signal_before_the_time_limit_stops_and_requeues(slurm, machine, seconds):
    ready, cancelled = machine.folder / 'ready', machine.folder / 'cancelled'
    poll = f'for i in {{1..200}}; do [ -e {cancelled} ] && exit 75; sleep 0.1; done'
    machine.fake('jepa-text', f'touch {ready}; {poll}')
    # It returns before or after the job has ended.
    machine.fake('scancel', f'touch {cancelled}; sleep {seconds}')
    process = machine.start('slurm.sh', *JOB, SLURM_JOB_ID='7', STATE='RUNNING')
    children.until(ready.exists)
    # The TERM that SLURM sends to all processes must not be forwarded.
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert not cancelled.exists()
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 75, output
    assert machine.called('scancel') == [['--signal=TERM', '7']]
    assert machine.called('scontrol') == [['requeue', '7']]


def test_job_outside_the_repository_is_rejected(machine):
    code, output = machine.run('slurm.sh', *JOB, SLURM_JOB_ID='7')
    assert code == 2 and 'is not the repository' in output


ODD = '--config.name=a "b" \\ $HOME & $NAME # 1'
GPU = dict(NAME='first', IMAGE='place/jepa-text:cuda', GPU='nvidia-h100-80gb', HOSTS='2')
TPU = dict(NAME='first', IMAGE='place/jepa-text:tpu', TPU='tpu-v6e-slice', TOPOLOGY='4x4')


RUN = ('train', 'toy:mlm', '--workdir=gs://bucket/first')


def jobset(machine, *words, **env):
    """The parsed manifest, its only group of workers, their pod and its container."""
    code, output = machine.run('gke.sh', '--dry-run', *words, **env)
    assert code == 0, output
    manifest = yaml.safe_load(output)
    (workers,) = manifest['spec']['replicatedJobs']
    pod = workers['template']['spec']['template']['spec']
    (container,) = pod['containers']
    return manifest, workers, pod, container


@pytest.mark.parametrize('env', [GPU, TPU], ids=['gpu', 'tpu'])
def test_jobset_is_complete(machine, env):
    manifest, workers, pod, container = jobset(machine, *JOB, ODD, **env)
    assert manifest['metadata']['name'] == 'first'
    job = workers['template']['spec']
    assert container['args'] == [*JOB, ODD] and container['image'] == env['IMAGE']
    assert job['completionMode'] == 'Indexed' and job['backoffLimit'] == 0
    assert job['parallelism'] == job['completions'] == int(env.get('HOSTS', 1))
    # Kubernetes rejects a pod failure policy with any other value.
    assert pod['restartPolicy'] == 'Never'
    assert pod['securityContext']['runAsNonRoot'] is True
    volumes = {volume['name'] for volume in pod['volumes']}
    assert {mount['name'] for mount in container['volumeMounts']} == volumes
    assert container['resources']['requests'] == container['resources']['limits']


@pytest.mark.parametrize('env, restarts', [({}, 5), (dict(RESTARTS='0'), 0)])
def test_jobset_handles_exit_codes(machine, env, restarts):
    manifest, workers, *_ = jobset(machine, *JOB, **GPU, **env)
    policy = manifest['spec']['failurePolicy']
    assert policy['maxRestarts'] == restarts
    usage, resume = policy['rules']
    assert usage['action'] == 'FailJobSet'
    assert resume['action'] == 'RestartJobSetAndIgnoreMaxRestarts'
    # The message of Kubernetes.
    says = 'Container jepa-text for pod a/b failed with exit code {} matching FailJob rul'
    (pattern,) = usage['onJobFailureMessagePatterns']
    assert [bool(re.search(pattern, says.format(c))) for c in (2, 75, 255)] == [1, 0, 0]
    exits, evicted = workers['template']['spec']['podFailurePolicy']['rules']
    assert exits['onExitCodes']['values'] == [2, 75]
    assert exits['onExitCodes']['containerName'] == 'jepa-text'
    assert evicted['onPodConditions'] == [{'type': 'DisruptionTarget', 'status': 'True'}]


def test_hosts_of_a_jobset_have_a_coordinator(machine):
    _, workers, _, container = jobset(machine, *JOB, **GPU)
    environment = {e.pop('name'): e for e in container['env']}
    # The name of the first pod of a group.
    host = f'first-{workers["name"]}-0-0.first:8476'
    assert environment['JAX_COORDINATOR_ADDRESS'] == {'value': host}
    assert environment['JAX_NUM_PROCESSES'] == {'value': '2'}
    index = environment['JAX_PROCESS_ID']['valueFrom']['fieldRef']['fieldPath']
    assert index == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert container['resources']['limits'] == {'nvidia.com/gpu': 8}
    given = TPU | dict(HOSTS='4', SPOT='1')
    manifest, workers, pod, container = jobset(machine, *JOB, **given)
    assert workers['replicas'] == 1 and workers['template']['spec']['parallelism'] == 4
    # The cluster sets the variables itself.
    assert container['env'] == []
    assert container['resources']['limits'] == {'google.com/tpu': 4}
    assert pod['nodeSelector'] == {
        'cloud.google.com/gke-tpu-accelerator': 'tpu-v6e-slice',
        'cloud.google.com/gke-tpu-topology': '4x4',
        'cloud.google.com/gke-spot': 'true',
    }
    assert 'exclusive-topology' in json.dumps(manifest['metadata']['annotations'])


def test_kubectl_gets_the_manifest_of_a_dry_run(machine):
    given = machine.folder / 'given'
    machine.fake('kubectl', f'cat >{given}')
    assert machine.run('gke.sh', *JOB, **GPU)[0] == 0
    assert machine.called('kubectl') == [['apply', '--filename=-']]
    assert given.read_text() == machine.run('gke.sh', '--dry-run', *JOB, **GPU)[1]


def test_a_jobset_at_an_address_has_no_volume(machine):
    env = dict(GPU, HOSTS='1', ACCOUNT='opens-buckets', SECRET='keys')
    *_, pod, container = jobset(machine, *RUN, **env)
    assert container['args'] == [*RUN]
    assert container['envFrom'] == [{'secretRef': {'name': 'keys'}}]
    assert pod['serviceAccountName'] == 'opens-buckets'
    assert pod['volumes'][0] == {'name': 'data', 'emptyDir': {}}
    # A claim that is set is mounted anyway.
    _, output = machine.run('gke.sh', '--dry-run', *RUN, **env, CLAIM='mine')
    assert 'claimName: "mine"' in output


def test_sky_task():
    task = yaml.safe_load((LAUNCH / 'sky.yaml').read_text())
    assert task['resources']['use_spot'] is True
    recovery = task['resources']['job_recovery']
    assert 75 in recovery['recover_on_exit_codes']
    assert 2 not in recovery['recover_on_exit_codes']
    assert recovery['max_restarts_on_errors'] == 0
    assert task['file_mounts']['/data']['source'] == '${BUCKET}'
    assert set(task['envs']) == {'COMMAND', 'BUCKET', 'ACCELERATOR'}


@pytest.mark.parametrize('nodes, accelerator', [(1, 'cuda'), (2, 'cuda'), (2, 'tpu')])
def test_command_of_a_sky_node(machine, nodes, accelerator):
    machine.fake('sky')
    odd = "--config.name=a 'b' $HOME"
    assert machine.run('sky.sh', *JOB, odd, BUCKET='s3://b', NODES=str(nodes))[0] == 0
    (words,) = machine.called('sky')
    assert words[:2] == ['jobs', 'launch'] and words[-1] == 'launch/sky.yaml'
    env = dict(word[6:].split('=', 1) for word in words if word.startswith('--env='))
    (machine.folder / 'launch').mkdir()
    stub = 'printf "%s\\n" "$@"; env | sed -n /^JAX_/p'
    (machine.folder / 'launch' / 'local.sh').write_text(stub)
    sky = dict(
        SKYPILOT_NUM_NODES=str(nodes),
        SKYPILOT_NODE_RANK='1',
        SKYPILOT_NODE_IPS='10.0.0.1\n10.0.0.2',
    )
    run = yaml.safe_load((LAUNCH / 'sky.yaml').read_text())['run']
    env |= sky | dict(ACCELERATOR=accelerator)
    lines = machine.shell(run, machine.folder, **env)[1].splitlines()
    assert lines[:4] == [*JOB, odd]
    several = ['JAX_COORDINATOR_ADDRESS=10.0.0.1:8476', 'JAX_NUM_PROCESSES=2']
    several.append('JAX_PROCESS_ID=1')
    assert sorted(lines[4:]) == (several if (nodes, accelerator) == (2, 'cuda') else [])


MEMBERS = ('study', '--config=quickstart', '--workdir=/shared/seeds')


def test_members_run_on_the_nodes_of_a_slurm_job(machine):
    """One process drives them, on the first node."""
    machine.fake('srun', SRUN)
    machine.fake('ray')
    machine.fake('scontrol', 'echo node-3; echo node-4')
    (machine.bin / 'realpath').symlink_to(shutil.which('realpath'))
    job = dict(SLURM_JOB_ID='7', SLURM_JOB_NODELIST='node-[3-4]', SLURM_CPUS_ON_NODE='8')
    code, output = machine.run('ray_slurm.sh', *MEMBERS, **job, SLURM_JOB_NUM_NODES='2')
    assert code == 0, output
    options = ['--ntasks-per-node=1', '--cpus-per-task=8']
    assert machine.called('srun')[0][:2] == options
    (words,) = machine.called('ray')
    start = ['symmetric-run', '--address', 'node-3:6379', '--min-nodes', '2', '--']
    assert words == [*start, 'jepa-text', *MEMBERS, '--engine=ray']
    code, output = machine.run('ray_slurm.sh', *MEMBERS)
    assert code == 2 and 'submit it with a command: sbatch' in output


@pytest.mark.parametrize('rank', [0, 1])
def test_members_run_on_the_nodes_of_a_sky_cluster(machine, rank):
    task = yaml.safe_load((LAUNCH / 'ray_sky.yaml').read_text())
    # Other kinds of mount cannot rename folders or append to files.
    mount = dict(source='${BUCKET}', mode='MOUNT_CACHED')
    assert task['file_mounts'] == {'/data': mount}
    starts = machine.folder / 'sky_templates' / 'ray'
    starts.mkdir(parents=True)
    (starts / 'start_cluster').symlink_to(machine.fake('start_cluster'))
    machine.fake('jepa-text', 'echo "$RAY_ADDRESS"')
    nodes = dict(SKYPILOT_NODE_RANK=str(rank), SKYPILOT_NODE_IPS='10.0.0.1\n10.0.0.2')
    nodes['COMMAND'] = shlex.join(MEMBERS)
    code, output = machine.shell(task['run'], machine.folder, **nodes)
    assert code == 0 and machine.called('start_cluster') == [[]], output
    called = machine.called('jepa-text')
    assert called == ([[*MEMBERS, '--engine=ray']] if rank == 0 else [])
    assert output == ('10.0.0.1:6379\n' if rank == 0 else '')


def test_members_run_on_the_nodes_of_kuberay():
    job = yaml.safe_load((LAUNCH / 'ray_job.yaml').read_text())
    assert job['kind'] == 'RayJob' and job['spec']['entrypoint'].endswith(
        '--workdir=/data/seeds --engine=ray --config.engine.gpus=1'
    )
    cluster = job['spec']['rayClusterSpec']
    (group,) = cluster['workerGroupSpecs']
    assert cluster['headGroupSpec']['rayStartParams'] == {'num-cpus': '0'}
    for one in (cluster['headGroupSpec'], group):
        (container,) = one['template']['spec']['containers']
        assert container['volumeMounts'] == [{'name': 'data', 'mountPath': '/data'}]
        limits = container['resources']
        assert limits['requests'] == limits['limits']


def test_container_gets_credentials_for_addresses(machine):
    machine.fake('docker')
    job = ('prepare', JOB[1], '--workdir=s3://bucket/rows')
    env = dict(AWS_ACCESS_KEY_ID='a', GOOGLE_APPLICATION_CREDENTIALS='/keys/one.json')
    data = str(machine.folder / 'runs')
    code, output = machine.run('docker.sh', *job, DATA=data, **env)
    assert code == 0, output
    _, run = machine.called('docker')
    assert {'--env=AWS_ACCESS_KEY_ID', '--env=GOOGLE_APPLICATION_CREDENTIALS'} < {*run}
    assert '--volume=/keys/one.json:/keys/one.json:ro' in run
    assert not [word for word in run if word.startswith('--env=AWS_SECRET')]


@pytest.mark.parametrize(
    'words, lost',
    [
        (('plan', JOB[1]), ''),
        (('export', '--workdir=hf:some/model', '--to=/data/exported'), ''),
        (('export', '--workdir=small', '--to=/data/exported'), ''),
        (('export', '--workdir=/data/first', '--to=s3://bucket/exported'), ''),
        (('export', '--workdir=/data/first', '--to=exports/first'), '--to=exports/first'),
        (('train', JOB[1], '--workdir=gs://bucket'), '--workdir=gs://bucket'),
        (('train', JOB[1], '--workdir=gs://bucket/first'), ''),
        (('train', JOB[1], '--workdir=s3://bucket/first'), '--workdir=s3://bucket/first'),
        (('prepare', JOB[1], '--workdir=s3://bucket/rows'), ''),
        (('tokenizer', 'tokenizer', '--workdir=gs://bucket/words'), ''),
        (('finetune', 'finetune', '--workdir=gs://bucket/tuned'), ''),
        (('study', 'quickstart', '--workdir=gs://bucket/a'), '--workdir=gs://bucket/a'),
    ],
)
def test_what_a_command_reads_and_writes_outlives_the_machine(machine, words, lost):
    code, output = machine.run('docker.sh', '--dry-run', *words)
    assert (code, f'{lost} is lost with' in output) == ((2, True) if lost else (0, False))


def test_docker_builds_and_runs(machine):
    machine.fake('docker')
    data = machine.folder / 'runs'
    env = dict(ACCELERATOR='cuda', IMAGE='place/jepa-text:1', DATA='runs', PUSH='1')
    code, output = machine.run('docker.sh', *JOB, **env)
    assert code == 0, output
    build, push, run = machine.called('docker')
    assert build[0] == 'build' and '--build-arg=EXTRA=cuda' in build
    assert push == ['push', 'place/jepa-text:1']
    assert run[0] == 'run' and run[-4:] == ['place/jepa-text:1', *JOB]
    assert {'--gpus=all', '--init', f'--volume={data}:/data'} < {*run} and data.is_dir()
    # The exit code is that of the container.
    machine.fake('docker', '[ "$1" != run ] || exit 75')
    assert machine.run('docker.sh', *JOB, DATA=str(data))[0] == 75
    assert machine.run('docker.sh', 'build')[0] == 0
    assert machine.called('docker')[-1][0] == 'build'


def test_image_is_locked_small_and_unprivileged():
    lines = (LAUNCH / 'docker' / 'Dockerfile').read_text().splitlines()
    bases = {line.split()[1] for line in lines if line.startswith('FROM ')}
    assert bases == {'python:3.12-slim-bookworm'}
    # Only venv.sh installs Python packages; it verifies their hashes.
    assert not any('pip install' in line for line in lines)
    assert any(line.endswith('launch/venv.sh gs s3 https ray $EXTRA') for line in lines)
    users = [line.split()[1] for line in lines if line.startswith('USER ')]
    assert users and users[-1].split(':')[0] not in ('root', '0')
    variables = ' '.join(line for line in lines if line.startswith(('ARG ', 'ENV ')))
    assert not re.search('token|key|secret|password', variables, re.I)
    copied = [line.split()[1:-1] for line in lines if re.match('COPY (?!--)', line)]
    assert all((ROOT / name).exists() for names in copied for name in names)
    # The image has only listed files: no checkpoints, no git history.
    ignore = (LAUNCH / 'docker' / 'Dockerfile.dockerignore').read_text().splitlines()
    listed = {line[1:].strip('/') for line in ignore if line.startswith('!')}
    assert ignore[0] == '*'
    assert listed == {name.split('/')[0] for names in copied for name in names}
