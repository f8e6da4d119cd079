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
_LINE, _COLUMN, _LETTER = 0.19, 0.78, 0.105  # inches


def positions(columns, title, sees_LL=None, sees_tokens=None):
    """Returns a figure of tokens by position, and of the attention mask.

    columns        {heading: [(token, kind), ...]} with one pair per position. Kinds are
                   those of KINDS; '' has no box
    sees_LL        [L, L] bool: whether position i attends to position j
    sees_tokens    column names of the mask; by default, the tokens of the first column

    Raises ValueError for columns of different lengths, a mask of another shape and
    unknown kinds.

    >>> figure = positions({'reads': [('You', 'read'), ('<mask>', 'masked')]}, 'MLM')
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['reads', 'You', '<mask>']
    """
    length = _checked(columns, title, sees_LL)
    first = next(iter(columns.values()))
    names = sees_tokens or [token for token, _ in first]
    matrix = 0 if sees_LL is None else length * _LINE + 0.25
    longest = max(len(name) for name in names) if matrix else 0
    above = max(0.3, _LETTER * 0.75 * longest + 0.1)
    wide = len(columns) * _COLUMN + matrix
    high = length * _LINE + above
    figure, axes = _canvas(title, wide, high, above)
    for index, (heading, cells) in enumerate(columns.items()):
        _column(axes, index * _COLUMN, heading, cells)
    if matrix:
        _matrix(axes, len(columns) * _COLUMN + 0.25, np.asarray(sees_LL, bool), names)
    used = [kind for cells in columns.values() for _, kind in cells]
    _legend(figure, [kind for kind in KINDS if kind in used and kind not in ('', 'read')])
    return figure


def _checked(columns, title, sees_LL):
    lengths = {heading: len(cells) for heading, cells in columns.items()}
    length = max(lengths.values(), default=0)
    if not length or set(lengths.values()) != {length}:
        raise ValueError(
            f'{title}: all columns need one (token, kind) per position, but their '
            f'lengths are {lengths}.'
        )
    if sees_LL is not None and np.shape(sees_LL) != (length, length):
        raise ValueError(
            f'{title}: sees_LL has shape {np.shape(sees_LL)}; expected '
            f'({length}, {length}), as there are {length} positions.'
        )
    unknown = {kind for cells in columns.values() for _, kind in cells} - set(KINDS)
    if unknown:
        known = ', '.join(filter(None, KINDS))
        raise ValueError(f'{title}: unknown kinds {sorted(unknown)}; choices: {known}.')
    return length


def _canvas(title, wide, high, above):
    """Returns an empty figure in data units of inches, downward from the first line."""
    from matplotlib.figure import Figure

    # Wide enough for the title.
    size = max(wide + 0.3, 3.4, 0.085 * len(title) + 0.3), high + 0.75
    figure = Figure(figsize=size, facecolor='none')
    axes = figure.add_axes(
        (0.15 / size[0], 0.4 / size[1], wide / size[0], high / size[1])
    )
    axes.set(xlim=(0, wide), ylim=(high - above, -above))
    axes.axis('off')
    figure.text(
        0.15 / size[0],
        1 - 0.1 / size[1],
        title,
        ha='left',
        va='top',
        fontsize=10.5,
        fontweight='bold',
        color=INK,
    )
    return figure, axes


def _column(axes, left, heading, cells):
    from matplotlib.patches import FancyBboxPatch

    middle = left + _COLUMN / 2
    text = dict(ha='center', va='center', fontsize=7.5, parse_math=False)
    axes.text(middle, -0.13, heading, **text, color=MUTED)
    for line, (token, kind) in enumerate(cells):
        face, ink = KINDS[kind]
        if kind:
            box = FancyBboxPatch(
                (left + 0.06, line * _LINE + 0.035),
                _COLUMN - 0.12,
                _LINE - 0.07,
                boxstyle='round,pad=0.02,rounding_size=0.04',
                facecolor=face,
                edgecolor=GRID if kind in ('read', 'cut out') else 'none',
                linewidth=0.6,
                linestyle=(0, (2, 2)) if kind == 'cut out' else '-',
            )
            axes.add_patch(box)
        axes.text(middle, (line + 0.52) * _LINE, token, **text, color=ink)


def _matrix(axes, left, sees_LL, names):
    from matplotlib.colors import ListedColormap

    length = len(sees_LL)
    edge = np.arange(length + 1) * _LINE
    axes.pcolormesh(
        left + edge,
        edge,
        np.where(sees_LL, 1.0, np.nan),
        cmap=ListedColormap([COLORS[5]]),
        edgecolors='white',
        linewidth=0.8,
    )
    for index, name in enumerate(names):
        axes.text(
            left + (index + 0.5) * _LINE,
            -0.05,
            name,
            rotation=90,
            ha='center',
            va='bottom',
            fontsize=7,
            color=MUTED,
            parse_math=False,
        )
    frame = np.array([0, length, length, 0, 0]) * _LINE
    axes.plot(left + frame, np.roll(frame, -1), color=GRID, linewidth=0.8)


def _legend(figure, kinds):
    from matplotlib.patches import Patch

    handles = [
        Patch(
            facecolor=KINDS[kind][0],
            edgecolor=GRID,
            linestyle=':' if kind == 'cut out' else '-',
            label=kind,
        )
        for kind in kinds
    ]
    if handles:
        figure.legend(
            handles=handles,
            loc='lower left',
            ncols=4,
            frameon=False,
            fontsize=8,
            labelcolor=INK,
            handlelength=1.1,
            columnspacing=1.2,
        )
