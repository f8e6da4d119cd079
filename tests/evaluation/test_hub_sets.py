"""Named sets are downloaded from the hub over a real socket, with their commit."""

import json
import textwrap

import hub_server
import pyarrow
import pytest
from pyarrow import parquet

PROGRAM = """
    import json
    from jepa_text.evaluation import tasks

    def shown(section):
        task = tasks.build(section)
        if task.kind != 'retrieval':
            sides = [task.train, task.validation, task.test]
            return [task.revision, [side and len(side) for side in sides],
                    [task.test.first[0], str(task.test.target[0])]]
        return [task.revision, [len(task.corpus), len(task.pairs)],
                [len(task.validation_qrels), len(task.qrels)]]
"""


def write(top, name, files, revision='main'):
    """A set of {file: rows of parquet, or text}."""
    for file, rows in files.items():
        path = top / name / revision / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(rows, str):
            path.write_text(rows)
            continue
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def fill(top):
    """The sets as on the hub: files named by config and split."""
    pairs = [dict(premise=f'p{n}', hypothesis=f'h{n}', label=n % 3) for n in range(8)]
    hidden = [row | {'label': -1} for row in pairs]
    glue = {'mnli/train-00000-of-00001.parquet': pairs}
    glue['mnli/validation_matched.parquet'] = pairs[:5]
    glue['mnli/validation_mismatched.parquet'] = pairs[:6]
    glue['mnli/test_matched.parquet'] = hidden
    lines = ['---', 'configs:', '- config_name: mnli', '  data_files:']
    for file in glue:
        split = file.split('/')[1].split('-')[0].removesuffix('.parquet')
        lines += [f'  - split: {split}', f'    path: mnli/{split}*']
    write(top, 'nyu-mll/glue', glue | {'README.md': '\n'.join([*lines, '---', ''])})
    asked = dict(question='Where?', answers={'text': ['Oslo'], 'answer_start': [9]})
    squad = [asked | dict(context=f'It is in Oslo {n}.') for n in range(6)]
    plain = {f'plain_text/{s}-0.parquet': squad for s in ('train', 'validation')}
    write(top, 'rajpurkar/squad', plain)
    corpus = [dict(_id=f'd{n}', title=f'T{n}', text=f'text {n}') for n in range(9)]
    asked = [dict(_id=f'q{n}', title='', text=f'query {n}') for n in range(9)]
    nq = {'README.md': '---\nlicense: mit\n---\n'}
    for name, rows in (('corpus', corpus), ('queries', asked)):
        nq[f'{name}.jsonl'] = ''.join(json.dumps(row) + '\n' for row in rows)
    write(top, 'BeIR/nq', nq)
    qrels = ''.join(f'q{n}\td{n}\t1\n' for n in range(6))
    write(top, 'BeIR/nq-qrels', {'test.tsv': f'query-id\tcorpus-id\tscore\n{qrels}'})
    learned = [dict(query=f'q{n}', positive=f'p{n}') for n in range(7)]
    write(top, 'hgissbkh/msmarco-pairs', {'data/train-0.parquet': learned})


SECTIONS = {
    'mnli': {'name': 'mnli'},
    'mismatched': {'name': 'mnli_mismatched'},
    'squad': {'name': 'squad'},
    'nq': {'name': 'nq', 'protocol': 'paper', 'pairs': 'hub:hgissbkh/msmarco-pairs'},
    'own': {'name': 'own', 'path': 'hub:rajpurkar/squad@main'},
}


@pytest.mark.slow
def test_sets_are_read_by_name_with_their_commits(tmp_path):
    fill(tmp_path / 'hub')
    program = textwrap.dedent(PROGRAM)
    program += f'print(json.dumps({{k: shown(s) for k, s in {SECTIONS!r}.items()}}))'
    with hub_server.serving(tmp_path / 'hub') as (address, _):
        made = hub_server.run_program(program, address, tmp_path / 'cache')
    commit = hub_server.commit('nyu-mll/glue', 'main')
    assert made['mnli'] == [commit, [8, None, 5], ['p0', 'entailment']]
    assert made['mismatched'][1] == [8, None, 6]
    commit = hub_server.commit('rajpurkar/squad', 'main')
    assert made['squad'] == [commit, [6, None, 6], ['Where?', "[(9, 'Oslo')]"]]
    assert made['own'] == made['squad']
    # A set of several repositories has all of their commits.
    parts = ('BeIR/nq', 'BeIR/nq-qrels', 'hgissbkh/msmarco-pairs')
    commits = ' '.join(hub_server.commit(name, 'main') for name in parts)
    assert made['nq'] == [commits, [6, 7], [3, 3]]
