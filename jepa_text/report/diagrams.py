"""Diagrams of objectives: inputs, targets and the attention mask by position.

One line per position of a row, one column of tokens per view:

    reads     predicts     sees  You p ier ce
    You       .                   #  #  #  #
    <mask>    p                   #  #  #  #
    ier       .                   #  #  #  #
"""

import numpy as np

from jepa_text.report.plots import COLORS, GRID, INK, MUTED

# {kind of a token: (color of its box, color of its text)}
KINDS = {
    'read': ('#f6f8fa', INK),
    'masked': (INK, 'white'),
    'replaced': (COLORS[3], 'white'),
    'token predicted': (COLORS[1], 'white'),
    'vector predicted': (COLORS[2], 'white'),
    'token and vector predicted': (COLORS[4], 'white'),
    'cut out': ('none', GRID),
    '': ('none', GRID),
}
_LINE, _COLUMN, _ABOVE, _BELOW = 0.19, 0.78, 0.75, 0.35  # inches


def positions(columns, title, sees_LL=None, sees_tokens=None):
    """Returns a figure of tokens by position, and of the attention mask.

    columns        {heading: [(token, kind), ...]} with one pair per position. Kinds are
                   those of KINDS; '' has no box
    sees_LL        [L, L] bool: whether position i attends to position j
    sees_tokens    column names of the mask; by default, the tokens of the first column

    Raises ValueError for columns of different lengths.

    >>> figure = positions({'reads': [('You', 'read'), ('<mask>', 'masked')]}, 'MLM')
    >>> [cell.get_text().get_text() for cell in figure.axes[0].tables[0]._cells.values()]
    ['You', '<mask>', 'reads']
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    length = len(next(iter(columns.values())))
    names = sees_tokens or [token for token, _ in next(iter(columns.values()))]
    left, size = len(columns) * _COLUMN, 0 if sees_LL is None else length * _LINE
    above = max(_ABOVE, 0.5 + 0.08 * max(map(len, names))) if size else _ABOVE
    # Wide enough for the title.
    wide = max(left + size + 0.5, 3.7, 0.085 * len(title) + 0.3)
    high = above + length * _LINE + _BELOW
    figure = Figure(figsize=(wide, high), facecolor='none')
    text = dict(ha='left', va='top', fontsize=10.5, fontweight='bold', color=INK)
    figure.text(0.15 / wide, 1 - 0.1 / high, title, **text)
    height = length * _LINE / high
    _tokens(figure.add_axes((0.1 / wide, _BELOW / high, left / wide, height)), columns)
    if size:
        corner = (left + 0.3) / wide, _BELOW / high, size / wide, height
        _mask(figure.add_axes(corner), np.asarray(sees_LL, bool), names)
    used = {kind for cells in columns.values() for _, kind in cells} - {'', 'read'}
    handles = [
        Patch(facecolor=KINDS[kind][0], edgecolor=GRID, label=kind)
        for kind in KINDS
        if kind in used
    ]
    if handles:
        look = dict(frameon=False, fontsize=8, labelcolor=INK, handlelength=1.1)
        figure.legend(handles=handles, loc='lower left', ncols=4, **look)
    return figure


def _tokens(axes, columns):
    axes.axis('off')
    cells = list(zip(*columns.values(), strict=True))
    high = 1 + 1 / len(cells)
    table = axes.table(
        [[token for token, _ in line] for line in cells],
        colLabels=list(columns),
        cellLoc='center',
        bbox=(0, 0, 1, high),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(7.5)
    for (line, column), cell in table.get_celld().items():
        kind = cells[line - 1][column][1] if line else ''
        face, ink = KINDS[kind]
        cell.set(facecolor=face, linewidth=2 if kind else 0, edgecolor='white')
        cell.get_text().set(color=ink if line else MUTED, parse_math=False)


def _mask(axes, sees_LL, names):
    from matplotlib.colors import ListedColormap

    colors = ListedColormap(['none', COLORS[5]])
    axes.pcolormesh(sees_LL, cmap=colors, vmin=0, vmax=1, edgecolors='white')
    axes.invert_yaxis()
    axes.set(yticks=[], xticks=np.arange(len(names)) + 0.5)
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    axes.set_xticklabels(names, rotation=90, fontsize=7, color=MUTED, parse_math=False)
    axes.spines[:].set_color(GRID)
