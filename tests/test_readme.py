"""The runner of the commands of the documentation."""

import subprocess

import pytest
import readme

PLAN = '.venv/bin/jepa-text plan --mfu=0.4\n'
TRAIN = '.venv/bin/jepa-text train \\\n'


def test_a_command_runs_once_and_other_lines_whenever_they_stand():
    two, three = (f'{TRAIN}  --config.steps={steps}\n' for steps in (2, 3))
    done = set()
    for command in (PLAN, two, three):
        assert readme.fresh(command, done) == command
        assert readme.fresh(f'cd .\n{command}ls\n', done) == 'cd .\nls\n'


def test_pages_are_those_of_docs_in_the_order_of_the_navigation():
    first, *pages = readme.pages()
    assert first.name == 'README.md'
    assert pages[0].name == 'index.md'
    assert sorted(pages) == sorted((readme.ROOT / 'docs').rglob('*.md'))


def test_a_page_runs_what_no_other_ran(tmp_path):
    done, left = set(), []
    for name, code in (('one', PLAN), ('two', f'{PLAN}ls\n'), ('three', PLAN)):
        (tmp_path / name).write_text(f'```bash\n{code}```\n')
        left.append(readme.left(tmp_path / name, done))
    assert left == [[('bash', PLAN)], [('bash', 'ls\n')], []]


def test_pages_of_the_same_folders_follow_each_other(tmp_path):
    for name, folders in dict(a='x', b='y z', c='w', d='z x', e='all').items():
        (tmp_path / name).write_text(''.join(f'runs/{x}\n' for x in folders.split()))
    found = [(tmp_path / name, []) for name in 'abcde']
    named = [[path.name for path, _ in job] for job in readme.jobs(found, {'runs/all'})]
    assert named == [['a', 'b', 'd'], ['c'], ['e']]


def test_a_block_that_fails_stops_its_page(capfd):
    with pytest.raises(subprocess.CalledProcessError):
        readme.run(readme.pages()[0], [('bash', 'echo one; false'), ('bash', 'echo two')])
    said = capfd.readouterr().out
    assert 'one\n' in said and 'two' not in said
