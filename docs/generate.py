"""Generates the reference of the documentation from the code: a page for each module, and
their list by layer.

mkdocs runs this file through mkdocs-gen-files. The description of a file is the first
sentence of its docstring, so the list cannot be out of date.
"""

import ast
import re
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'
# A search lists the guides and the public names first.
BEHIND = '---\nsearch:\n  boost: 0.2\n---\n\n'


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
    raise LookupError('tests/test_layers.py has no LAYERS.')


def modules(layer):
    """(dotted name, file) of all files of a layer with something public in them."""
    for path in [PACKAGE / f'{layer}.py', *sorted((PACKAGE / layer).rglob('*.py'))]:
        parts = path.relative_to(ROOT).with_suffix('').parts
        if path.exists() and (parts[-1] != '__init__' or defines(path)):
            yield '.'.join(parts).removesuffix('.__init__'), path


def defines(path):
    """Does a file define functions or classes?"""
    body = ast.parse(path.read_text(encoding='utf-8')).body
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body)


def write(name, text):
    """A page of the site."""
    with mkdocs_gen_files.open(name, 'w') as page:
        page.write(text)


def main():
    """Writes a page for each module, and reference.md, which lists them by layer."""
    lines = [(ROOT / 'docs' / 'reference.md').read_text(encoding='utf-8')]
    for layer in layers():
        about = PACKAGE / layer / '__init__.py'
        if about.exists():
            lines.append(f'\n## {layer}\n\n{first_sentence(about)}.\n')
        else:
            lines.append(f'\n## {layer}\n')
        lines.append('| module | description |\n|---|---|')
        for name, path in modules(layer):
            short = name.removeprefix('jepa_text.')
            page = f'reference/{short}.md'
            lines.append(f'| [`{short}`]({page}) | {first_sentence(path)} |')
            write(page, f'{BEHIND}# {short}\n\n::: {name}\n')
    write('reference.md', '\n'.join(lines))


main()
