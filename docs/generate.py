"""Generates pages of the documentation from the code: the tree and the reference.

mkdocs runs this file through mkdocs-gen-files. The description of a file in the tree is
the first sentence of its docstring, so the tree cannot be out of date.
"""

import ast
import re
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'


def docstring(path):
    """The docstring of a file, '' if it has none."""
    return ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))) or ''


def first_sentence(path):
    """The first sentence of a file's docstring without its full stop."""
    paragraph = ' '.join(docstring(path).partition('\n\n')[0].split())
    return re.split(r'(?<=[.;?])\s', paragraph)[0].rstrip('.;')


def layers():
    """The folders and files of the package in the order in which they may import."""
    tests = ast.parse((ROOT / 'tests' / 'test_layers.py').read_text(encoding='utf-8'))
    for node in tests.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == 'LAYERS':
            return ast.literal_eval(node.value)
    raise LookupError('tests/test_layers.py has no LAYERS, which the tree is sorted by.')


def tree(folder, order=()):
    """Lines of files and folders, each with what it is for, as `order` has them; others
    by name, files first."""
    depth = len(folder.relative_to(ROOT).parts)
    rank = {name: place for place, name in enumerate(order)}
    parts = [
        path
        for path in folder.iterdir()
        if (path.suffix == '.py' or any(path.glob('*.py'))) and path.stem[:2] != '__'
    ]
    for path in sorted(parts, key=lambda p: (rank.get(p.stem, -1), p.is_dir(), p.name)):
        name = '  ' * depth + path.name + '/' * path.is_dir()
        about = path / '__init__.py' if path.is_dir() else path
        yield f'{name:<28}{first_sentence(about)}'
        if path.is_dir():
            yield from tree(path)


def modules():
    """(dotted name, file) of all files with something public in them."""
    for path in sorted(PACKAGE.rglob('*.py')):
        parts = path.relative_to(ROOT).with_suffix('').parts
        if parts[-1] != '__init__':
            yield '.'.join(parts), path
        elif defines(path):
            yield '.'.join(parts[:-1]), path


def defines(path):
    """Does a file define functions or classes?"""
    body = ast.parse(path.read_text(encoding='utf-8')).body
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body)


def write(name, text):
    """A page of the site."""
    with mkdocs_gen_files.open(name, 'w') as page:
        page.write(text)


def main():
    """Writes design.md with its tree, reference.md, and a page for each module."""
    lines = '\n'.join(tree(PACKAGE, layers()))
    text = (ROOT / 'docs' / 'design.md').read_text(encoding='utf-8')
    write(
        'design.md', text.replace('<!-- tree -->', f'```text\njepa_text/\n{lines}\n```')
    )
    rows = []
    for name, path in modules():
        short = name.removeprefix('jepa_text.')
        rows.append(f'| [`{short}`](reference/{short}.md) | {first_sentence(path)} |')
        write(f'reference/{short}.md', f'# {short}\n\n::: {name}\n')
    top = (ROOT / 'docs' / 'reference.md').read_text(encoding='utf-8')
    write(
        'reference.md', top + '\n| module | description |\n|---|---|\n' + '\n'.join(rows)
    )


main()
