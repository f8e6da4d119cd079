"""Runs every command of README.md and docs/, and every notebook, as a reader would; CI
calls it.

The two launch scripts are left out: CI runs them before this. A block that stood before
is not run again. Notebooks train shortly.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = ('bash launch/quickstart.sh', 'bash launch/test.sh')


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


def run(path, done):
    """Writes the files of a page, runs its blocks that are not in `done`, and adds them;
    returns how many.

    Stops the program at the first that fails."""
    ran, text = 0, path.read_text(encoding='utf-8')
    write(text, ROOT)
    for language, code in blocks(text):
        if code in done or code.strip() in ELSEWHERE:
            continue
        print(f'--- {path.relative_to(ROOT)}, {language}:\n{code.rstrip()}', flush=True)
        command = ['bash', '-ec'] if language == 'bash' else [sys.executable, '-c']
        subprocess.run([*command, code], cwd=ROOT, check=True)
        done.add(code)
        ran += 1
    return ran


def main():
    """Runs README.md first, as the pages may use what it made."""
    done = set()
    counts = {
        path: run(path, done)
        for path in (ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md')))
    }
    print(f'--- {sum(counts.values())} blocks of {len(counts)} files ran')
    if not counts[ROOT / 'README.md']:
        sys.exit('README.md has no block to run: the pattern of tests/readme.py is off.')
    notebooks = ROOT / 'tests' / 'notebooks.py'
    subprocess.run([sys.executable, notebooks, '--short'], check=True)


if __name__ == '__main__':
    main()
