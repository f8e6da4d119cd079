"""Runs every command of README.md and docs/ as a reader would; CI calls it.

The two launch scripts are left out: CI runs them before this. A block that stood before
is not run again, nor is a command of ONCE that did. The blocks of README.md are first, as
all pages may use what they made, but none what another made. Then two pages run at a
time; those that use the same folders of runs/ follow each other.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = ('bash launch/quickstart.sh', 'bash launch/test.sh')
ONCE = ('.venv/bin/jepa-text ', 'mkdir -p ', 'cp ')
# What several commands compile alike is compiled once.
ENVIRON = {
    'JAX_COMPILATION_CACHE_DIR': str(ROOT / '.pytest_cache' / 'jax'),
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0.1',
    **os.environ,
}


def blocks(text):
    """(language, code) of the fenced blocks that are bash or Python."""
    return re.findall(r'^```(bash|python)\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


def files(text):
    """{path: content} of the fenced blocks of Python that are titled as a file."""
    return dict(
        re.findall(
            r'^```python title="([^"]+)"\n(.*?)^```', text, re.DOTALL | re.MULTILINE
        )
    )


def write(text, folder):
    """Writes the files of a text below a folder."""
    for name, content in files(text).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding='utf-8')


def fresh(code, done):
    """A block without the commands that are in `done`, which may have several lines; it
    adds the others."""
    lines = re.findall(r'(?:.*\\\n)*.*\n', code)
    whole = {line for line in lines if line.startswith(ONCE)}
    left = ''.join(line for line in lines if line not in whole & done)
    done |= whole
    return left


def pages():
    """README.md, and the pages of docs/ as the navigation has them: one may use what
    others before it made."""
    named = re.findall(r': (\S+\.md)$', (ROOT / 'mkdocs.yml').read_text(), re.MULTILINE)
    return ROOT / 'README.md', *(ROOT / 'docs' / name for name in named)


def left(path, done):
    """[(language, code)] of the blocks of a page that are not in `done`; adds them."""
    found = []
    for language, code in blocks(path.read_text(encoding='utf-8')):
        if code in done or all(line.startswith(ELSEWHERE) for line in code.splitlines()):
            continue
        new = fresh(code, done) if language == 'bash' else code
        done.add(code)
        if new:
            found.append((language, new))
    return found


def run(path, found):
    """Writes the files of a page and runs blocks; raises at the first that fails."""
    write(path.read_text(encoding='utf-8'), ROOT)
    for language, code in found:
        command = ['bash', '-ec'] if language == 'bash' else [sys.executable, '-c']
        ran = subprocess.run(
            [*command, code],
            cwd=ROOT,
            env=ENVIRON,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        name = path.relative_to(ROOT)
        print(f'--- {name}, {language}:\n{code.rstrip()}\n{ran.stdout}', flush=True)
        ran.check_returncode()


def uses(path):
    """The folders of runs/ that a page names."""
    return {*re.findall(r'runs/[\w-]+', path.read_text(encoding='utf-8'))}


def jobs(found, shared):
    """[[(page, blocks)]] of pages that use the same folders, other than `shared`; the
    longest first."""
    made = []
    for page in found:
        folders, pages = uses(page[0]) - shared, [page]
        for job in [job for job in reversed(made) if job[0] & folders]:
            made.remove(job)
            folders, pages = folders | job[0], job[1] + pages
        made.append((folders, pages))
    return sorted((pages for _, pages in made), key=len, reverse=True)


def main():
    """Runs all pages; fails if a block does."""
    done = set()
    (readme, first), *others = [(path, left(path, done)) for path in pages()]
    if not first:
        sys.exit('README.md has no block to run: the pattern of tests/readme.py is off.')
    apart = [[(readme, [block])] for block in first]
    together = jobs([page for page in others if page[1]], uses(readme))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for stage in apart, together:
            # Raises what a job raised.
            list(pool.map(lambda job: [run(*page) for page in job], stage))
    print(f'--- {len(first) + sum(len(found) for _, found in others)} blocks ran')


if __name__ == '__main__':
    main()
