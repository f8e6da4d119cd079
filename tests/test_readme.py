"""The runner of the commands of the documentation."""

import readme

PLAN = '.venv/bin/jepa-text plan --mfu=0.4\n'
TRAIN = '.venv/bin/jepa-text train \\\n'


def test_a_line_that_is_a_whole_command_runs_once():
    done = set()
    assert readme.fresh(PLAN, done) == PLAN
    assert readme.fresh(f'cd .\n{PLAN}ls\n', done) == 'cd .\nls\n'
    assert readme.fresh(PLAN, done) == ''


def test_other_lines_run_whenever_they_stand():
    done = set()
    for block in (f'{TRAIN}  --config.steps=2\n', f'{TRAIN}  --config.steps=3\n', 'ls\n'):
        assert readme.fresh(block, done) == readme.fresh(block, done) == block


def test_a_page_runs_what_no_other_ran(tmp_path, monkeypatch):
    ran, done = [], set()
    monkeypatch.setattr(readme, 'ROOT', tmp_path)
    monkeypatch.setattr(
        readme.subprocess, 'run', lambda words, **_: ran.append(words[-1])
    )
    for name, code in (('one', PLAN), ('two', f'{PLAN}ls\n'), ('three', PLAN)):
        (tmp_path / name).write_text(f'```bash\n{code}```\n')
    pages = [tmp_path / name for name in ('one', 'two', 'three')]
    assert [readme.run(page, done) for page in pages] == [1, 1, 0]
    assert ran == [PLAN, 'ls\n']
