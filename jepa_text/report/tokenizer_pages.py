"""Report of `jepa-text tokenizer`: console output and an HTML page."""

from jepa_text.report import console, page

_CELLS = {
    'tokens': '{counts[tokens]:,}',
    'tokens per word': '{fertility[tokens_per_word]:.3f}',
    'bytes per token': '{fertility[bytes_per_token]:.3f}',
    'unknown tokens': '{unknown[count]:,}',
    'share unknown': '{unknown[share]:.3%}',
    'entries used': '{vocabulary[used]:,}',
    'share used': '{vocabulary[share_used]:.1%}',
}


def show(report):
    """Prints a report."""
    console.sections(_sections(report))


def write(path, report):
    """Writes a report as a page and returns its path."""
    name, first = next(iter(report['tokenizers'].items()))
    fertility = first['fertility']
    lead = (
        f'{first["vocab_size"]:,} entries, '
        f'{fertility["tokens_per_word"]:.2f} tokens per word, '
        f'{fertility["bytes_per_token"]:.2f} bytes per token.'
    )
    sections = [
        *_sections(report),
        {'heading': 'Full report', 'details': {'JSON': report}},
    ]
    return page.write(
        path, f'The tokenizer {name}', lead, sections, 'jepa-text tokenizer'
    )


def _sections(report):
    """Returns the training, the fit to the text, and examples of the new tokenizer."""
    first = next(iter(report['tokenizers'].values()))
    on, unknown = report['measured_on'], first['unknown']
    measured = f'{on["what"]}: {on["documents"]:,} documents, {on["bytes"]:,} bytes'
    heading = f'Unknown characters (the most common of {unknown["kinds"]:,})'
    lines = [f'{c} (U+{ord(c):04X}) {n:,}' for c, n in unknown['characters']]
    return [
        {'heading': 'Training', 'text': '\n\n'.join(report['said'])},
        {
            'heading': 'Fit to the text',
            'text': f'Measured on {measured}.',
            'table': {
                'columns': ['', *report['tokenizers']],
                'rows': _rows([*report['tokenizers'].values()]),
            },
        },
        *([{'heading': heading, 'text': '\n\n'.join(lines)}] if lines else ()),
    ]


def _rows(tokenizers):
    """Returns the rows of the table, with one column per tokenizer."""
    rows = [['entries', *(one['vocab_size'] for one in tokenizers)]]
    for name, cell in _CELLS.items():
        rows.append([name, *(cell.format(**one) for one in tokenizers)])
    return rows
