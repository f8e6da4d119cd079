"""Reading of retrieval sets, and errors for inconsistent files."""

import pytest
from examined import jsonl

from jepa_text.evaluation import tasks
from jepa_text.evaluation.sets import retrieval
from jepa_text.settings.config_file import shared

CORPUS = {f'd{n}': (f'Title {n}', f'document number {n}') for n in range(12)}
QUERIES = {f'q{n}': f'query number {n}' for n in range(12)}
QRELS = {
    'train': [('q0', 'd0', 1), ('q0', 'd1', 0), ('q1', 'd11', 1)],
    'dev': [('q2', 'd2', 1)],
    'test': [('q3', 'd3', 2), ('q3', 'd4', 0), ('q4', 'd4', 1)],
}


def build(name='ranking', **section):
    return tasks.build({'name': name, **section})


def beir(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS, packed=False):
    """Writes a folder in BEIR's layout."""
    end = 'jsonl.gz' if packed else 'jsonl'
    rows = [{'_id': k, 'title': t, 'text': x} for k, (t, x) in corpus.items()]
    jsonl(folder / f'corpus.{end}', rows)
    rows = [{'_id': k, 'text': x, 'metadata': {}} for k, x in queries.items()]
    jsonl(folder / f'queries.{end}', rows)
    (folder / 'qrels').mkdir()
    for split, rows in qrels.items():
        lines = ['query-id\tcorpus-id\tscore', *('\t'.join(map(str, r)) for r in rows)]
        (folder / 'qrels' / f'{split}.tsv').write_text('\n'.join(lines) + '\n')


@pytest.mark.parametrize('packed', [False, True])
def test_a_folder_in_beir_layout(packed, tmp_path):
    beir(tmp_path, packed=packed)
    task = build(path=str(tmp_path), title='mine')
    assert task.name == 'mine' and len(task.corpus) == 12
    assert task.corpus['d3'] == 'Title 3 document number 3'
    assert task.qrels == {'q3': {'d3': 2, 'd4': 0}, 'q4': {'d4': 1}}
    assert task.validation_qrels == {'q2': {'d2': 1}}
    # Only evaluated queries; training queries are in `pairs`.
    assert task.queries == {name: QUERIES[name] for name in ('q2', 'q3', 'q4')}
    assert task.pairs == [
        ('query number 0', 'Title 0 document number 0'),
        ('query number 1', 'Title 11 document number 11'),
    ]
    assert retrieval.shared_texts(task) == 0


def test_the_qrels_of_a_set_on_the_hub_may_be_a_folder(tmp_path, monkeypatch):
    def find(path):
        part = path.rpartition('/')[2]
        return {part: [tmp_path / f'{part}.jsonl']}, 'commit'

    beir(tmp_path)
    monkeypatch.setattr(retrieval.hub, 'find', find)
    task = build(path='hub:lab/set', qrels=str(tmp_path / 'qrels'))
    assert task.qrels == build(path=str(tmp_path)).qrels and task.revision == 'commit'


def test_the_papers_corpus_has_judged_documents_only(tmp_path):
    beir(tmp_path)
    task = build('nq', path=str(tmp_path), protocol='paper')
    assert task.name == 'nq' and sorted(task.corpus) == ['d2', 'd3', 'd4']
    assert task.corpus['d3'] == 'Document: Title 3. document number 3'
    assert task.queries['q4'] == 'Query: query number 4'
    # Documents that only occur in training pairs are not in the corpus.
    assert task.pairs[1][0] == 'Query: query number 1'
    assert task.pairs[1][1] == 'Document: Title 11. document number 11'
    msmarco = build('msmarco', path=str(tmp_path), protocol='paper')
    assert msmarco.corpus['d3'] == 'Document: document number 3'


def test_nq_queries_are_halved_by_a_seed(tmp_path):
    qrels = {'test': [(f'q{n}', f'd{n}', 1) for n in range(11)]}
    beir(tmp_path, qrels=qrels)
    made = [build('nq', path=str(tmp_path), protocol='paper', seed=s) for s in (0, 0, 1)]
    sides = [(set(task.validation_qrels), set(task.qrels)) for task in made]
    assert sides[0] == sides[1] != sides[2]
    for one, other in sides:
        assert not one & other and len(one | other) == 11 and abs(len(one) - 5.5) < 1
    assert build('nq', path=str(tmp_path)).validation_qrels is None


def test_validation_queries_are_drawn_from_training_queries(tmp_path):
    corpus = {f'd{n}': ('', f'text {n}') for n in range(100)}
    queries = {f'q{n}': f'query {n}' for n in range(100)}
    train = [(f'q{n}', f'd{n}', 1) for n in range(20, 100)]
    qrels = {'train': train, 'test': [('q1', 'd1', 1)]}
    beir(tmp_path, corpus, queries, qrels)
    task = build(path=str(tmp_path))
    assert len(task.validation_qrels) == 4 and len(task.pairs) == 76
    asked = {task.queries[name] for name in task.validation_qrels}
    assert not asked & {query for query, _ in task.pairs}
    rows = [{'query': text, 'positive': 'b'} for text in queries.values()]
    pairs = jsonl(tmp_path / 'pairs.jsonl', rows)
    assert not asked & {
        query for query, _ in build(path=str(tmp_path), pairs=pairs).pairs
    }


def test_training_pairs_are_read_from_a_file(tmp_path):
    beir(tmp_path)
    rows = [dict(query=q, positive=p) for q, p in ('ab', 'ab', ('c', None), ' d')]
    jsonl(tmp_path / 'pairs.jsonl', rows)
    given = dict(path=str(tmp_path), pairs=str(tmp_path / 'pairs.jsonl'))
    with pytest.warns(UserWarning, match='train: 2 of 4 pairs .* have an empty text'):
        assert build(**given).pairs == [('a', 'b')] * 2
    for name in ('msmarco', 'nq'):
        paper = build(name, **given, protocol='paper')
        assert paper.pairs[0] == ('Query: a', 'Document: b')
    jsonl(tmp_path / 'pairs.jsonl', [{'query': 'a', 'positives': 'b'}])
    with pytest.raises(ValueError, match="no field 'positive'. Did you mean 'positives'"):
        build(**given)


def test_mldr_has_queries_in_its_qrels(tmp_path):
    corpus = [{'docid': f'd{n}', 'text': f'long {n}'} for n in range(5)]
    jsonl(tmp_path / 'corpus.jsonl', corpus)
    for number, split in enumerate(('train', 'dev', 'test')):
        positive = [{'docid': f'd{number}', 'text': f'long {number}'}]
        row = dict(query_id=f'q{number}', query=f'why {number}')
        jsonl(tmp_path / f'{split}.jsonl', [row | dict(positive_passages=positive)])
    task = build('mldr', path=str(tmp_path), protocol='paper')
    assert task.qrels == {'q2': {'d2': 1}} and task.validation_qrels == {'q1': {'d1': 1}}
    assert task.corpus == {'d1': 'Document: long 1', 'd2': 'Document: long 2'}
    assert task.pairs == [('Query: why 0', 'Document: long 0')]
    assert len(build('mldr', path=str(tmp_path)).corpus) == 5
    # Rows of one query are joined.
    rows = [
        dict(query_id='q', query='why', positive_passages=[{'docid': one}] if one else [])
        for one in ('d1', 'd2', '')
    ]
    jsonl(tmp_path / 'test.jsonl', rows)
    assert build('mldr', path=str(tmp_path)).qrels == {'q': {'d1': 1, 'd2': 1}}
    jsonl(tmp_path / 'test.jsonl', rows[2:])
    with pytest.raises(ValueError, match='test: no query has a relevant document'):
        build('mldr', path=str(tmp_path))


def test_qrels_of_unknown_documents_and_queries_raise(tmp_path):
    unknown = [('q3', 'd77', 1), ('q4', 'd99', 1), ('q3', 'd99', 0)]
    beir(tmp_path, qrels=QRELS | {'test': QRELS['test'] + unknown})
    with pytest.raises(ValueError, match='name 2 documents that do not exist, the fir'):
        build(path=str(tmp_path))
    queries = {k: v for k, v in QUERIES.items() if k not in ('q3', 'q4')}
    beir(tmp_path / 'b', queries=queries)
    words = "b, test: the qrels name 2 queries that do not exist, the first 'q3'"
    with pytest.raises(ValueError, match=words):
        build(path=str(tmp_path / 'b'))


def test_queries_without_a_relevant_document_warn_or_raise(tmp_path):
    bare = QRELS['test'] + [('q4', 'd1', 0)]
    bare = [(q, d, 0 if q == bare[0][0] else s) for q, d, s in bare]
    beir(tmp_path, qrels=QRELS | {'test': bare})
    with pytest.warns(UserWarning, match='queries have no relevant document and count'):
        build(path=str(tmp_path))
    for name, rows in (('b', [(q, d, 0) for q, d, _ in bare]), ('c', [])):
        beir(tmp_path / name, qrels=QRELS | {'test': rows})
        words = f'{name}, test: no query has a relevant document'
        with pytest.raises(ValueError, match=words):
            build(path=str(tmp_path / name))


def test_empty_documents_are_dropped_unless_judged(tmp_path):
    beir(tmp_path, corpus=CORPUS | {'d7': ('', ' '), 'd8': ('', '')})
    with pytest.warns(UserWarning, match="2 of 12 documents are empty .* first 'd7'"):
        task = build(path=str(tmp_path))
    assert len(task.corpus) == 10
    beir(tmp_path / 'b', corpus=CORPUS | {'d4': ('', '')})
    with pytest.raises(ValueError, match="1 documents that the qrels name are .*'d4'"):
        build(path=str(tmp_path / 'b'))
    qrels = QRELS | {'train': [('q1', 'd9', 1), ('q1', 'd0', 1)]}
    beir(tmp_path / 'c', corpus=CORPUS | {'d9': ('', '')}, qrels=qrels)
    with pytest.warns(UserWarning) as caught:
        task = build(path=str(tmp_path / 'c'))
    assert len(task.pairs) == 1 and 'd9' not in task.corpus
    assert 'train: 1 of 2 pairs' in str(caught[0].message)


def test_invalid_files_raise(tmp_path):
    beir(tmp_path)
    path = str(tmp_path)
    for given, words in (
        (dict(document='{titel}'), "does not fit .*Did you mean 'title'"),
        (dict(document='{title.text}'), "does not fit .* no attribute 'text'"),
        (dict(protocol='papers'), "protocol='papers'. Did you mean 'paper'"),
        (dict(task='msmacro'), "Did you mean 'msmarco'"),
    ):
        with pytest.raises(ValueError, match=words):
            build(path=path, **given)
    with pytest.raises(ValueError, match='a path or one of the tasks msmarco, nq, mldr'):
        build()
    with pytest.raises(FileNotFoundError, match='none does not exist.*files corpus.json'):
        build(path=str(tmp_path / 'none'))
    qrels = tmp_path / 'qrels' / 'test.tsv'
    head = 'query-id\tcorpus-id\tscore\n'
    for text, words in (
        (f'{head}q3\td3\thigh\n', "row 1: the score is 'high'"),
        (f'{head}q3\td3\t0.5\n', "row 1: the score is '0.5'"),
        ('q3\td3\t1\nq3\td4\t1\n', "row 1, has no field 'query-id'"),
        (f'{head}q3\td3\t1\nq3\td3\t2\n', "2: .* 'd3' has score 2 .* row says 1"),
    ):
        qrels.write_text(text)
        with pytest.raises(ValueError, match=words):
            build(path=path)
    qrels.write_text(f'{head}q3\td3\t1\n')
    for rows, words in (
        ([{'_id': 'd1', 'text': 'a'}] * 2, "row 2: the id 'd1' is a duplicate"),
        ([{'_id': 'd3', 'text': 'a\ud83d'}], 'row 1: .* half of a surrogate pair'),
    ):
        jsonl(tmp_path / 'corpus.jsonl', rows)
        with pytest.raises(ValueError, match=words):
            build(path=path)
    qrels.unlink()
    with pytest.raises(FileNotFoundError, match='Among the files, test is missing'):
        build(path=path)
    qrels.write_text(f'{head}q3\td3\t1\n')
    (tmp_path / 'queries.jsonl').unlink()
    words = 'train.tsv, row 1 has no positive_passages, .* no file of queries. A set need'
    with pytest.raises(FileNotFoundError, match=words):
        build(path=path)


def test_query_pairs_make_a_retrieval_task(tmp_path):
    rows = [dict(q=f'query {n}', a=f'answer {n // 2}') for n in range(40)]
    path = jsonl(tmp_path / 'mine.jsonl', rows)
    task = build('query_pairs', path=path, query='q', document='a')
    assert task.name == 'mine' and len(task.corpus) == 20
    assert len(task.qrels) == 16 and len(task.validation_qrels) == 2
    assert len(task.pairs) == 22 and len(task.queries) == 18
    answer = {row['q']: row['a'] for row in rows}
    for query, found in task.qrels.items():
        (document,) = found
        assert task.corpus[document] == answer[task.queries[query]]
    # No document of a training pair answers a test query.
    learned = {document for _, document in task.pairs}
    assert not learned & {task.corpus[d] for found in task.qrels.values() for d in found}
    assert retrieval.shared_texts(task) == 0


def test_the_tasks_of_the_paper_can_be_built(tmp_path, monkeypatch):
    """As configs/scales.py lists them; NQ has no training pairs of its own."""
    monkeypatch.chdir(tmp_path)
    texts = ('sentence', 'premise', 'hypothesis', 'context')
    texts += ('question', 'question1', 'question2')
    row = dict(tokens=['a'], tags=['O'], answers='whales')
    rows = [
        row | dict.fromkeys(texts, f'{n} whales') | {'label': n % 2} for n in range(9)
    ]
    jsonl(tmp_path / 'sets/msmarco_pairs/train.jsonl', [dict(query='a', positive='b')])
    sections = [x for one in shared('scales').examine().values() for x in one['tasks']]
    for section in sections:
        if 'pairs' in section:
            beir(tmp_path / section['path'], qrels={'test': QRELS['test']})
        else:
            end = '_matched' if section['name'] == 'mnli' else ''
            for split in ('train', f'validation{end}'):
                jsonl(tmp_path / section['path'] / f'{split}.jsonl', rows)
    made = [tasks.build(section) for section in sections]
    assert len(made) == 12 and {len(one.corpus) for one in made[9:]} == {2}
    assert all(one.pairs == [('Query: a', 'Document: b')] for one in made[9:])
