"""Report pages: texts, tables and figures as one HTML file, and the same as Markdown.

Callers give texts, tables and figures, never HTML: the template page.html escapes
everything. A page needs no network, script or other file, follows the reader's light or
dark setting, and suits printing and small screens.
"""

import functools
import io
import json
import math
import platform
import re
from importlib import metadata
from pathlib import Path

from jepa_text.files import atomic
from jepa_text.report import plots

PACKAGES = ('jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'tokenizers')
SHORT = 20  # characters below which a cell is not wrapped
# What Markdown interprets in a cell; underscores only at the ends of a word.
_MARKUP = re.compile(r'[\\`*\[<|~]|(?<!\w)_+|_+(?!\w)')


def write(path, title, lead, sections, compared=''):
    """Writes the page atomically and returns its path.

    `lead` is the answer: the scores beside their strongest controls, then the verdict and
    the problems, in paragraphs separated by blank lines, of which the first is large.
    `compared` is a line above it on what was compared, such as of `amounts`. Each section
    is a dict. All keys are optional and are shown in this order:

    heading    a string
    text       paragraphs separated by blank lines; `code` in backticks
    table      {'columns': [...], 'rows': [[...]], 'note': '...'}. Numbers are
               right-aligned, the floats of a column have the same number of decimals,
               and None is a dash. With 'fold', a summary, the table is collapsed
    figures    matplotlib figures, drawn as SVG; two per row if there is room
    details    {summary: string, dict or list}, collapsed; dicts and lists are shown as
               JSON

    Raises ValueError for a row of another length than its columns, before anything is
    written.
    """
    shown = [_shown(section, number) for number, section in enumerate(sections)]
    given = dict(title=title, lead=_paragraphs(lead), sections=shown, compared=compared)
    return _saved(path, _template().render(given))


def write_markdown(path, title, lead, sections):
    """Writes sections as Markdown for the appendix of a paper, and their figures as SVG
    and PDF to figures/ beside it; returns the path. Folded tables are in full, details
    omitted."""
    parts = [f'# {title}', lead]
    for number, section in enumerate(sections):
        if section.keys() - {'heading', 'details'}:
            parts += _markdown_section(section, f'{number:02d}', Path(path).parent)
    return _saved(path, '\n\n'.join(parts) + '\n')


def scores(label, values, controls, lower=False):
    """Returns the scores of what was compared beside the strongest control.

    `values` are {name: (value, low, high)}, of which only the best and the worst of many
    are told, `controls` {name: value}. Values that are not finite are left out. A value
    whose interval has the control in it is not better.

    >>> print(scores('accuracy', {'a': (0.5, 0.4, 0.6)}, {'TF-IDF': 0.8}))
    accuracy: `a` 0.500 ± 0.100; not better than the strongest control, TF-IDF, 0.800.
    """
    sign = 1 if lower else -1
    known = {name: one for name, one in values.items() if math.isfinite(one[0])}
    controls = {name: x for name, x in controls.items() if math.isfinite(x)}
    if not known:
        return ''
    order, between = sorted(known, key=lambda name: sign * known[name][0]), ', '
    if len(order) > 3:
        order, between = order[:: len(order) - 1], ' to '
    shown = {n: f'`{n}` {x[0]:.3f} {margin_text(x) or ""}' for n, x in known.items()}
    told = [shown[name].strip() for name in order]
    text = f'{label}: {between.join(told)}'
    if controls:
        best = min(controls, key=lambda name: sign * controls[name])
        reached = controls[best]
        behind = [
            name
            for name, (value, low, high) in known.items()
            if sign * (value - reached) >= 0 or low <= reached <= high
        ]
        few = ', '.join(f'`{name}`' for name in behind)
        which = f'{few if len(behind) <= 3 else len(behind)} not'
        if len(behind) in (0, len(known)):
            which = 'none' if behind else 'all'
            which = which if len(known) > 1 else 'not' * bool(behind)
        # Without an interval, a difference may be chance.
        has_intervals = all(math.isfinite(low) for _, low, _ in known.values())
        than = 'better than' if has_intervals or which == 'none' else 'beyond'
        text += f'; {which} {than} the strongest control'.replace('  ', ' ')
        text += f', {best}, {reached:.3f}'
    return f'{text}.'


def needed(differences, seeds, maximum):
    """Returns how many seeds would show differences: a number each, None above `maximum`.

    >>> print(needed('The others', [12, 40, None], 1000))
    The others would need 12 to 40 seeds if they are as large as measured; 1 more than \
1,000.
    """
    known = [count for count in seeds if count]
    if not known:
        return seeds and f'{differences} would need more than {maximum:,} seeds.' or ''
    text = (
        f'{differences} would need {span(known)} seeds if they are as large as measured'
    )
    lost = len(seeds) - len(known)
    return f'{text}; {lost} more than {maximum:,}.' if lost else f'{text}.'


def span(numbers):
    """Returns the smallest and the largest number as text: '1,000 to 1,300', or one."""
    numbers = [int(number) for number in numbers]
    return ' to '.join(dict.fromkeys(f'{end:,}' for end in (min(numbers), max(numbers))))


def listed(what, names):
    """Returns how many of what there are, with the names of a few.

    >>> listed('recipe', ['a', 'b'])
    '2 recipes (`a`, `b`)'
    """
    shown = ', '.join(f'`{name}`' for name in names)
    count = f'{len(names)} {what}{"s" * (len(names) != 1)}'
    return f'{count} ({shown})' if len(names) <= 6 else count


def amounts(facts):
    """Returns what was compared as text, from dicts with some of these amounts.

    >>> amounts([dict(parameters=1000, steps=40), dict(parameters=1000, steps=80)])
    '1,000 parameters, 40 to 80 steps'
    """
    parts = []
    for unit in ('parameters', 'steps', 'tokens', 'seeds'):
        if known := [one[unit] for one in facts if one.get(unit)]:
            ends = span(known)
            parts.append(f'{ends} {unit[:-1] if ends == "1" else unit}')
    return ', '.join(parts)


def versions():
    """Returns the versions of packages and the machine, for reproducibility."""
    import jax

    return {
        'python': platform.python_version(),
        'machine': f'{platform.system()} {platform.machine()}',
        'devices': [str(device) for device in jax.devices()],
        **{name: metadata.version(name) for name in PACKAGES},
    }


def markdown_table(table):
    """Returns a table of `write` as GitHub-flavored Markdown.

    >>> print(markdown_table({'columns': ['', 'x'], 'rows': [['a|b_c', 2.0], ['_c', 3]]}))
    |  | x |
    | --- | ---: |
    | a\\|b_c | 2.000 |
    | \\_c | 3 |
    """
    grid = _grid(table)
    names = [column['name'] for column in grid['columns']]
    rules = ['---:' if column['kind'] == 'n' else '---' for column in grid['columns']]
    lines = [names, rules, *grid['rows']]
    text = '\n'.join(f'| {" | ".join(map(_without_markup, line))} |' for line in lines)
    caption = f'**{table["fold"]}**\n\n' if table.get('fold') else ''
    note = f'\n\n{table["note"]}' if table.get('note') else ''
    return caption + text + note


def interval_text(interval):
    """Formats (value, low, high) as '0.911 to 0.923'; None without finite ends."""
    if not interval or not math.isfinite(interval[1]):
        return None
    return f'{interval[1]:.3f} to {interval[2]:.3f}'.replace('-', '−')


def margin_text(interval):
    """Formats (value, low, high) as '± 0.006'; None without finite ends."""
    if not interval or not math.isfinite(interval[1]):
        return None
    return f'± {(interval[2] - interval[1]) / 2:.3f}'


def decimals(values):
    """Returns the number of decimals that shows the largest float in four digits."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v)]
    largest = max(sizes, default=1.0) or 1.0
    if largest < 0.01:
        return 2 - math.floor(math.log10(largest))
    return 3 if largest < 10 else 1 if largest < 1000 else 0


def _saved(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, text)
    return path


@functools.cache
def _template():
    import jinja2
    from markupsafe import Markup, escape

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters['code'] = lambda text: Markup(
        re.sub(r'`([^`]+)`', r'<code>\1</code>', str(escape(text)))
    )
    return environment.get_template('page.html')


def _shown(section, number):
    """Returns a section with all numbers as texts, and its figures as SVG."""
    details = section.get('details') or {}
    return {
        'heading': section.get('heading'),
        'text': _paragraphs(section.get('text') or ''),
        'table': _grid(section['table']) if section.get('table') else None,
        'figures': [
            _svg(figure, f's{number}f{index}-')
            for index, figure in enumerate(section.get('figures') or ())
        ],
        'details': {
            summary: value
            if isinstance(value, str)
            else json.dumps(value, indent=2, sort_keys=True, default=str)
            for summary, value in details.items()
        },
    }


def _paragraphs(text):
    return [block for block in re.split(r'\n\s*\n', text.strip()) if block]


def _grid(table):
    """Returns a table as {columns: [{name, kind}], rows: [[text]], note, fold}."""
    columns, rows = list(table['columns']), [list(row) for row in table['rows']]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f'A table with the columns {", ".join(map(str, columns))} has a row with '
                f'{len(row)} cells: {row!r}.'
            )
    values = [[row[i] for row in rows] for i in range(len(columns))]
    places = [*map(decimals, values)]
    return {
        'columns': [
            {'name': str(name).replace(' %', '\xa0%'), 'kind': _kind(cells)}
            for name, cells in zip(columns, values)
        ],
        'rows': [[*map(_cell, row, places)] for row in rows],
        'note': table.get('note'),
        'fold': table.get('fold'),
    }


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(values):
    """Returns the CSS class of a column: numbers are right-aligned, texts may wrap."""
    if any(map(_is_number, values)):
        return 'n'
    return 'short' if all(len(str(value)) < SHORT for value in values) else 'long'


def _cell(value, places):
    """Returns a table cell as text: floats with this many decimals, None as a dash."""
    if not _is_number(value):
        return '–' if value is None else str(value)
    text = f'{value:,.{places}f}' if isinstance(value, float) else f'{value:,}'
    return text.replace('-', '−')  # a real minus sign is as wide as a digit


def _svg(figure, prefix):
    from markupsafe import Markup, escape

    buffer = io.StringIO()
    with plots.deterministic_svg():
        figure.savefig(buffer, format='svg', transparent=True, metadata={'Date': None})
    svg = buffer.getvalue()
    svg = svg[svg.index('<svg') :]
    svg = re.sub(r'<metadata>.*?</metadata>', '', svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1', svg, count=1)
    label = f'role="img" aria-label="{escape(plots.described(figure))}"'
    svg = re.sub(r' height="[^"]*"', lambda _: f' {label}', svg, count=1)
    return Markup(re.sub(r'(\bid="|href="#|url\(#)', rf'\g<1>{prefix}', svg))


def _markdown_section(section, number, folder):
    if section.get('heading'):
        yield f'## {section["heading"]}'
    if section.get('text'):
        yield section['text'].strip()
    if section.get('table'):
        yield markdown_table(section['table'])
    for index, figure in enumerate(section.get('figures') or ()):
        name = f'figures/{number}-{index}'
        (folder / 'figures').mkdir(parents=True, exist_ok=True)
        # Without a date, so that the same results give the same file.
        for suffix, date in (('svg', 'Date'), ('pdf', 'CreationDate')):
            with plots.deterministic_svg():
                figure.savefig(folder / f'{name}.{suffix}', metadata={date: None})
        yield f'![{plots.described(figure)}]({name}.svg)'


def _without_markup(text):
    """Returns the text of a cell so that Markdown shows it as it is."""
    return _MARKUP.sub(lambda match: re.sub('(.)', r'\\\1', match[0]), text)
