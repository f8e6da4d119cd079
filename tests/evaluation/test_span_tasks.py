"""Reading of question answering sets in all formats."""

import json

import pytest
from examined import jsonl

from jepa_text.evaluation import tasks
from jepa_text.evaluation.sets import task as examples

CONTEXT = 'Ann met Bob. Bob met Ann in Oslo.'
QUESTIONS = [('Where?', [(28, 'Oslo')]), ('Who met Bob?', [(0, 'Ann'), (21, 'Ann')])]


def build(name='spans', **section):
    return tasks.build({'name': name, **section})


def squad(path, questions=QUESTIONS, count=3):
    """Writes SQuAD's JSON: articles of two paragraphs."""
    qas = [
        {
            'question': question,
            'id': '1',
            'answers': [{'text': t, 'answer_start': s} for s, t in answers],
            'is_impossible': not answers,
        }
        for question, answers in questions
    ]
    texts = [[CONTEXT + f' {n}{side}' for side in 'ab'] for n in range(count)]
    articles = [
        {'title': 'T', 'paragraphs': [{'context': text, 'qas': qas} for text in pair]}
        for pair in texts
    ]
    path.write_text(json.dumps({'version': '1.1', 'data': articles}))


def test_squad_files(tmp_path):
    squad(tmp_path / 'train-v1.1.json')
    squad(tmp_path / 'dev-v1.1.json', count=1)
    task = build('squad', path=str(tmp_path))
    assert (task.kind, task.metric, task.validation) == ('spans', 'f1', None)
    assert len(task.train) == 12 and len(task.test) == 4
    assert task.test.first[:2] == ['Where?', 'Who met Bob?']
    assert all(CONTEXT in context for context in task.test.second)
    assert task.test.target[:2] == [[(28, 'Oslo')], [(0, 'Ann'), (21, 'Ann')]]
    assert task.template.format(first='Q', second='C') == 'Question: Q\nContext: C'


def test_only_squad_v2_allows_unanswerable_questions(tmp_path):
    for name in ('train-v2.0.json', 'dev-v2.0.json'):
        squad(tmp_path / name, [*QUESTIONS, ('Why?', [])])
    task = build('squad_v2', path=str(tmp_path))
    assert task.test.target[2] == [] and len(task.test) == 18
    with pytest.raises(ValueError, match='question 3: the question has no answer'):
        build('squad', path=str(tmp_path))


def test_hidden_answers_of_a_test_set_raise(tmp_path):
    squad(tmp_path / 'train.json')
    squad(tmp_path / 'dev.json', count=1)
    squad(tmp_path / 'test.json', [('Where?', []), ('Who?', [])])
    for name in ('spans', 'squad_v2', 'squad'):
        with pytest.raises(ValueError, match='If the answers of the test set are hidden'):
            build(name, path=str(tmp_path))
    (tmp_path / 'test.json').unlink()
    assert len(build('squad_v2', path=str(tmp_path)).test) == 4


def test_all_forms_of_answers_are_equal(tmp_path):
    forms = (
        ({'text': ['Oslo'], 'answer_start': [28]}, {'text': [], 'answer_start': []}),
        ([{'text': 'Oslo', 'answer_start': 28}], []),
        (['Oslo'], []),  # without a start, at its first occurrence
    )
    for form in forms:
        rows = [
            dict(question=question, context=f'{CONTEXT} {n}', answers=answers)
            for n in range(9)
            for question, answers in zip(('Where?', 'Whose?'), form)
        ]
        task = build(path=jsonl(tmp_path / 'a.jsonl', rows))
        half = len(task.train) // 2
        assert sorted(task.train.target) == [[]] * half + [[(28, 'Oslo')]] * half
        # Questions on one context are on one side.
        assert not set(task.train.second) & set(task.test.second)
        # The same question may occur with another context.
        assert set(task.train.first) == set(task.test.first)
        assert examples.shared_texts(task) == 0


def test_answers_of_record_are_entities(tmp_path):
    passage = 'Bob met Ann.\n@highlight\nAnn is well'
    superglue = dict(passage=passage, query='@placeholder is a person', answers=['Ann'])
    superglue['entity_spans'] = {'text': ['Bob', 'Ann', 'Ann'], 'start': [0, 8, 24]}
    for split in ('train', 'dev'):
        jsonl(tmp_path / f'{split}.jsonl', [superglue] * 3)
    assert build('record', path=str(tmp_path)).test.target == [[(8, 'Ann')]] * 3


def at(start, text='Oslo'):
    return [{'text': text, 'answer_start': start}]


@pytest.mark.parametrize(
    'field, value, words',
    [
        ('question', ' ', "row 1: the question is ' ', but must be a text"),
        ('context', None, 'row 1: the context is None'),
        ('question', 'a\ud83d', 'row 1: the question: .* half of a surrogate pair'),
        ('answers', at(29), "not contain the answer 'Oslo' at character 29"),
        ('answers', at(-5), "not contain the answer 'Oslo' at character -5"),
        ('answers', at('x'), "not contain the answer 'Oslo' at character 'x'"),
        ('answers', at(0, ''), "not contain the answer '' at character 0"),
        ('answers', at(28, None), 'not contain the answer None at character 28'),
        (
            'answers',
            {'text': ['a', 'b'], 'answer_start': [28]},
            r'row 1 has 2 .* \[28\]: ',
        ),
        ('answers', {'text': ['Oslo'], 'answer_start': 28}, 'row 1 has 1 .* starts 28:'),
        ('answers', {'text': [' '], 'answer_start': [4]}, "contain the answer ' '"),
        ('answers', {'text': ['Oslo'], 'start': [28]}, 'fields text, start, but needs'),
        ('answers', [{'text': 'Oslo', 'start': 28}], "start, but needs 'text' an"),
        ('answers', [3], 'not contain the answer 3'),
        ('answers', 0, 'not contain the answer 0'),
        ('contexts', 'c', "no field 'context'. Did you mean 'contexts'"),
        ('paragraphs', 3, "row 1: 'paragraphs' is not as in SQuAD, .*: 'int' object"),
        ('paragraphs', [{'qas': 'x'}], "'paragraphs' is not as in SQuAD"),
        ('answers', [''], None),
        ('answers', {'text': [], 'answer_start': None}, None),
    ],
)
def test_invalid_rows_raise_with_their_number(field, value, words, tmp_path):
    row = dict(question='Where?', context=CONTEXT, answers=['Oslo']) | {field: value}
    if field == 'contexts':
        del row['context']
    for split in ('train', 'test'):
        jsonl(tmp_path / f'{split}.jsonl', [row])
    if words is None:
        assert build(path=str(tmp_path)).test.target == [[]]
        return
    with pytest.raises(ValueError, match=words):
        build(path=str(tmp_path))
