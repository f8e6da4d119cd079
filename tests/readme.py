"""Runs every command of README.md and docs/ as a reader would; CI calls it.

The two launch scripts are left out: CI runs them before this. A block that stood before
is not run again, nor is a line of `jepa-text` that did.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = ('bash launch/quickstart.sh', 'bash launch/test.sh')
COMMAND = '.venv/bin/jepa-text '
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
    """A block without the lines that are a whole command which is in `done`; it adds
    the others."""
    lines = code.splitlines(keepends=True)
    whole = {x for x in lines if x.startswith(COMMAND) and not x.endswith('\\\n')}
    left = ''.join(line for line in lines if line not in whole & done)
    done |= whole
    return left


def pages():
    """README.md first, as the pages of docs/ may use what it made."""
    return ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))


def run(path, done):
    """Writes the files of a page, runs its blocks that are not in `done`, and adds them;
    returns how many.

    Stops the program at the first that fails."""
    ran, text = 0, path.read_text(encoding='utf-8')
    write(text, ROOT)
    for language, code in blocks(text):
        if code in done or code.strip() in ELSEWHERE:
            continue
        left = fresh(code, done) if language == 'bash' else code
        done.add(code)
        if not left:
            continue
        print(f'--- {path.relative_to(ROOT)}, {language}:\n{left.rstrip()}', flush=True)
        command = ['bash', '-ec'] if language == 'bash' else [sys.executable, '-c']
        subprocess.run([*command, left], cwd=ROOT, env=ENVIRON, check=True)
        ran += 1
    return ran


def main():
    """Runs all pages; stops the program at the first block that fails."""
    done = set()
    counts = {path: run(path, done) for path in pages()}
    print(f'--- {sum(counts.values())} blocks of {len(counts)} files ran')
    if not counts[ROOT / 'README.md']:
        sys.exit('README.md has no block to run: the pattern of tests/readme.py is off.')


if __name__ == '__main__':
    main()
