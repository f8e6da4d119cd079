"""The members of a study are examined: fine-tuned to tasks, as `jepa-text evaluate` does.

workdir/examined/   results, claims, tables and evaluation.html of that command
"""

from jepa_text.config import schema
from jepa_text.evaluation import evaluate, examiner
from jepa_text.evaluation.config import Config
from jepa_text.running import restore
from jepa_text.study import members


def check(section):
    """Raises ValueError, before anything is trained, for a section that evaluate does not
    take, and tasks that cannot be made. Nothing is examined without one."""
    if not section:
        return
    if 'models' in section:
        raise ValueError('examine.models: the members of the study are examined.')
    asked = schema.read(Config, {**section, 'models': ('a member',)})
    for task in asked.tasks:
        examiner.task_of(task)


def run(section, workdir, names):
    """Examines those members whose checkpoints are there, and says which are not; several
    workers may do so at once. Raises as evaluate."""
    if not section:
        return
    there = [name for name in names if restore.steps(workdir / name / 'checkpoints')]
    if gone := [name for name in names if name not in there]:
        print(f'Not examined, as their checkpoints are gone: {", ".join(gone)}')
    if there:
        models = [str(workdir / name) for name in there]
        evaluate.evaluate({**section, 'models': models}, workdir / members.EXAMINED)
