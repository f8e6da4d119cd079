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


def table(report):
    """(columns, rows): a column a tokenizer."""
    measured = report['tokenizers'].values()
    shares = next(iter(measured))['vocabulary']['covering']
    rows = [
        ['entries', *(one['vocab_size'] for one in measured)],
        ['tokens', *(f'{one["counts"]["tokens"]:,}' for one in measured)],
        *(
            [text, *(f'{one["fertility"][key]:.3f}' for one in measured)]
            for key, text in (
                ('tokens_per_word', 'tokens a word'),
                ('bytes_per_token', 'bytes a token'),
            )
        ),
        ['unknown tokens', *(f'{one["unknown"]["count"]:,}' for one in measured)],
        ['share unknown', *(f'{one["unknown"]["share"]:.3%}' for one in measured)],
        ['entries used', *(f'{one["vocabulary"]["used"]:,}' for one in measured)],
        ['share used', *(f'{one["vocabulary"]["share_used"]:.1%}' for one in measured)],
        ['used once', *(f'{one["vocabulary"]["once"]:,}' for one in measured)],
        *(
            [
                f'{float(share):.0%} of the tokens are of',
                *(f'{one["vocabulary"]["covering"][share]:,}' for one in measured),
            ]
            for share in shares
        ),
        ["Zipf's exponent", *(_number(one['vocabulary']['zipf']) for one in measured)],
    ]
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
