"""configs/six_sets.py on sets in the format of launch/small_corpus.py."""

import examined
import pytest

from jepa_text.evaluation import evaluate
from jepa_text.settings import config_file


def write(folder):
    """Writes a few rows of each set; two of them have their own test set."""
    for name in ('trec', 'films', 'boolq', 'brown_pos', '20newsgroups', 'reuters-r52'):
        texts = examined.sea_or_land(40)
        rows = [{'text': x, 'label': y} for x, y in zip(texts.first, texts.target)]
        if name == 'boolq':
            rows = [row | {'second': 'About ' + row['text']} for row in rows]
        if name == 'brown_pos':
            rows = [{'words': (w := row['text'].split()), 'tags': w} for row in rows]
        if '-' in name or name[0] == '2':
            examined.jsonl(folder / name / 'train.jsonl', rows[:30])
            examined.jsonl(folder / name / 'test.jsonl', rows[30:])
        else:
            examined.jsonl(folder / f'{name}.jsonl', rows)


def test_the_config_is_that_of_the_table(tmp_path, capsys):
    """Of each model and set: eight members to choose the rate, three at that rate. Each
    has a hundred epochs, here of one batch."""
    sets = tmp_path / 'sets'
    write(sets)
    examined.saved_model(tmp_path / 'toy')
    config = config_file.read(f'six_sets:models={tmp_path / "toy"},sets={sets}')
    finetuning = config['finetuning'] | {'max_length': 64}
    evaluate.evaluate(config | {'finetuning': finetuning}, tmp_path / 'out', dry_run=True)
    printed = capsys.readouterr().out
    assert '132 members remain to be trained, 13,200 steps in total.' in printed
    assert config['controls'] == ['words', 'untrained']
    tasks = map(evaluate.examiner.task_of, config['tasks'])
    kinds = {task.name: task.kind for task in tasks}
    assert set(kinds) == {*config_file.shared('six_sets').TASKS}
    assert {name for name, kind in kinds.items() if kind != 'labels'} == {'brown_pos'}
    few = config_file.read(f'six_sets:models=x,sets={sets},only=trec,boolq')
    chosen = [f'{sets}/{name}.jsonl' for name in ('trec', 'boolq')]
    assert [task['path'] for task in few['tasks']] == chosen
    with pytest.raises(ValueError, match="only='trek'.*'trec'"):
        config_file.read('six_sets:only=trek')
