"""Report of `jepa-text tokenizer`: console output and an HTML page."""

from jepa_text.report import console, page


def show(report):
    """Prints a report."""
    for line in report['said']:
        print(f'  {line}')
    print(f'Measured on {measured_on(report)}:')
    console.table('', *table(report))
    for heading, lines in lists(report).items():
        print(f'{heading}\n' + '\n'.join(f'  {line}' for line in lines))


def write(path, report):
    """Writes a report as a page and returns its path."""
    name, first = next(iter(report['tokenizers'].items()))
    columns, rows = table(report)
    fertility, use = first['fertility'], first['vocabulary']
    sections = [
        {
            'facts': [
                _fact(fertility['tokens_per_word'], 'tokens per word'),
                _fact(fertility['bytes_per_token'], 'bytes per token'),
                _fact(f'{first["unknown"]["share"]:.3%}', 'of the tokens are unknown'),
                _fact(f'{use["share_used"]:.1%}', 'of the entries are used'),
            ]
        },
        {
            'heading': 'Training',
            'text': '\n\n'.join(report['said']),
        },
        {
            'heading': 'Fit to the text',
            'text': f'Measured on {measured_on(report)}.',
            'table': {'columns': columns, 'rows': rows},
        },
        *(
            {'heading': heading, 'text': '\n\n'.join(lines)}
            for heading, lines in lists(report).items()
        ),
        {'heading': 'Full report', 'details': {'JSON': report}},
    ]
    lead = (
        f'{first["vocab_size"]:,} entries, '
        f'{fertility["tokens_per_word"]:.2f} tokens per word, '
        f'{fertility["bytes_per_token"]:.2f} bytes per token.'
    )
    return page.write(
        path, f'The tokenizer {name}', lead, sections, 'jepa-text tokenizer'
    )


def measured_on(report):
    """Returns, for example, 'held-out text: 27 documents, 480,102 bytes'."""
    on = report['measured_on']
    return f'{on["what"]}: {on["documents"]:,} documents, {on["bytes"]:,} bytes'


_CELLS = {
    'tokens': '{counts[tokens]:,}',
    'tokens per word': '{fertility[tokens_per_word]:.3f}',
    'bytes per token': '{fertility[bytes_per_token]:.3f}',
    'unknown tokens': '{unknown[count]:,}',
    'share unknown': '{unknown[share]:.3%}',
    'entries used': '{vocabulary[used]:,}',
    'share used': '{vocabulary[share_used]:.1%}',
    'used once': '{vocabulary[once]:,}',
}


def table(report):
    """Returns (columns, rows) with one column per tokenizer."""
    tokenizers = [*report['tokenizers'].values()]
    rows = [['entries', *(found['vocab_size'] for found in tokenizers)]]
    for name, cell in _CELLS.items():
        rows.append([name, *(cell.format(**found) for found in tokenizers)])
    for share in tokenizers[0]['vocabulary']['covering']:
        entries = (found['vocabulary']['covering'][share] for found in tokenizers)
        name = f'entries that cover {float(share):.0%} of the tokens'
        rows.append([name, *(f'{count:,}' for count in entries)])
    slopes = [found['vocabulary']['zipf'] for found in tokenizers]
    texts = (None if slope is None else f'{slope:.2f}' for slope in slopes)
    rows.append(['Zipf exponent', *texts])
    return ['', *report['tokenizers']], rows


def lists(report):
    """Returns {heading: lines} with examples of the first tokenizer, the new one."""
    first = next(iter(report['tokenizers'].values()))
    found = {}
    if first['unknown']['characters']:
        found[
            f'Unknown characters (the most common of {first["unknown"]["kinds"]:,})'
        ] = [f'{c} (U+{ord(c):04X}) {n:,}' for c, n in first['unknown']['characters']]
    found['Longest tokens in use, with their counts'] = [
        f'{text!r} {count:,}' for text, count in first['longest']
    ]
    unused = first['vocabulary']['unused']
    if unused:
        never = first['vocabulary']['entries'] - first['vocabulary']['used']
        found[f'Last of {never:,} unused tokens'] = [' '.join(map(repr, unused))]
    return found


def _fact(value, label):
    return {'value': value, 'label': label}
