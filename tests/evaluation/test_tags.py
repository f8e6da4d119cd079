"""Reading of sequence labeling sets from columns and rows, and error messages."""

import gzip
import json

import examined
import hypothesis
import pyarrow
import pytest
from hypothesis import strategies
from pyarrow import parquet
from seqeval import scheme
from seqeval.metrics import sequence_labeling as labeling

from jepa_text.data.sets import columns
from jepa_text.evaluation import tasks
from jepa_text.evaluation.sets import task as examples
from jepa_text.evaluation.tasks import tags

WORDS = [['EU', 'rejects', 'German', 'call'], ['Peter', 'Blackburn'], ['#', '5']]
TAGS = [['B-ORG', 'O', 'B-MISC', 'O'], ['B-PER', 'I-PER'], ['O', 'O']]
# As the files of 2003 have it: B- only between two entities that touch.
CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP I-ORG
rejects VBZ B-VP O
German JJ B-NP I-MISC
call NN I-NP O

Peter NNP B-NP I-PER
Blackburn NNP I-NP I-PER


# # B-NP O
5 CD I-NP O
"""
UNER = """# newdoc id = 1
# sent_id = 1
# text = EU rejects German call
1\tEU\tB-ORG\t-\tann
2\trejects\tO\t-\tann
3\tGerman\tB-OTH\t-\tann
4\tcall\tO\t-\tann
"""


def build(name='tags', **section):
    return tasks.build({'name': name, **section})


def test_a_short_line_of_a_document_is_no_row(tmp_path):
    (tmp_path / 'one.txt').write_text(f'-DOCSTART- O\n\n{UNER}')
    (made,) = columns.sentences(tmp_path / 'one.txt', words=1, tags=2)
    assert made.words == WORDS[0]


HASHTAGS = '#Lakers B-group\nwin O\n\n#fb HT\n#yolo HT\n'


@pytest.mark.parametrize('comment', ['', '# id 1\n', '#id 1 2\n', '#\n', '# id\n'])
@pytest.mark.parametrize('between', [' ', '\t'])
def test_hashtags_are_words_and_comments_are_not(comment, between, tmp_path):
    text = HASHTAGS.replace(' ', between)
    (tmp_path / 'a.conll').write_text(f'{comment}{text}\n{comment}{text}')
    made = [one.words for one in columns.sentences(tmp_path / 'a.conll')]
    assert made == [['#Lakers', 'win'], ['#fb', '#yolo']] * 2


def write_rows(path, words, tags, fields=('tokens', 'tags')):
    rows = [dict(zip(fields, pair)) for pair in zip(words, tags)] * 4
    return examined.jsonl(path, rows)


def splits(folder, text, ending, names=('train', 'valid', 'test')):
    for name in names:
        (folder / f'{name}{ending}').write_text('\n'.join([text] * 4))


def test_conll_2003_files_are_converted_to_iob2(tmp_path):
    splits(tmp_path, CONLL, '.txt')
    task = build('conll2003', path=str(tmp_path))
    assert task.kind == 'tags' and task.metric == 'entity_f1' and task.name == 'conll2003'
    for part in (task.train, task.validation, task.test):
        assert part.first[:3] == WORDS and part.target[:3] == TAGS and len(part) == 12


TAG = strategies.sampled_from(['O', 'I-X', 'I-Y', 'B-X', 'B-Y'])


@hypothesis.given(strategies.lists(TAG, min_size=1, max_size=9))
@hypothesis.settings(max_examples=50, deadline=None)
def test_converted_entities_equal_conlleval(given):
    """seqeval's lenient entities of the file equal the strict ones after conversion."""
    one = columns.Sentence('here', ['a'] * len(given), list(given))
    made = tags.to_iob2(one, 'iob1', ()).tags
    found = scheme.Entities([made], scheme.IOB2).entities[0]
    assert [e.to_tuple()[1:] for e in found] == [
        (kind, begin, end + 1) for kind, begin, end in labeling.get_entities(given)
    ]


MEDICAL = 'a\tB-medical condition\nb\tI-medical condition\nc\tO\n'


@pytest.mark.parametrize(
    'text, scheme, expected',
    [
        (MEDICAL, '', ['B-medical condition', 'I-medical condition', 'O']),
        ('a B-X\nb I-X\n', '', ['B-X', 'I-X']),
        ('a I-X\nb B-X\nc I-Y\nd I-X\n', 'iob1', ['B-X', 'B-X', 'B-Y', 'B-X']),
        ('a I-X\nb B-X\n', '', "line 1: word 1 has the tag 'I-X' after 'O'"),
        ('a B-X\nb M-X\n', '', "line 1: word 2 has the tag 'M-X', but other .*'B-X'"),
        ('a B-X\nb 0\n', '', "line 1: word 2 has the tag '0', but other .*'B-X'.*be O"),
        ('a B-X\nb 0\n', 'iob2', "word 2 has the tag '0', but in the scheme 'iob2'"),
        ('a NN\nb VB\n', 'iob2', "'NN', but in .*leave scheme '' for tags without"),
        ('a b-x\nb O\n', '', "word 1 has the tag 'b-x'"),
    ],
)
def test_schemes_of_tags(text, scheme, expected, tmp_path):
    splits(tmp_path, text, '.conll')
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            build(path=str(tmp_path), scheme=scheme)
        return
    task = build(path=str(tmp_path), scheme=scheme)
    assert task.test.target[0] == expected and task.metric == 'entity_f1'


def test_one_split_with_other_tags_does_not_change_the_metric(tmp_path):
    splits(tmp_path, 'a B-X\nb O\n', '.conll')
    splits(tmp_path, 'a X\nb O\n', '.conll', ['test'])
    with pytest.raises(ValueError, match="test.conll, line 1: word 1 has the tag 'X'"):
        build(path=str(tmp_path))
    splits(tmp_path, 'a X\nb O\n', '.conll')
    with pytest.warns(UserWarning, match='tags are O and X without B- .* accuracy'):
        assert build(path=str(tmp_path)).metric == 'token_accuracy'


CONLLU = """# text = X marks du 3\u00a0000
1\tX\tx\tX\t_\t_\t_\t_\t_\t_
2\tmarks\tmark\tVERB\t_\t_\t_\t_\t_\t_
2.1\tit\tit\tPRON\t_\t_\t_\t_\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\tde\tADP\t_\t_\t_\t_\t_\t_
4\tle\tle\tDET\t_\t_\t_\t_\t_\t_
5\t3\u00a0000\t3\tNUM\t_\t_\t_\t_\t_\t_
"""


def test_ranges_and_empty_nodes_of_conllu_are_no_words(tmp_path):
    splits(tmp_path, CONLLU, '.conllu')
    part = build(path=str(tmp_path)).test
    assert part.first[0] == ['X', 'marks', 'de', 'le', '3\u00a0000']
    assert part.target[0] == ['X', 'VERB', 'ADP', 'DET', 'NUM']
    (tmp_path / 'a.conll').write_text(CONLLU)
    with pytest.raises(ValueError, match=r'column 0 only numbers .*words=1'):
        columns.sentences(tmp_path / 'a.conll')
    # Scores are words where no column counts them.
    (tmp_path / 'b.conll').write_text('1 O\n2-0 O\n\n3.1 O\n')
    assert columns.sentences(tmp_path / 'b.conll')[0].words == ['1', '2-0']


def test_columns_are_split_at_spaces_and_tabs_alone(tmp_path):
    (tmp_path / 'a.conll').write_text('3\u00a0000  B-X\n\u3000 \u2009 O\n\u00a0\tO\n')
    with pytest.raises(ValueError, match='line 2 has 3 columns'):
        columns.sentences(tmp_path / 'a.conll')
    (tmp_path / 'a.conll').unlink()
    splits(tmp_path, '3\u00a0000  B-X\n\u3000 O\n\u00a0\tO\n', '.conll')
    words = build(path=str(tmp_path)).test.first[0]
    assert words == ['3\u00a0000', '\u3000', '\u00a0']


def test_uner_files(tmp_path):
    splits(tmp_path, UNER, '.iob2', ('train', 'dev', 'test'))
    task = build('uner', path=str(tmp_path))
    assert task.test.first[0] == WORDS[0] and len(task.validation) == 4
    assert task.test.target[0] == ['B-ORG', 'O', 'O', 'O']


def test_empty_sentences_are_dropped_with_a_warning(tmp_path):
    rows = [{'words': ['Ann', 'ran'], 'ner': ['I-PER', 'O']}] * 5
    rows.append({'words': [], 'ner': []})
    for name in ('train', 'valid', 'test'):
        examined.jsonl(tmp_path / f'{name}.jsonl', rows * 4)
    with pytest.warns(UserWarning, match='4 of 24 sentences have no word.*row 6'):
        task = build('conll2003', path=str(tmp_path))
    assert len(task.test) == 20 and task.test.target[0] == ['B-PER', 'O']


def test_named_and_numbered_tags_are_equal(tmp_path):
    names = ['O', 'B-PER', 'I-PER', 'B-ORG', 'I-ORG', 'B-MISC']
    numbers = [[names.index(tag) for tag in tags] for tags in TAGS]
    one = build(path=write_rows(tmp_path / 'a.jsonl', WORDS, TAGS))
    path = write_rows(tmp_path / 'b.jsonl', WORDS, numbers, fields=('words', 'ner'))
    other = build(path=path, names=names)
    assert (one.name, other.name) == ('a', 'b')
    assert one.test.first == other.test.first and one.train.target == other.train.target
    # No sentence is on both sides.
    assert not set(one.train.texts()) & set(one.test.texts())
    with pytest.raises(ValueError, match=r'row 1 has the tag 3, .* file has no names'):
        build(path=path)
    with pytest.raises(ValueError, match=r'row 1 has the tag 3, but names has 3'):
        build(path=path, names=names[:3])


def test_hugging_face_parquet_names_its_numbers(tmp_path):
    names = ['O', 'B-ORG', 'B-MISC', 'B-PER', 'I-PER']
    label = {'names': names, '_type': 'ClassLabel'}
    numbers = [[names.index(tag) for tag in tags] for tags in TAGS] * 4
    for number, feature in enumerate(
        ({'feature': label, '_type': 'Sequence'}, [label], {'feature': label})
    ):
        features = {'tokens': {'_type': 'Sequence'}, 'ner_tags': feature}
        about = json.dumps({'info': {'features': features}})
        table = pyarrow.table({'tokens': WORDS * 4, 'ner_tags': numbers})
        table = table.replace_schema_metadata({'huggingface': about})
        path = tmp_path / f'{number}.parquet'
        parquet.write_table(table, path)
        task = build('conll2003', path=str(path))
        assert sorted(task.train.target + task.test.target) == sorted(TAGS * 4)


def test_parts_of_speech_are_measured_by_token_accuracy(tmp_path):
    path = tmp_path / 'brown.conll.gz'
    with gzip.open(path, 'wt') as file:
        for n in range(9):
            file.write(f'The\tAT\njury{n}\tNN\n\n')
    task = build(path=str(path))
    assert task.metric == 'token_accuracy' and len(task.train) + len(task.test) == 9
    assert examples.with_validation(task).validation.target[0] == ['AT', 'NN']


def test_columns_are_chosen_by_number(tmp_path):
    splits(tmp_path, CONLL, '.conll')
    task = build(path=str(tmp_path), tags=1)
    assert task.test.target[1] == ['NNP', 'NNP'] and task.metric == 'token_accuracy'
    with pytest.raises(ValueError, match='must be column numbers'):
        build(path=str(tmp_path), words='word')
    path = write_rows(tmp_path / 'a.jsonl', WORDS, TAGS)
    with pytest.raises(ValueError, match='3 is a column number, but the file has'):
        build(path=path, tags=3)


@pytest.mark.parametrize(
    'name, text, words',
    [
        ('a.conll', 'EU NNP B-ORG\nwas O\n', 'line 2 has 2 columns, but the line befo'),
        ('a.conll', 'EU\n', 'line 1 has 1 columns'),
        ('a.jsonl', '{"tokens": ["a"], "tags": []}\n', 'row 1 has 1 words and 0 tags'),
        ('a.jsonl', '{"tokens": [], "tags": ["O"]}\n', 'row 1 has 0 words and 1 tags'),
        ('a.jsonl', '{"tokens": [], "tags": []}\n', 'the set has no sentences'),
        ('a.jsonl', '{"tokens": ["a"], "tags": [-1]}\n', 'has the tag -1'),
        ('a.jsonl', '{"tokens": [" "], "tags": ["O"]}\n', "row 1 has the word ' '"),
        ('a.jsonl', r'{"tokens": ["\ud83d"], "tags": ["O"]}', 'row 1: .*half of a surr'),
        ('a.jsonl', '{"tokens": "a b", "tags": "O"}\n', 'row 1: words and tags must be'),
        ('a.jsonl', '{"token": ["a"], "tags": ["O"]}\n', "Did you mean 'token'"),
        ('a.jsonl', '{"tokens": ["a"], "tag": ["O"]}\n', "Did you mean 'tag'"),
        ('a.conll', 'a (X*\nb *)\n', r"bracketed tags such as '\(X\*'"),
        ('a.conll', '\n', 'the set has no sentences'),
    ],
)
def test_invalid_lines_raise_with_their_number(name, text, words, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        build(path=str(tmp_path / name))


def test_unknown_tags_raise(tmp_path):
    splits(tmp_path, CONLL.replace('ORG', 'COMPANY'), '.txt')
    words = "word 1 has the tag 'B-COMPANY', which is not a tag of the set"
    with pytest.raises(ValueError, match=f'train.txt, line 3: {words}'):
        build('conll2003', path=str(tmp_path))
    with pytest.raises(ValueError, match="the tag 'B-MISC', .*Did you mean 'I-MISC'"):
        build(path=str(tmp_path), labels=('O', 'B-COMPANY', 'I-MISC'), scheme='iob1')
    with pytest.raises(ValueError, match="scheme='iob3'. Did you mean 'iob"):
        build(path=str(tmp_path), scheme='iob3')
