"""The pages that are made from the code: the tree, and the reference.

mkdocs runs this through mkdocs-gen-files. A file's line in the tree is the first sentence
of its docstring, so the tree cannot be out of date.
"""

import ast
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'


def docstring(path):
    """The docstring of a file, '' if it has none."""
    return ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))) or ''


def first_line(path):
    """The first line of a file's docstring without its full stop."""
    return docstring(path).partition('\n')[0].rstrip('.')


def tree(folder, depth=0):
    """Lines of files and folders, files first, each with what it is for."""
    indent = '  ' * depth
    files = sorted(path for path in folder.glob('*.py') if path.name != '__init__.py')
    for path in files:
        yield f'{indent}{path.name:<{26 - len(indent)}}{first_line(path)}'
    for path in sorted(folder.iterdir()):
        if path.is_dir() and any(path.glob('*.py')):
            name = f'{indent}{path.name}/'
            yield f'{name:<26}{first_line(path / "__init__.py")}'
            yield from tree(path, depth + 1)


def modules():
    """Dotted names of all files with something public in them."""
    for path in sorted(PACKAGE.rglob('*.py')):
        parts = path.relative_to(ROOT).with_suffix('').parts
        if parts[-1] != '__init__':
            yield '.'.join(parts)


def write(name, text):
    """A page of the site."""
    with mkdocs_gen_files.open(name, 'w') as page:
        page.write(text)


def main():
    """Writes design.md with its tree, reference.md, and a page for each module."""
    lines = '\n'.join(tree(PACKAGE, 1))
    text = (ROOT / 'docs' / 'design.md').read_text(encoding='utf-8')
    write(
        'design.md', text.replace('<!-- tree -->', f'```text\njepa_text/\n{lines}\n```')
    )
    names = list(modules())
    rows = []
    for name in names:
        path = ROOT / f'{name.replace(".", "/")}.py'
        short = name.removeprefix('jepa_text.')
        rows.append(f'| [`{short}`](reference/{short}.md) | {first_line(path)} |')
        write(f'reference/{short}.md', f'# {short}\n\n::: {name}\n')
    top = (ROOT / 'docs' / 'reference.md').read_text(encoding='utf-8')
    write(
        'reference.md', top + '\n| module | what it is |\n|---|---|\n' + '\n'.join(rows)
    )


main()
