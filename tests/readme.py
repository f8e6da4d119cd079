"""Runs every command of README.md and every notebook, as a reader would; CI calls it.

The two launch scripts are left out: CI runs them before this. Notebooks train shortly.
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


def main():
    """Runs the blocks; stops at the first that fails."""
    ran = 0
    for language, code in blocks((ROOT / 'README.md').read_text(encoding='utf-8')):
        if code.strip() in ELSEWHERE:
            continue
        print(f'--- README.md, {language}:\n{code.rstrip()}', flush=True)
        command = ['bash', '-ec'] if language == 'bash' else [sys.executable, '-c']
        subprocess.run([*command, code], cwd=ROOT, check=True)
        ran += 1
    print(f'--- {ran} blocks of README.md ran')
    if not ran:
        sys.exit('README.md has no block to run: the pattern of tests/readme.py is off.')
    notebooks = ROOT / 'tests' / 'notebooks.py'
    subprocess.run([sys.executable, notebooks, '--short'], check=True)


if __name__ == '__main__':
    main()
