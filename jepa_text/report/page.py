"""Self-contained HTML report pages: no network access, scripts or other files.

Callers pass texts, tables and figures, never HTML; everything is escaped. The page
follows the reader's light or dark setting, and suits printing and small screens.
"""

import html
import io
import json
import math
import platform
import re
import string
from importlib import metadata
from pathlib import Path

from jepa_text.files import atomic
from jepa_text.report import plots

FRAME = Path(__file__).with_suffix('.html')  # template with the style sheet
PACKAGES = ('jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'tokenizers')
SECTION_KEYS = ('heading', 'text', 'facts', 'table', 'figures', 'predictions', 'details')
TABLE_KEYS = ('columns', 'rows', 'best', 'intervals', 'note', 'fold')
LONG = 40  # characters from which a cell is wrapped
PREDICTION_KEYS = ('before', 'target', 'after', 'models')


def write(path, title, lead, sections, subtitle=''):
    """Writes the page atomically and returns its path.

    `lead` is the main result in one sentence, `subtitle` a small line above the title.
    Each section is a dict. All keys are optional and are shown in this order:

    heading      a string
    text         paragraphs separated by blank lines; `code` in backticks
    facts        [{'value': '4.31', 'label': 'held-out loss', 'note': 'nats'}], in large
                 type
    table        {'columns': [...], 'rows': [[...]], 'best': {column: 'min' or 'max'},
                 'note': '...'}. Numbers are right-aligned, the floats of a column have
                 the same number of decimals, and None is a dash. The best number is bold
                 if its text differs from all others and, with 'intervals': {column:
                 [(low, high) or None per row]}, its interval overlaps with no other. With
                 'fold', a summary, the table is collapsed
    figures      matplotlib figures, drawn as SVG; two per row if there is room
    predictions  [{'before': 'Call me ', 'target': 'Ishmael', 'after': '.',
                 'models': {'mlm': [('Ishmael', 0.62), ('back', 0.11)]}}]
    details      {summary: string, dict or list}, collapsed; dicts and lists are shown as
                 JSON

    Raises ValueError for an unknown key and for a row of another length than its columns,
    before anything is written.
    """
    parts = [_section(section, number) for number, section in enumerate(sections)]
    text = string.Template(FRAME.read_text(encoding='utf-8')).substitute(
        title=_escape(title),
        subtitle=f'<p class="over">{_escape(subtitle)}</p>' if subtitle else '',
        lead=_inline(lead),
        sections='\n'.join(parts),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, text)
    return path


def versions():
    """Returns the versions of packages and the machine, for reproducibility."""
    import jax

    return {
        'python': platform.python_version(),
        'machine': f'{platform.system()} {platform.machine()}',
        'devices': [str(device) for device in jax.devices()],
        **{name: metadata.version(name) for name in PACKAGES},
    }


def _section(section, number):
    _check_keys(f'report section {number}', section, SECTION_KEYS)
    draw = {
        'heading': lambda value: f'<h2>{_escape(value)}</h2>',
        'text': _text,
        'facts': _facts,
        'table': _table,
        'figures': lambda value: _figures(value, number),
        'predictions': _predictions,
        'details': _details,
    }
    parts = [draw[key](section[key]) for key in SECTION_KEYS if section.get(key)]
    return '<section>\n' + '\n'.join(parts) + '\n</section>'


def _check_keys(what, given, known):
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(
            f'{what} has no key {unknown[0]!r}. Its keys are: {", ".join(known)}.'
        )


def _escape(value):
    return html.escape(str(value), quote=True)


def _inline(text):
    return re.sub(r'`([^`]+)`', r'<code>\1</code>', _escape(text))


def _text(text):
    blocks = [block for block in re.split(r'\n\s*\n', text.strip()) if block]
    return '\n'.join(f'<p>{_inline(block)}</p>' for block in blocks)


def _facts(facts):
    cards = []
    for fact in facts:
        _check_keys('a fact', fact, ('value', 'label', 'note'))
        note = f'<small>{_escape(fact["note"])}</small>' if fact.get('note') else ''
        cards.append(
            f'<div><b>{_cell(fact["value"])}</b><span>{_escape(fact["label"])}</span>'
            f'{note}</div>'
        )
    return f'<div class="facts">{"".join(cards)}</div>'


def _table(table):
    _check_keys('a table', table, TABLE_KEYS)
    columns, rows = list(table['columns']), [list(row) for row in table['rows']]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f'A table with the columns {", ".join(map(str, columns))} has a row with '
                f'{len(row)} cells: {row!r}.'
            )
    values = [[row[i] for row in rows] for i in range(len(columns))]
    classes, places = [*map(_css_class, values)], [*map(decimals, values)]
    best = {
        name: _best(name, direction, columns, values, table.get('intervals') or {})
        for name, direction in (table.get('best') or {}).items()
    }
    head = ''.join(
        f'<th scope="col"{css_class}>{_escape(name)}</th>'
        for name, css_class in zip(columns, classes)
    )
    lines = []
    for number, row in enumerate(rows):
        cells = (
            f'<td{css_class}>{_cell(value, place, best.get(name) == number)}</td>'
            for name, value, css_class, place in zip(columns, row, classes, places)
        )
        lines.append(f'<tr>{"".join(cells)}</tr>')
    note = f'<p class="note">{_inline(table["note"])}</p>' if table.get('note') else ''
    drawn = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f'<tbody>{"".join(lines)}</tbody></table></div>{note}'
    )
    return _folded(table['fold'], drawn) if table.get('fold') else drawn


def _best(name, direction, columns, values, intervals):
    """Returns the row of a column's smallest or largest number; None if it is tied."""
    if name not in columns or direction not in ('min', 'max'):
        raise ValueError(
            f'best={{{name!r}: {direction!r}}} is invalid: expected one of the columns '
            f"{columns}, and 'min' or 'max'."
        )
    values, sign = values[columns.index(name)], 1 if direction == 'max' else -1
    spans = intervals.get(name) or [None] * len(values)
    if len(spans) != len(values):
        raise ValueError(
            f'{name!r} has {len(spans)} intervals for {len(values)} rows; expected one '
            'interval or None per row.'
        )
    found = []
    for row, (value, span) in enumerate(zip(values, spans)):
        if is_number(value) and math.isfinite(value):
            low, high = sorted(sign * x for x in span or (value, value))
            found.append((sign * value, low, high, row))
    if not found:
        return None
    texts = [cell_text(value, decimals(values)) for value in values]
    _, low, _, winner = max(found)
    is_tied = any(
        high >= low or texts[row] == texts[winner]
        for _, _, high, row in found
        if row != winner
    )
    return None if is_tied else winner


def is_number(value):
    """Whether a table cell is a number, and so is right-aligned."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _css_class(values):
    """Returns the CSS class of a column: numbers are right-aligned, long texts wrap."""
    if any(map(is_number, values)):
        return ' class="n"'
    return ' class="long"' if any(len(str(value)) > LONG for value in values) else ''


def decimals(values):
    """Returns the number of decimals that shows the largest float in four digits."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v)]
    largest = max(sizes, default=1.0) or 1.0
    if largest < 0.01:
        return 2 - math.floor(math.log10(largest))
    return 3 if largest < 10 else 1 if largest < 1000 else 0


def cell_text(value, places=3):
    """Returns a table cell as text: floats with this many decimals, None as a dash."""
    if not is_number(value):
        return '–' if value is None else str(value)
    text = f'{value:,.{places}f}' if isinstance(value, float) else f'{value:,}'
    return text.replace('-', '−')  # a real minus sign is as wide as a digit


def _cell(value, places=3, bold=False):
    text = cell_text(value, places)
    return f'<b>{_escape(text)}</b>' if bold else _escape(text)


def _predictions(predictions):
    return '\n'.join(_prediction(prediction) for prediction in predictions)


def _prediction(prediction):
    _check_keys('a prediction', prediction, PREDICTION_KEYS)
    target = str(prediction['target'])
    models = []
    for name, guesses in prediction['models'].items():
        items = []
        for token, probability in guesses:
            hit = ' class="hit"' if token.strip() == target.strip() else ''
            items.append(
                f'<li{hit} style="--p:{100 * float(probability):.1f}%">'
                f'<span>{_escape(token)}</span><em>{_percent(probability)}</em></li>'
            )
        models.append(f'<div><h3>{_escape(name)}</h3><ol>{"".join(items)}</ol></div>')
    return (
        f'<div class="cloze"><p>{_escape(prediction["before"])}'
        f'<mark>{_escape(target)}</mark>{_escape(prediction["after"])}</p>'
        f'<div class="guesses">{"".join(models)}</div></div>'
    )


def _percent(probability):
    percent = 100 * float(probability)
    return '&lt;1 %' if 0 < percent < 1 else f'{percent:.0f} %'


def _figures(figures, number):
    drawn = [
        f'<figure>{_svg(figure, f"s{number}f{index}-")}</figure>'
        for index, figure in enumerate(figures)
    ]
    return f'<div class="figures">{"".join(drawn)}</div>'


def _svg(figure, prefix):
    """Returns a figure as an inline SVG element with unique ids."""
    if not hasattr(figure, 'savefig'):
        raise ValueError(
            f'{type(figure).__name__} is not a matplotlib figure, such as '
            'jepa_text.report.plots returns.'
        )
    buffer = io.StringIO()
    with plots.deterministic_svg():
        figure.savefig(buffer, format='svg', transparent=True, metadata={'Date': None})
    svg = buffer.getvalue()
    svg = svg[svg.index('<svg') :]
    svg = re.sub(r'<metadata>.*?</metadata>', '', svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1', svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r'\1 role="img"', svg, count=1)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf'\g<1>{prefix}', svg)
    return svg


def _details(details):
    parts = []
    for summary, value in details.items():
        if not isinstance(value, str):
            value = json.dumps(value, indent=2, sort_keys=True, default=str)
        parts.append(_folded(summary, f'<pre>{_escape(value)}</pre>'))
    return '\n'.join(parts)


def _folded(summary, inside):
    return f'<details><summary>{_escape(summary)}</summary>{inside}</details>'
