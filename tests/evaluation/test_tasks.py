"""Reading of labeled sets in published formats, and error messages."""

import os
import re
import types
from collections import Counter

import pyarrow
import pytest
from examined import jsonl
from pyarrow import parquet

from jepa_text.data.sets import tables
from jepa_text.data.sources import bundled
from jepa_text.evaluation import examiner, identity, tasks
from jepa_text.evaluation.sets import targets
from jepa_text.evaluation.sets import task as examples
from jepa_text.evaluation.sets.retrieval import Retrieval

NAN = float('nan')
TEXTS = [f'Sentence number {n} says "this".' for n in range(10)]


def build(name, **section):
    return tasks.build({'name': name, **section})


# {name: (text fields, template of a and b, the first class)}
GLUE = {
    'sst2': (['sentence'], '', '0'),
    'cola': (['sentence'], '', '0'),
    'mrpc': (['sentence1', 'sentence2'], 'Sentence 1: a\nSentence 2: b', '0'),
    'stsb': (['sentence1', 'sentence2'], 'Sentence 1: a\nSentence 2: b', 0.0),
    'qqp': (['question1', 'question2'], 'Question 1: a\nQuestion 2: b', '0'),
    'mnli': (['premise', 'hypothesis'], 'Premise: a\nHypothesis: b', 'entailment'),
    'rte': (['sentence1', 'sentence2'], 'Premise: a\nHypothesis: b', 'entailment'),
    'qnli': (['question', 'sentence'], 'Question: a\nSentence: b', 'entailment'),
}


@pytest.mark.parametrize('name', GLUE)
def test_glue_files_are_read(name, tmp_path):
    """As on the hub; MNLI's rows without a class are dropped."""
    fields, template, first = GLUE[name]
    columns = dict.fromkeys(fields, TEXTS)
    columns['label'] = [0, 1, -1, 1, 0] * 2 if name == 'mnli' else [0, 1] * 5
    (tmp_path / 'data').mkdir()
    test = 'validation_matched' if name == 'mnli' else 'validation'
    for split in ('train', test, 'test'):
        file = tmp_path / 'data' / f'{split}-00000-of-00001.parquet'
        parquet.write_table(pyarrow.table(columns), file)
    task = build(name, path=str(tmp_path), title=2024)
    assert task.name == '2024' and build(name, path=str(tmp_path)).name == name
    assert len(task.train) == len(task.test) == (8 if name == 'mnli' else 10)
    assert task.test.first[:2] == TEXTS[:2] and task.test.target[0] == first
    assert task.validation is None and (task.test.second is None) == (not template)
    assert task.template.format(first='a', second='b') == template
    assert task.kind == ('scores' if name == 'stsb' else 'labels')
    if name == 'mnli':  # in the order of the numbers of Hugging Face
        assert task.classes == ('entailment', 'neutral', 'contradiction')
        (tmp_path / 'data' / 'validation_mismatched.parquet').hardlink_to(file)
        assert len(build('mnli_mismatched', path=str(tmp_path)).test) == 8


def test_labeled_pairs_and_scored_texts(tmp_path):
    rows = [dict(a=t, b=t + '!', y=n % 2, z=n / 2) for n, t in enumerate(TEXTS * 2)]
    path = jsonl(tmp_path / 'set.jsonl', rows)
    given = dict(path=path, text='a', second='b', template='Q: {first} A: {second}')
    task = build('labeled', label='y', **given)
    assert task.kind == 'labels' and task.template == given['template']
    assert task.test.second[0] == task.test.first[0] + '!'
    task = build('labeled', path=path, text='a', label='z', kind='scores')
    assert task.kind == 'scores' and task.test.second is None
    assert task.template == '' and task.train.target.dtype == float
    assert build('labeled', label='z', kind='scores', **given).test.second is not None


OWN = [
    ('labels', {'text': 'a', 'label': 1}),
    ('labels', {'sentence': 'a', 'target': 1}),
    ('labels', {'sentence1': 'a', 'sentence2': 'b', 'label': 1}),
    ('labels', {'premise': 'a', 'hypothesis': 'b', 'label': 1}),
    ('labels', {'question1': 'a', 'question2': 'b', 'is_duplicate': 1}),
    ('labels', {'question': 'a', 'sentence': 'b', 'label': 1}),
    ('labels', {'text': 'a', 'text_pair': 'b', 'label': 1, 'paragraphs': 3}),
    ('scores', {'text': 'a', 'score': 1.5}),
    ('scores', {'sentence1': 'a', 'sentence2': 'b', 'score': 1.5}),
    ('tags', {'words': ['a'], 'ner': ['O']}),
    ('spans', {'question': 'a', 'context': 'a', 'answers': ['a']}),
    ('retrieval', {'query': 'a', 'document': 'a'}),
]


@pytest.mark.parametrize('kind, row', OWN)
def test_the_kind_is_inferred_from_fields(kind, row, tmp_path):
    rows = [
        {k: f'{v} {n}' if isinstance(v, str) else v for k, v in row.items()}
        for n in range(40)
    ]
    if kind == 'tags':
        rows = [row | {'words': [f'a{n}']} for n in range(40)]
    task = build('own', path=jsonl(tmp_path / 'mine.jsonl', rows))
    assert task.kind == kind and task.name == 'mine'
    if kind in ('labels', 'scores'):
        assert (task.test.second is None) == (len(row) == 2)


def test_texts_that_are_not_read_are_said(tmp_path, capsys):
    rows = [dict(text=t, title=t, id=f'n{n}', label=n % 2) for n, t in enumerate(TEXTS)]
    build('own', path=jsonl(tmp_path / 'a.jsonl', rows))
    words = 'a.jsonl: the texts of title are not read, only text, label.'
    assert words in capsys.readouterr().out


def test_the_kind_of_a_prepared_set_is_inferred(monkeypatch):
    rows = [dict(text=text, label=n % 2) for n, text in enumerate(TEXTS)]
    monkeypatch.setattr(tables.prepared, 'rows', lambda *_: (rows, None, rows))
    task = tasks.build(tasks.section_of('tfds:mine/all'))
    assert task.kind == 'labels' and len(task.test) == len(TEXTS)


def test_the_kind_is_that_of_the_training_set(tmp_path):
    jsonl(tmp_path / 'about.jsonl', [{'query': 'a', 'document': 'b'}])
    for split in ('train', 'test'):
        rows = [dict(text=f'{split} {t}', label=n % 2) for n, t in enumerate(TEXTS)]
        jsonl(tmp_path / f'{split}.jsonl', rows)
    with pytest.warns(UserWarning, match='about.jsonl are not read'):
        assert build('own', path=str(tmp_path)).kind == 'labels'


def test_unknown_fields_raise(tmp_path):
    (tmp_path / 'a.csv').write_text('review,stars\nGood,5\n')
    words = r'fields review, stars, which match no kind .*--config.tasks="\(\{.*a.csv'
    words += r"', 'text': 'review', 'label': 'stars'\},\).*labeled: text.sentence, label"
    with pytest.raises(ValueError, match=words):
        build('own', path=str(tmp_path / 'a.csv'))
    (tmp_path / 'a.conll').write_text('\n'.join(f'a{n} B-X\n' for n in range(9)))
    assert build('own', path=str(tmp_path / 'a.conll')).kind == 'tags'
    (tmp_path / 'b.jsonl').write_text('')
    with pytest.raises(ValueError, match='b.jsonl has no rows'):
        build('own', path=str(tmp_path / 'b.jsonl'))
    (tmp_path / 'none').mkdir()
    with pytest.raises(FileNotFoundError, match='no files in a supported format'):
        build('own', path=str(tmp_path / 'none'))


@pytest.mark.parametrize('template', ['{first}', '{first}{second', '{0} {second}', 'a'])
def test_invalid_templates_raise(template):
    with pytest.raises(ValueError, match="'{first}' and '{second}' exactly once"):
        targets.check_template(template, 'mine')


def test_unknown_and_hidden_labels_raise(tmp_path):
    rows = [dict(text=t, label=n % 2) for n, t in enumerate(TEXTS)]
    jsonl(tmp_path / 'train.jsonl', rows)
    jsonl(tmp_path / 'test.jsonl', [row | {'label': -1} for row in rows])
    hidden = r"none of the test labels \(-1\) is among the training.*kind='scores'"
    unknown = 'row 1: the label is -1, but must be one of: 0, 1'
    for labels, words in (((), hidden), ((0, 1), unknown)):
        with pytest.raises(ValueError, match=words):
            build('labeled', path=str(tmp_path), labels=labels)


SHARED = [
    ('labeled', {'label': 1}, 3, '3 of 10 test examples .30.0 %. share a text'),
    ('labeled', {'label': 1}, 10, 'all 10 test .* is the test set the training set'),
    ('labeled', {'label': 1}, 0, ''),
    ('query_pairs', {'document': 'd'}, 3, '3 of 10 test'),
]


@pytest.mark.parametrize('name, row, shared, words', SHARED)
def test_texts_shared_by_train_and_test_are_said(
    name, row, shared, words, tmp_path, capsys
):
    field = 'query' if name == 'query_pairs' else 'text'
    for split in ('train', 'test'):
        rows = [
            {field: t if n < shared else f'{t} {split}'} | row
            for n, t in enumerate(TEXTS)
        ]
        if 'document' in row:
            rows = [r | {'document': f'{split} {n}'} for n, r in enumerate(rows)]
        rows[0] |= {'label': 0} if 'label' in row else {}
        jsonl(tmp_path / f'{split}.jsonl', rows)
    examiner.task_of({'name': name, 'path': str(tmp_path), 'title': 'mine'})
    said = [line for line in capsys.readouterr().out.splitlines() if 'share' in line]
    assert len(said) == bool(words)
    assert all(re.match(f'mine: {words}', line) for line in said)


def test_a_single_file_is_split_without_shared_texts(tmp_path):
    rows = [{'text': TEXTS[n % 10], 'label': n % 3} for n in range(40)]
    path = jsonl(tmp_path / 'set.jsonl.gz', rows)
    task = build('labeled', path=path)
    assert task.name == 'set' and not set(task.train.first) & set(task.test.first)
    assert len(task.train) + len(task.test) == 40 and set(task.test.target) <= set('012')
    assert build('labeled', path=path).test.first == task.test.first


def test_pairs_that_share_texts_stay_together(tmp_path):
    # Groups of three pairs with one first text, two of them connected by a second text.
    rows = [dict(text_a=f'a{n // 3}', text_b=f'b{n}', score=n) for n in range(60)]
    rows[4]['text_b'] = rows[1]['text_b']
    path = jsonl(tmp_path / 'p.jsonl', rows)
    for seed in range(5):
        task = build('own', path=path, seed=seed)
        assert not set(task.train.texts()) & set(task.test.texts())
        assert len(task.train) + len(task.test) == 60 and 18 <= len(task.test) <= 24
    path = jsonl(tmp_path / 'hub.jsonl', [row | dict(text_a='a') for row in rows])
    with pytest.raises(ValueError, match='60 are connected by shared texts'):
        build('own', path=path)


@pytest.mark.parametrize('name', ['mrpc', 'cola'])
def test_binary_classes_may_be_floats(name, tmp_path):
    for values in ([1.0, 0.0], ['1.0', '0'], [1, 0]):
        sides = [('train', values * 5), ('dev', values * 4)]
        for side, labels in sides:
            rows = [
                dict(sentence=t, sentence1=t, sentence2=t + '.', label=x)
                for t, x in zip(TEXTS, labels)
            ]
            jsonl(tmp_path / f'{side}.jsonl', rows)
        task = build(name, path=str(tmp_path))
        assert task.test.target.tolist() == ['1', '0'] * 4
    rows[3]['label'] = -1
    jsonl(tmp_path / 'dev.jsonl', rows)
    with pytest.raises(ValueError, match='row 4: the label is -1, but must be one of: 0'):
        build(name, path=str(tmp_path))


@pytest.mark.parametrize(
    'spellings, labels',
    [
        *((x, x) for x in (('v1.0', 'v2.0'), (0.5, 1.0), (1, 2.0), ('1', '2'))),
        *((('good', ' good', 'bad', 'bad '), x) for x in ((), ('bad', 'good'))),
    ],
)
def test_classes_may_end_in_zeros_and_have_spaces_around(spellings, labels, tmp_path):
    rows = [dict(text=t, label=x) for t, x in zip(TEXTS, spellings * 5)]
    task = build('labeled', path=jsonl(tmp_path / 'set.jsonl', rows), labels=labels)
    expected = set(map(str, labels or ('bad', 'good')))
    assert set(task.train.target) | set(task.test.target) == expected


def test_the_bundled_task_needs_no_files():
    task = build('bundled')
    assert len(task.train) > 5000 and 'a president' in task.test.target
    # So a constant answer, which is selected if others are worse, is at chance in both.
    for part in (task.train, task.test):
        assert len({*Counter(part.target).values()}) == 1


@pytest.mark.parametrize('kind', ['labels', 'retrieval'])
def test_samples_are_ordered_and_reproducible(kind):
    side = examples.examples(TEXTS, None, list('0101010101'))
    task = examples.Task('t', 'labels', 'accuracy', side, side, validation=side)
    if kind == 'retrieval':
        qrels, pairs = {text: {'d': 1} for text in TEXTS}, [(t, t) for t in TEXTS]
        task = Retrieval('t', dict(zip(TEXTS, TEXTS)), {}, qrels, pairs=pairs)
    config = types.SimpleNamespace(train=4, test=0)
    small, again = examiner.sampled(task, config), examiner.sampled(task, config)
    train = small.train.first if kind == 'labels' else [text for text, _ in small.pairs]
    assert len(train) == 4 and train == sorted(train)
    assert list(small.test.first if kind == 'labels' else small.qrels) == TEXTS
    assert identity.of_data(again) == identity.of_data(small)


def labels(label):
    return [dict(text=text, label=label) for text in TEXTS]


UNNAMED = [{'sentence': 'a', 'label': 1}] * 5


@pytest.mark.parametrize(
    'name, file, content, words',
    [
        ('labeled', 'a.jsonl', None, 'There is no file or folder'),
        ('labeled', 'a.jsonl', UNNAMED, "has no field 'text'.*Available: label, sent"),
        ('sst2', 'a.jsonl', UNNAMED, "whose name starts with 'validation'"),
        ('labeled', 'a.parquet', 'not parquet', 'not a Parquet file'),
        ('labeled', 'a.jsonl', [dict(text=' ', label=1)] * 9, 'has 0 examples of 9 with'),
        ('labeled', '', None, "no file whose name begins with 'train'"),
        ('own', 'a.jsonl', [dict(text='a', score='high')] * 9, "'high' .*kind='labels'"),
        ('own', 'a.jsonl', [dict(text='a', score=NAN)] * 9, '1: nan is not .* be finite'),
        ('labeled', 'a.jsonl', labels(None), 'row 1: the label is None. Give one class'),
        ('labeled', 'a.jsonl', labels(' '), "row 1: the label is ' '"),
        ('labeled', 'a.jsonl', labels(['a']), r"the label is \['a'\]. Give one class"),
        ('labeled', 'a.jsonl', labels(NAN), 'row 1: the label is nan'),
    ],
)
def test_invalid_files_raise(name, file, content, words, tmp_path):
    if isinstance(content, list):
        jsonl(tmp_path / file, content)
    elif content:
        (tmp_path / file).write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        build(name, path=str(tmp_path / file))


def test_unprepared_tensorflow_datasets_raise():
    with pytest.raises(ValueError, match='prepared on this machine as array') as found:
        tables.splits('tfds:no_such_set')
    assert len(str(found.value)) < 400  # and no list of all sets that there are


def test_texts_of_a_folder_keep_their_splits(tmp_path, monkeypatch):
    """Lines of .txt files, or a field of others; also below the home folder."""
    monkeypatch.setenv('HOME', str(tmp_path))
    for split, texts in (('train', TEXTS[:5]), ('test', TEXTS[5:])):
        for name in ('lines', 'rows'):
            (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / f'lines/{split}.txt').write_text('\n\n'.join([*texts, texts[0]]))
        jsonl(tmp_path / f'rows/{split}.jsonl', [dict(text=text) for text in texts])
    for task in (build('own', path='~/lines'), build('texts', path='~/rows')):
        assert task.kind == 'texts' and task.train.first == list(TEXTS[:5])
        assert task.test.first == list(TEXTS[5:])


def test_a_local_folder_is_a_task_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jsonl(tmp_path / 'train.jsonl', [dict(text=t, label='a') for t in TEXTS])
    at = f'{tmp_path}/me@home.jsonl'
    named = ('hub:a/b', 'hub:a/b@main', 'hub:a@b', 'tfds:a')
    for name in (str(tmp_path), f'{tmp_path}/none', *named, at):
        assert tasks.section_of(name) == {'name': 'own', 'path': name}
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'sst2').mkdir()
    assert tasks.section_of('mine') == {'name': 'own', 'path': 'mine'}
    assert tasks.section_of('sst2') == {'name': 'sst2'}
    assert tasks.section_of('Up.CSV') == {'name': 'own', 'path': 'Up.CSV'}
    (tmp_path / 'set.dat').write_text('')  # not a module
    assert tasks.section_of('set.dat') == {'name': 'own', 'path': 'set.dat'}
    jsonl(tmp_path / 'reviews@2024.csv', [])
    for name in ('reviews@2024.csv', 'sst2@2024.csv'):
        own = {'name': 'own', 'path': name}
        named = {'name': 'sst2', 'path': '2024.csv'}
        assert tasks.section_of(name) == (own if name in os.listdir() else named)


def test_unknown_tasks_and_sets_raise():
    for section, words in (
        (dict(name='sst', path='x'), "tasks has no 'sst'. Did you mean 'sst2'"),
        (dict(name='glue', task='sst3', path='x'), "task='sst3'. Did you mean 'sst2'"),
        (dict(name='sentences', made='word_ordr'), "Did you mean 'word_order'"),
        (dict(name='sentences', made='word_order', max_texts=0), 'max_texts=0 must be'),
        (dict(name='labeled', path='x', seed=-1), 'labeled: seed=-1 must be an integer'),
        (dict(name='own', path='x', zero_shot=True), "own does not take 'zero_shot'"),
    ):
        with pytest.raises(ValueError, match=words):
            build(**section)
    with pytest.raises(ValueError, match='needs a name, not None'):
        tasks.build({'path': 'p.jsonl'}, zero_shot=True)


def test_sentences_of_the_bundled_corpus_share_no_document():
    made = build('sentences', made='word_order', max_texts=500)
    assert made.name == 'word_order'
    assert 150 < len(made.test) <= 200 and 250 < len(made.train) <= 300
    for side, split in ((made.train, 'train'), (made.test, 'heldout')):
        whole = ' '.join(' '.join(one['text'].split()) for one in bundled.make(split))
        unchanged = [x for x, label in zip(side.first, side.target) if label == '0']
        assert len(unchanged) > 60 and all(text in whole for text in unchanged)
