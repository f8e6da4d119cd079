"""Validates launcher output with the schemas of Kubernetes and SkyPilot.

The schema of JobSet's own fields exists only in its repository (LOG.md).
"""

import os
import re

import children
import pytest
import yaml
from launching import JOB, ROOT, Machine

pytestmark = pytest.mark.peer
GPU = dict(GPU='nvidia-h100-80gb', HOSTS='2')
TPU = dict(TPU='tpu-v6e-slice', TOPOLOGY='4x4', HOSTS='4', SPOT='1')


@pytest.mark.parametrize('env', [GPU, TPU], ids=['gpu', 'tpu'])
def test_jobset_has_valid_kubernetes_jobs(tmp_path, env):
    kubernetes = pytest.importorskip(
        'kubernetes_validate', reason='kubernetes_validate is not installed'
    )
    named = dict(NAME='first', IMAGE='place/jepa-text:1', SECRET='keys', **env)
    code, output = Machine(tmp_path).run('gke.sh', '--dry-run', *JOB, **named)
    assert code == 0, output
    (workers,) = yaml.safe_load(output)['spec']['replicatedJobs']
    job = dict(apiVersion='batch/v1', kind='Job', metadata=dict(name='first'))
    job['spec'] = workers['template']['spec']
    kubernetes.validate(job, '1.31', strict=True)
    job['spec']['template']['spec']['containers'][0]['arguments'] = []
    with pytest.raises(kubernetes.ValidationError, match='arguments'):
        kubernetes.validate(job, '1.31', strict=True)


# Run with SkyPilot and its dependencies, whose versions differ from ours.
CHECK = """
import sys, yaml
from sky.utils import common_utils, schemas
task, resources = schemas.get_task_schema(), schemas.get_resources_schema()
found = yaml.safe_load(sys.stdin)
common_utils.validate_schema(found, task, 'sky.yaml: ')
common_utils.validate_schema(found['resources'], resources, 'sky.yaml: ')
for key in found['resources'].get('job_recovery', ()):
    assert repr(key) in str(resources), key
"""


def sky(folder, *words, **options):
    """Runs a Python program with SkyPilot, from the folder that launch/peers.sh sets."""
    if 'SKYPILOT' not in os.environ:
        pytest.skip('skypilot: the variable SKYPILOT is not set')
    env = {'HOME': str(folder), 'PYTHONPATH': os.environ['SKYPILOT']}
    return children.run(*words, env=env, code=None, timeout=120, **options)


@pytest.mark.parametrize('file', ['sky.yaml', 'ray_sky.yaml'])
def test_sky_yaml_is_a_valid_task(tmp_path, file):
    task = yaml.safe_load((ROOT / 'launch' / file).read_text())
    done = sky(tmp_path, '-c', CHECK, input=yaml.dump(task))
    assert done.returncode == 0, done.stderr
    wrong = sky(tmp_path, '-c', CHECK, input=yaml.dump({**task, 'num_node': 1}))
    assert wrong.returncode and 'num_node' in wrong.stderr


def test_sky_options_exist(tmp_path):
    machine = Machine(tmp_path)
    machine.fake('sky')
    code, output = machine.run('sky.sh', *JOB, BUCKET='gs://b', INFRA='gcp', SPOT='0')
    assert code == 0, output
    words = [word for call in machine.called('sky') for word in call]
    used = {word.partition('=')[0] for word in words if word.startswith('--')}
    program = f'{os.environ.get("SKYPILOT")}/bin/sky'
    shown = sky(tmp_path, program, *words[:2], '--help')
    known = set(re.findall(r'--[a-z][a-z-]*', shown.stdout))
    assert len(used) > 5 and used <= known, used - known
