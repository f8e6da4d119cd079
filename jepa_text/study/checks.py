"""Checks of a study before its first run trains, so that nothing fails after it.

member_configs   the configs of all members, of which each can be measured
check_runs       runs, sentences and exams, with the rows
missing_tasks    tasks whose files are missing, for a dry run
"""

from jepa_text.data import tokenizers
from jepa_text.evaluation import tasks
from jepa_text.evaluation.during_training import EVALUATIONS
from jepa_text.study import finetuned, members, time_to_target
from jepa_text.training import completion, preflight
from jepa_text.training import recipe as recipes


def missing_tasks(config, configs):
    """Returns ([error of a missing task], result of finetuned.check, empty after one)."""
    texts = {text for one in configs.values() for text in one['evaluate']['tasks']}
    missing, filling = [], set()
    checks = [lambda: filling.update(finetuned.check(config['examine']))]
    checks += [lambda text=text: tasks.build(tasks.section_of(text)) for text in texts]
    for check in checks:
        try:
            check()
        except (ValueError, OSError) as error:
            missing.append(error)
    return missing, filling


def member_configs(config, workdir):
    """Returns {name: config} of all members.

    Raises ValueError for a member whose final state or target could not be read.
    """
    configs = members.configs(config, workdir / 'rows')
    for name, one in configs.items():
        try:
            if not one['checkpoint']['every']:
                raise ValueError(
                    'checkpoint.every=0 saves no checkpoint, but a study needs the last.'
                )
            time_to_target.check_run(config['report']['target'], one['evaluate'])
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
    return configs


def check_runs(config, configs, workdir, filling):
    """Raises ValueError for a run or a sentence that would only fail after training."""
    tokenizer = tokenizers.load(workdir / 'rows' / 'tokenizer.json')
    for item in config['study']['sentences']:
        maximum = config['data']['row_length'] - 2
        if (found := len(tokenizer.encode_masked(item[0]))) > maximum:
            raise ValueError(
                f'study.sentences: {item[0]!r} has {found} tokens, but rows only have '
                f'room for {maximum}. Shorten it, or increase data.row_length.'
            )
    checked, made = [], []
    for name, run_config in configs.items():
        # Seeds of a run differ in nothing else.
        key = {k: v for k, v in run_config.items() if k not in ('name', 'seed')}
        if key in checked:
            continue
        checked.append(key)
        try:
            completed = completion.with_init_from(run_config, workdir / name)
            made.append(recipes.make(completed, EVALUATIONS))
            preflight.switches(made[-1])
            finetuned.check_run(config['examine'], filling, made[-1])
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error
    time_to_target.check_logged(config['report']['target'], made)
