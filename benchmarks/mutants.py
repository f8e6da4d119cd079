"""Whether tests notice faults: 60 changed lines, each with the tests of its folder.

python benchmarks/mutants.py draw               writes the list, benchmarks/mutants.jsonl
python benchmarks/mutants.py run OUT [FIRST]    appends killed, alive or gone to OUT

A mutant is one line of one file with one changed operator or number. Draw the list before
a change of the tests or the layout, run it before and after, and compare: what the tests
noticed before, they must notice after. A line that moved is looked for in all files.
"""

import ast
import json
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'
LIST = Path(__file__).with_suffix('.jsonl')
SEED, COUNT = 40, 60
FAST = 'not slow and not peer and not remote'

# Folders and files whose code is to stay, with the tests of each.
STAYS = {
    'losses': 'losses',
    'objectives': 'objectives',
    'optim': 'optim',
    'models': 'models',
    'parallel': 'parallel',
    'measures': 'measures',
    'pretrained': 'pretrained',
    'hf': 'hf',
    'data/masking': 'data',
    'data/rows': 'data',
    'training/step.py': 'training',
    'training/state.py': 'training',
    'training/switches.py': 'training',
    'evaluation/members': 'evaluation',
    'evaluation/metrics': 'evaluation',
    'evaluation/controls': 'evaluation',
    'study/verdicts.py': 'study',
    'analysis/verdicts.py': 'analysis',
}
SWAPS = {
    ast.Lt: '<=',
    ast.LtE: '<',
    ast.Gt: '>=',
    ast.GtE: '>',
    ast.Eq: '!=',
    ast.NotEq: '==',
    ast.Add: '-',
    ast.Sub: '+',
    ast.Mult: '/',
    ast.Div: '*',
    ast.And: 'or',
    ast.Or: 'and',
}


def changes(tree, lines):
    """(line number, new line) of each change of one operator or number of a file."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                pass
            case ast.BinOp(left=left, op=op, right=right):
                pass
            case ast.BoolOp(op=op, values=[left, right]):
                pass
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                line = lines[node.lineno - 1]
                yield (
                    node.lineno,
                    f'{line[: node.col_offset]}{value + 1}{line[node.end_col_offset :]}',
                )
                continue
            case _:
                continue
        if type(op) in SWAPS and left.end_lineno == right.lineno:
            line = lines[right.lineno - 1]
            between = line[left.end_col_offset : right.col_offset]
            # Parentheses around a side stay as they are.
            words = [word for word in between.split() if word.strip('()')]
            if len(words) == 1:
                changed = between.replace(words[0].strip('()'), SWAPS[type(op)])
                yield (
                    right.lineno,
                    line[: left.end_col_offset] + changed + line[right.col_offset :],
                )


def mutants(path, tests):
    """All mutants of a file; only lines that it has once, in ASCII, inside functions."""
    text = path.read_text(encoding='utf-8')
    lines, tree = text.splitlines(), ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inside = {n for f in functions for n in range(f.body[0].lineno, f.end_lineno + 1)}
    for number, after in changes(tree, lines):
        before = lines[number - 1]
        if number in inside and before.isascii() and lines.count(before) == 1:
            yield {
                'file': path.relative_to(PACKAGE).as_posix(),
                'before': before,
                'after': after,
                'tests': tests,
            }


def draw():
    """Writes COUNT mutants, drawn uniformly, at most one a line."""
    everything = [
        mutant
        for place, tests in STAYS.items()
        for path in sorted(
            PACKAGE.glob(place if place.endswith('.py') else f'{place}/**/*.py')
        )
        for mutant in mutants(path, tests)
    ]
    random.Random(SEED).shuffle(everything)
    chosen = {(m['file'], m['before']): m for m in everything}
    LIST.write_text(''.join(json.dumps(m) + '\n' for m in list(chosen.values())[:COUNT]))
    print(f'{COUNT} of {len(everything)} mutants are in {LIST}')


def locate(mutant):
    """The file that has the mutant's line now, or None."""
    paths = [PACKAGE / mutant['file'], *sorted(PACKAGE.rglob('*.py'))]
    holders = [p for p in paths if p.exists() and mutant['before'] in lines_of(p)]
    return holders[0] if holders else None


def lines_of(path):
    """The lines of a file."""
    return path.read_text(encoding='utf-8').split('\n')


def verdict(mutant):
    """'killed', 'alive' or 'gone': whether a test of the mutant's folder fails."""
    path = locate(mutant)
    if path is None:
        return 'gone'
    text = path.read_text(encoding='utf-8')
    lines = text.split('\n')
    lines[lines.index(mutant['before'])] = mutant['after']
    command = [sys.executable, '-m', 'pytest', '-q', '-x', '-n', '0', '-m', FAST]
    try:
        path.write_text('\n'.join(lines), encoding='utf-8')
        ended = subprocess.run(
            [*command, f'tests/{mutant["tests"]}'],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            timeout=1800,
        )
    except subprocess.TimeoutExpired:
        return 'killed'
    finally:
        path.write_text(text, encoding='utf-8')
    return 'alive' if ended.returncode == 0 else 'killed'


def run(out, first=0):
    """Appends one line a mutant to a file, from number `first` on."""
    for number, line in enumerate(LIST.read_text().splitlines()):
        if number >= first:
            answer = verdict(json.loads(line))
            with Path(out).open('a') as file:
                file.write(f'{number} {answer} {line}\n')


if __name__ == '__main__':
    match sys.argv[1:]:
        case ['draw']:
            draw()
        case ['run', out]:
            run(out)
        case ['run', out, first]:
            run(out, int(first))
        case _:
            sys.exit(__doc__)
