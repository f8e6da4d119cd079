"""What `prepare` made: in a few lines, and as a page of what a model will read."""

from jepa_text.report import page, plots

ROWS, LETTERS = 10, 400  # shown of the first split
# Reasons of what is left out that has no text to be shown, but a name; BAD begins one.
BAD, BLANK, EMPTY = 'bad: ', 'blank', 'no document in the file'
NAMES = 2  # of each on the console


def is_named(reason):
    """Is what is left out for a reason told by its name, not by its text?"""
    return reason.startswith((BAD, BLANK, EMPTY))


def counted(found):
    """{reason: count} in words."""
    return ', '.join(f'{count:,} {why}' for why, count in found.items())


def lines(manifest, seconds=None, budget=0):
    """Lines of a manifest of rows: files, splits, what was left out and why.

    `seconds` it took, None if it was there; `budget` are the rows that training asks for.
    """
    told = [manifest['read']] if manifest.get('read') else []
    if about := manifest.get('tokenizer'):
        told.append(f'tokenizer: {"; ".join([about["name"], *about.get("said", [])])}')
    for split, counts in manifest['splits'].items():
        told.append(
            f'{split}: {counts["documents"]:,} documents, {counts["tokens"]:,} tokens, '
            f'{counts["rows"]:,} rows of {manifest["row_length"]}, '
            f'{counts["efficiency"]:.2%} filled'
        )
    first = next(iter(manifest['splits'].values()))
    if 'sampled_words' in first:
        told.append(
            f'{_fertility(first):.2f} tokens a word, {_bytes(first):.2f} bytes a token'
        )
    for one in manifest.get('evaluation_sets') or ():
        told.append(
            f'looked for {one["texts"] - one["short"]:,} of {one["texts"]:,} texts of '
            f'{one["name"]} ({", ".join(one["files"])}), the others being too short'
        )
    told += left_out(manifest)
    if seconds:
        tokens = sum(counts['tokens'] for counts in manifest['splits'].values())
        told.append(f'{seconds:,.1f} s, {tokens / seconds:,.0f} tokens a second')
    if budget:
        told.append(f'{budget / first["rows"]:,.2f} epochs in the steps of this config')
    return told


def left_out(manifest):
    """Lines of what is left out or changed, and of which has a name."""
    told = [
        f'documents {what.replace("_", " ")}: {counted(manifest[what])}'
        for what in ('left_out', 'changed')
        if manifest.get(what)
    ]
    for why, some in (manifest.get('examples') or {}).items():
        if is_named(why):
            told.append(f'{why}, such as {"; ".join(some[:NAMES])}')
    return told


def write(path, manifest, texts, seconds=None, budget=0):
    """Writes the page; `texts` are rows, decoded."""
    first = next(iter(manifest['splits'].values()))
    examples = manifest.get('examples') or {}
    sections = [
        {
            'facts': [
                _fact(f'{first["tokens"]:,}', 'tokens to train on'),
                _fact(f'{first["documents"]:,}', 'documents'),
                _fact(f'{_fertility(first):.2f}', 'tokens a word'),
                _fact(f'{_bytes(first):.2f}', 'bytes a token'),
            ],
            'text': '\n\n'.join(lines(manifest, seconds, budget)),
        },
        {
            'heading': 'How long documents are',
            'figures': _figures(manifest),
            'table': {
                'columns': ['tokens', *manifest['splits']],
                'rows': _lengths(manifest['splits']),
            },
        },
        {
            'heading': 'What is left out',
            'text': '' if manifest.get('left_out') else 'Nothing.',
            'table': {
                'columns': ['why', 'documents', 'such as'],
                'rows': [
                    [why, count, ' … '.join(examples.get(why, []))]
                    for why, count in (manifest.get('left_out') or {}).items()
                ],
            },
        },
        {
            'heading': 'What a model reads',
            'text': '\n\n'.join(texts),
        },
        {'heading': 'Everything', 'details': {'manifest.json': manifest}},
    ]
    lead = f'{first["rows"]:,} rows of {manifest["row_length"]} tokens.'
    return page.write(path, 'Prepared rows', lead, sections, 'jepa-text prepare')


def _figures(manifest):
    """The lengths as bars; none without matplotlib, the table says the same."""
    counts = {name: split['lengths'] for name, split in manifest['splits'].items()}
    try:
        title = 'Documents by their length'
        return [plots.lengths(counts, title, manifest['row_length'])]
    except ImportError:
        return []


def _fact(value, label):
    return {'value': value, 'label': label, 'note': ''}


def _fertility(counts):
    return counts['sampled_tokens'] / max(counts['sampled_words'], 1)


def _bytes(counts):
    return counts['bytes'] / max(counts['tokens'], 1)


def _lengths(splits):
    """[[such as '8 to 15', documents of each split], ...]"""
    longest = max(len(counts['lengths']) for counts in splits.values())
    found = []
    for power in range(longest):
        row = [sum(counts['lengths'][power : power + 1]) for counts in splits.values()]
        if found or any(row):
            found.append([f'{2**power:,} to {2 ** (power + 1) - 1:,}', *row])
    return found
