"""Report pages as Markdown with SVG and PDF figures, for the appendix of a paper.

The sections are those of report/page.py. Folded details are omitted, folded tables are
not.
"""

import re
from pathlib import Path

from jepa_text.files import atomic
from jepa_text.report import page, plots

# What Markdown interprets in a cell; underscores only at the ends of a word.
_MARKUP = re.compile(r'[\\`*\[<|~]|(?<!\w)_+|_+(?!\w)')


def write(path, title, lead, sections):
    """Writes a Markdown file and its figures to figures/ in the same folder.

    `sections` are those of page.write. Returns the path.
    """
    path = Path(path)
    folder = path.parent / 'figures'
    parts = [f'# {title}', lead]
    for number, section in enumerate(sections):
        if not section.keys() - {'heading', 'details'}:
            continue
        parts += _section(section, number, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, '\n\n'.join(parts) + '\n')
    return path


def _section(section, number, folder):
    if section.get('heading'):
        yield f'## {section["heading"]}'
    if section.get('text'):
        yield section['text'].strip()
    if section.get('facts'):
        yield '\n'.join(map(_fact, section['facts']))
    if section.get('table'):
        yield table(section['table'])
    for index, figure in enumerate(section.get('figures') or ()):
        folder.mkdir(parents=True, exist_ok=True)
        name = f'{number:02d}-{index}'
        for suffix in ('svg', 'pdf'):
            # Without a date, so that the same results give the same file.
            date = {'svg': {'Date': None}, 'pdf': {'CreationDate': None}}[suffix]
            with plots.deterministic_svg():
                figure.savefig(folder / f'{name}.{suffix}', metadata=date)
        yield f'![{figure.get_suptitle()}](figures/{name}.svg)'


def _fact(fact):
    note = f' ({fact["note"]})' if fact.get('note') else ''
    return f'- {fact["value"]} {fact["label"]}{note}'


def table(table):
    """Returns a table of page.write as GitHub-flavored Markdown.

    >>> print(table({'columns': ['', 'loss'], 'rows': [['a|b_c', 2.0], ['_c', None]]}))
    |  | loss |
    | --- | ---: |
    | a\\|b_c | 2.000 |
    | \\_c | – |
    """
    columns, rows = list(table['columns']), [list(row) for row in table['rows']]
    values = [[row[i] for row in rows] for i in range(len(columns))]
    rules = ['---:' if any(map(page.is_number, one)) else '---' for one in values]
    places = [*map(page.decimals, values)]
    cells = [[page.cell_text(*cell) for cell in zip(row, places)] for row in rows]
    lines = [columns, rules, *cells]
    escaped = ([_escaped(str(cell)) for cell in line] for line in lines)
    text = '\n'.join(f'| {" | ".join(line)} |' for line in escaped)
    caption = f'**{table["fold"]}**\n\n' if table.get('fold') else ''
    note = f'\n\n{table["note"]}' if table.get('note') else ''
    return caption + text + note


def _escaped(text):
    """Returns the text of a cell so that Markdown shows it as it is."""
    return _MARKUP.sub(lambda found: re.sub('(.)', r'\\\1', found[0]), text)
