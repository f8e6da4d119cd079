"""configs/six_sets.py on sets in the format of launch/small_corpus.py."""

import json

import examined
import pytest

from jepa_text.evaluation import evaluate
from jepa_text.settings import config_file


@pytest.fixture(scope='module')
def sets(tmp_path_factory):
    """A folder with a few rows of each set; two of them have their own test set."""
    folder = tmp_path_factory.mktemp('sets')
    for name in ('trec', 'films', 'boolq', 'brown_pos', '20newsgroups', 'reuters-r52'):
        texts = examined.sea_or_land(40)
        rows = [{'text': x, 'label': y} for x, y in zip(texts.first, texts.target)]
        if name == 'boolq':
            rows = [row | {'second': 'About ' + row['text']} for row in rows]
        if name == 'brown_pos':
            rows = [{'words': (w := row['text'].split()), 'tags': w} for row in rows]
        lines = [json.dumps(row) + '\n' for row in rows]
        if '-' in name or name[0] == '2':
            (folder / name).mkdir()
            (folder / name / 'train.jsonl').write_text(''.join(lines[:30]))
            (folder / name / 'test.jsonl').write_text(''.join(lines[30:]))
        else:
            (folder / f'{name}.jsonl').write_text(''.join(lines))
    return folder


def test_the_config_is_that_of_the_table(sets, tmp_path, capsys):
    """Of each model and set: eight members to choose the rate, three at that rate. Each
    has a hundred epochs, here of one batch."""
    examined.saved_model(tmp_path / 'toy')
    config = config_file.read(f'six_sets:models={tmp_path / "toy"},sets={sets}')
    finetuning = config['finetuning'] | {'max_length': 64}
    evaluate.evaluate(config | {'finetuning': finetuning}, tmp_path / 'out', dry_run=True)
    printed = capsys.readouterr().out
    assert '132 members remain to be trained, 13,200 steps in total.' in printed
    assert config['controls'] == ['words', 'untrained']
    kinds = {
        task.name: task.kind for task in map(evaluate.examiner.task_of, config['tasks'])
    }
    assert set(kinds) == {*config_file.shared('six_sets').TASKS}
    assert {name for name, kind in kinds.items() if kind != 'labels'} == {'brown_pos'}
    few = config_file.read(f'six_sets:models=x,sets={sets},only=trec,boolq')
    assert [task['path'] for task in few['tasks']] == [
        f'{sets}/trec.jsonl',
        f'{sets}/boolq.jsonl',
    ]
    with pytest.raises(ValueError, match="only='trek'.*'trec'"):
        config_file.read('six_sets:only=trek')
