"""Runs notebooks as a reader would; no Jupyter is needed.

    python tests/notebooks.py                             all of colabs/
    python tests/notebooks.py --short                     with an eighth of the training
    python tests/notebooks.py --write colabs/1_*.ipynb    and keeps what the cells showed

All of them run as in Colab: each in a process of its own, outside of the clone, in a new
environment with the wheel. Those that are named run here.

An error or a warning in any cell fails. Lines of magic (`%`) are left out.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import packages

ROOT = Path(__file__).parents[1]
IDLE = 'Warning: this model has learned nothing'
MAX_KB = 400
DOTS_PER_INCH = 144  # shown at half the size, so sharp on a fine screen
# What --short replaces; other runs, in another folder.
SHORT = {
    'steps=320': 'steps=40',
    'steps=160': 'steps=20',
    'steps=80': 'steps=10',
    '(3e-4, 1e-3, 3e-3)': '(1e-3, 3e-3)',
    'runs/colabs': 'runs/colabs-short',
}


def code_cells(notebook):
    """The cells of a parsed notebook that run."""
    return [cell for cell in notebook['cells'] if cell['cell_type'] == 'code']


def program(cell, short=False):
    """The code of a cell without its lines of magic."""
    lines = ''.join(cell['source']).splitlines()
    code = '\n'.join(line for line in lines if not line.startswith('%'))
    for long, quick in SHORT.items() if short else ():
        code = code.replace(long, quick)
    return code


def run_cell(code, names, label):
    """Runs code in the dict `names`; the outputs in nbformat 4. Errors are the code's."""
    outputs = []
    names['display'] = lambda shown: outputs.append(_shown('display_data', shown))
    body = ast.parse(code, label).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    streams = _Stream('stdout', outputs), _Stream('stderr', outputs)
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        exec(compile(ast.Module(body, []), label, 'exec'), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), label, 'eval'), names)
            if value is not None:
                outputs.append(_shown('execute_result', value))
    return outputs


def run(path, write=False, short=False):
    """Runs a notebook in this process; with `write`, its outputs replace the old ones.

    Raises what a cell raises, and ValueError for a cell that warns and for a notebook
    that would be written with more than MAX_KB.
    """
    notebook, names = json.loads(path.read_text(encoding='utf-8')), {}
    began = time.monotonic()
    for number, cell in enumerate(code_cells(notebook), start=1):
        label = f'{path.name}, cell {number}'
        outputs = run_cell(program(cell, short), names, label)
        said = _text(outputs)
        # True of MLM alone after the few steps of a notebook, which says so.
        warned = said.replace(IDLE, '')
        if 'Warning' in warned or 'Traceback' in warned:
            raise ValueError(f'{label} warns; mend its cause:\n{said}')
        for output in outputs:
            if output['output_type'] == 'execute_result':
                output['execution_count'] = number
        cell |= {'execution_count': number, 'outputs': outputs}
        print(f'{label}: {time.monotonic() - began:.0f} s\n{said}', end='', flush=True)
    if write:
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + '\n'
        if len(text) > 1000 * MAX_KB:
            raise ValueError(f'{path} would have {len(text) // 1000} kB: fewer figures.')
        path.write_text(text, encoding='utf-8')


class _Stream(io.TextIOBase):
    """What is printed becomes outputs, in order with what is shown."""

    def __init__(self, name, outputs):
        self.name, self._outputs = name, outputs

    def writable(self):
        return True

    def write(self, text):
        last = self._outputs[-1] if self._outputs else {}
        if last.get('name') != self.name:
            last = {'output_type': 'stream', 'name': self.name, 'text': ''}
            self._outputs.append(last)
        last['text'] += text
        return len(text)


def _shown(kind, value):
    """A value as Jupyter would show it: picture, table or text."""
    data, metadata = {'text/plain': repr(value)}, {}
    if hasattr(value, 'savefig'):
        data['image/png'] = base64.b64encode(_png(value)).decode()
        wide, high = (round(72 * inches) for inches in value.get_size_inches())
        metadata['image/png'] = {'width': wide, 'height': high}
    elif hasattr(value, '_repr_html_'):
        data['text/html'] = value._repr_html_()
    return {'output_type': kind, 'data': data, 'metadata': metadata}


def _png(figure):
    """A figure in few colors: a third of the bytes, and no difference to see."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format='png', dpi=DOTS_PER_INCH, facecolor='white')
    picture = Image.open(drawn).convert('RGB').quantize(64, dither=Image.Dither.NONE)
    picture.save(small, format='png', optimize=True)
    return small.getvalue()


def _text(outputs):
    """What the outputs say in words."""
    said = (o.get('text') or o['data']['text/plain'].rstrip('\n') + '\n' for o in outputs)
    return ''.join(said)


def main(argv=None):
    """Runs the notebooks named here; all, in a new environment, if none is."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    way = parser.add_mutually_exclusive_group()
    way.add_argument('--write', action='store_true', help='keep what the cells showed')
    way.add_argument('--short', action='store_true', help='less training')
    parser.add_argument('notebooks', nargs='*', type=Path)
    given = parser.parse_args(argv)
    if given.notebooks:
        for path in given.notebooks:
            run(path, given.write, given.short)
        return
    flags = [f'--{flag}' for flag in ('write', 'short') if getattr(given, flag)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _, wheel = packages.build(folder)
        python = folder / 'venv' / 'bin' / 'python'
        packages.said([sys.executable, '-m', 'venv', folder / 'venv'], folder)
        packages.said([python, '-m', 'pip', 'install', f'{wheel}[eval,viz]'], folder)
        env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
        for path in sorted((ROOT / 'colabs').glob('*.ipynb')):
            print(f'--- {path.name}', flush=True)
            command = [python, __file__, *flags, path]
            subprocess.run(command, check=True, cwd=folder, env=env)


if __name__ == '__main__':
    main()
