"""Classes of labeled sets: their order, types and names, and numbers that are scores."""

import json
import re

import examined
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from jepa_text.evaluation import finetune, identity, tasks
from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.metrics import answers
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as sets
from jepa_text.pretrained import base, exported, saved


def build(path, **section):
    return tasks.build({'name': 'labeled', 'path': str(path), **section})


def write(path, values):
    """Writes a set with three rows of each of these labels."""
    rows = [{'text': f'text {n}', 'label': x} for n, x in enumerate([*values] * 3)]
    if path.suffix == '.jsonl':
        examined.jsonl(path, rows)
    elif path.suffix == '.csv':
        lines = [f'{row["text"]},{row["label"]}' for row in rows]
        path.write_text('\n'.join(['text,label', *lines]) + '\n')
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def kind_of(task):
    return finetune.kind_of(sets.with_validation(task, 0.2), Finetuning())


CLASSES = [
    ('a.jsonl', range(11), tuple(range(11))),
    ('a.csv', range(11), tuple(range(11))),
    ('a.parquet', range(11), tuple(range(11))),
    ('a.jsonl', [str(n) for n in range(11)], tuple(str(n) for n in range(11))),
    ('a.jsonl', [10, -1, 2.0], (-1, 2, 10)),
    ('a.csv', ['1.0', '0.0'], (0, 1)),
    ('a{b}.csv', ['007', '7'], ('007', '7')),
    ('a.jsonl', [True, False], (False, True)),
    ('a.parquet', [True, False], (False, True)),
    ('a.csv', ['true', 'false'], (False, True)),
    ('a.csv', ['True', 'maybe'], ('True', 'maybe')),
    ('a.jsonl', [0.5, 1, 1.5], (0.5, 1, 1.5)),
    ('a.csv', ['pos', 'neg'], ('neg', 'pos')),
    ('a.jsonl', [0, '0', 1, '1', 1], ('0', '1')),
]


@pytest.mark.parametrize('name, values, expected', CLASSES)
def test_classes_keep_their_order_and_type(name, values, expected, tmp_path):
    kind = kind_of(build(write(tmp_path / name, values)))
    assert repr(kind.labels) == repr(expected)
    # Predictions, saved and exported models have the same.
    answers = kind.answers(np.eye(len(expected)), None, None)
    assert repr([answer['label'] for answer in answers]) == repr([*expected])
    again = saved.kind_of(json.loads(json.dumps(saved.kind_section(kind))))
    assert repr(again.labels) == repr(expected)
    count = len(expected)
    params = {'classifier': {'kernel': np.eye(count), 'bias': np.zeros(count)}}
    head = exported.head_of(kind, params)
    assert head.labels == tuple(map(str, expected))
    assert repr(exported.kind_of(head).labels) == repr(expected)


def test_given_classes_are_in_the_given_order(tmp_path):
    path = write(tmp_path / 'a.jsonl', ['low', 'high', 'mid'])
    task = build(path, labels=('low', 'mid', 'high'))
    assert kind_of(task).labels[1] == 'mid'
    # Results of another order are not those of this task.
    ids = [identity.of_task(sets.with_validation(one)) for one in (task, build(path))]
    assert ids[0] != ids[1]


def test_names_of_class_labels_are_kept_in_order(tmp_path):
    """Also those of classes that do not occur; rows without a class are dropped."""
    names = ['world', 'sport', 'art', 'none']
    path = write(tmp_path / 'a.parquet', [2, 0, 1, -1])
    feature = {'label': {'names': names, '_type': 'ClassLabel'}}
    info = json.dumps({'info': {'features': feature}}).encode()
    table = parquet.read_table(path).replace_schema_metadata({b'huggingface': info})
    parquet.write_table(table, path)
    with pytest.warns(UserWarning, match='3 of 12 rows have no class .*first in row 4'):
        task = build(path)
    assert kind_of(task).labels == tuple(names)
    assert set(task.train.target) | set(task.test.target) == {'world', 'sport', 'art'}


@pytest.mark.parametrize('kind_of_number', [int, float, bool])
def test_targets_of_a_user_keep_their_order(kind_of_number):
    target = (np.arange(33) % 11).astype(kind_of_number)
    side = sets.Examples([f'text {n}' for n in range(33)], None, target)
    task = sets.Task('mine', 'labels', 'accuracy', side, side)
    kind = kind_of(task)
    assert kind.labels == tuple(np.unique(target).tolist())
    assert type(kind.labels[0]) is kind_of_number
    numbers = [base.label_index(kind.labels, x) for x in target]
    assert numbers == np.unique(target, return_inverse=True)[1].tolist()
    given = side.target, side.target.tolist(), kind.labels
    measured = answers.measure('labels', *given)
    assert measured.standard['accuracy'] == 1.0


SCORES = [0.0, 0.25, 0.5, 0.75, 1.25, 3.0]


@pytest.mark.parametrize(
    'name, values, options, expected',
    [
        ('a.jsonl', SCORES, {}, 'scores'),
        ('a.csv', SCORES, {}, 'scores'),
        ('a.parquet', SCORES, {}, 'scores'),
        ('a.csv', SCORES, {'name': 'own'}, 'scores'),
        ('a.csv', SCORES, {'kind': 'labels'}, 'labels'),
        ('a.csv', SCORES, {'labels': SCORES}, 'labels'),
        ('a.jsonl', [float(n) for n in range(9)], {}, 'labels'),
        ('a.jsonl', range(9), {'kind': 'scores'}, 'scores'),
        ('a.jsonl', ['v1.5', 'v1.25', 'v2.5', 'v3.5'], {}, 'labels'),
        ('a.parquet', [*map(str, SCORES)], {}, 'scores'),
    ],
)
def test_more_than_a_few_fractions_are_scores(
    name, values, options, expected, tmp_path, capsys
):
    path = write(tmp_path / name, values)
    task = build(path, **options)
    assert task.kind == expected
    said = capsys.readouterr().out
    assert ("kind='labels'" in said) == (expected == 'scores' and 'kind' not in options)
    if expected == 'scores':
        assert task.metric == 'spearman' and set(task.train.target) <= {
            *map(float, values)
        }
    if said:
        assert said.count('\n') == 1 and '4 fractions such as 0.25' in said


@pytest.mark.parametrize('odd', ['nan', '-inf', '"2,5"'])
def test_one_odd_number_does_not_make_scores_classes(odd, tmp_path):
    said = re.escape(f'row 3: {odd.strip(chr(34))!r} is not a number')
    with pytest.raises(ValueError, match=f"{said}.* kind='labels'"):
        build(write(tmp_path / 'a.csv', [0.25, 0.5, odd, 0.75, 1.25]))


def test_an_unknown_kind_raises(tmp_path):
    with pytest.raises(ValueError, match="kind='score'"):
        build(write(tmp_path / 'a.jsonl', SCORES), kind='score')
    with pytest.raises(ValueError, match="row 1: the label is b'a'"):
        targets.labels([b'a'], 'mine')
