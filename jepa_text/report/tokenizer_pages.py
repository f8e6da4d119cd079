"""The report of `jepa-text tokenizer`: what is printed, and a page."""

from jepa_text.report import console, page


def show(report):
    """Prints the lines, the table and the lists of a report."""
    for line in report['said']:
        print(f'  {line}')
    print(f'On {measured_on(report)}:')
    console.table('', *table(report))
    for heading, lines in lists(report).items():
        print(f'{heading}\n' + '\n'.join(f'  {line}' for line in lines))


def write(path, report):
    """Writes the page of a report."""
    name, first = next(iter(report['tokenizers'].items()))
    columns, rows = table(report)
    fertility, use = first['fertility'], first['vocabulary']
    sections = [
        {
            'facts': [
                _fact(fertility['tokens_per_word'], 'tokens a word'),
                _fact(fertility['bytes_per_token'], 'bytes a token'),
                _fact(f'{first["unknown"]["share"]:.3%}', 'of the tokens are unknown'),
                _fact(f'{use["share_used"]:.1%}', 'of the entries are used'),
            ]
        },
        {
            'heading': 'How it was made',
            'text': '\n\n'.join(report['said']),
        },
        {
            'heading': 'How it fits',
            'text': f'Measured on {measured_on(report)}.',
            'table': {'columns': columns, 'rows': rows},
        },
        *(
            {'heading': heading, 'text': '\n\n'.join(lines)}
            for heading, lines in lists(report).items()
        ),
        {'heading': 'Everything', 'details': {'As JSON': report}},
    ]
    lead = (
        f'{first["vocab_size"]:,} entries; a word takes '
        f'{fertility["tokens_per_word"]:.2f} tokens, a token holds '
        f'{fertility["bytes_per_token"]:.2f} bytes.'
    )
    return page.write(
        path, f'The tokenizer {name}', lead, sections, 'jepa-text tokenizer'
    )


def measured_on(report):
    """Such as 'held-out text: 27 documents, 480,102 bytes'."""
    on = report['measured_on']
    return f'{on["what"]}: {on["documents"]:,} documents, {on["bytes"]:,} bytes'


_CELLS = {
    'tokens': '{counts[tokens]:,}',
    'tokens a word': '{fertility[tokens_per_word]:.3f}',
    'bytes a token': '{fertility[bytes_per_token]:.3f}',
    'unknown tokens': '{unknown[count]:,}',
    'share unknown': '{unknown[share]:.3%}',
    'entries used': '{vocabulary[used]:,}',
    'share used': '{vocabulary[share_used]:.1%}',
    'used once': '{vocabulary[once]:,}',
}


def table(report):
    """(columns, rows): a column a tokenizer."""
    measured = [*report['tokenizers'].values()]
    rows = [['entries', *(one['vocab_size'] for one in measured)]]
    for name, cell in _CELLS.items():
        rows.append([name, *(cell.format(**one) for one in measured)])
    for share in measured[0]['vocabulary']['covering']:
        entries = (one['vocabulary']['covering'][share] for one in measured)
        name = f'{float(share):.0%} of the tokens are of'
        rows.append([name, *(f'{count:,}' for count in entries)])
    slopes = (_number(one['vocabulary']['zipf']) for one in measured)
    rows.append(["Zipf's exponent", *slopes])
    return ['', *report['tokenizers']], rows


def lists(report):
    """{heading: lines} of what is shown by example, of the tokenizer that was made."""
    first = next(iter(report['tokenizers'].values()))
    found = {}
    if first['unknown']['characters']:
        found[f'Unknown characters, the commonest of {first["unknown"]["kinds"]:,}'] = [
            f'{c} (U+{ord(c):04X}) {n:,}' for c, n in first['unknown']['characters']
        ]
    found['The longest tokens in use, and how often'] = [
        f'{text!r} {count:,}' for text, count in first['longest']
    ]
    unused = first['vocabulary']['unused']
    if unused:
        never = first['vocabulary']['entries'] - first['vocabulary']['used']
        found[f'Never used ({never:,}), the last of them'] = [' '.join(map(repr, unused))]
    return found


def _fact(value, label):
    return {'value': value, 'label': label}


def _number(value):
    return None if value is None else f'{value:.2f}'
