"""Report of `jepa-text prepare`: console lines and an HTML page with sample rows."""

from jepa_text.report import page

ROWS, LETTERS = 10, 400  # samples of the first split, and characters of each
# Reasons for dropping documents that are shown by name, as they have no text; prefixes.
BAD, BLANK = 'bad: ', 'blank'
NAMES = 2  # shown per reason on the console


def is_named(reason):
    """Returns whether documents dropped for a reason are shown by name, not by text."""
    return reason.startswith((BAD, BLANK))


def lines(manifest, seconds=None, budget=0):
    """Returns the lines of a rows manifest: files, splits, and dropped documents.

    `seconds` is the time of the preparation, None if the rows existed; `budget` is the
    number of rows that training reads.
    """
    text = [manifest['read']] if manifest.get('read') else []
    if about := manifest.get('tokenizer'):
        text.append(f'tokenizer: {"; ".join([about["name"], *about.get("said", [])])}')
    text += sizes(manifest)
    first = _of_training(manifest)
    if 'sampled_words' in first:
        fertility = first['sampled_tokens'] / max(first['sampled_words'], 1)
        size = first['bytes'] / max(first['tokens'], 1)
        text.append(f'{fertility:.2f} tokens per word, {size:.2f} bytes per token')
    for tested in manifest.get('evaluation_sets') or ():
        text.append(
            f'searched for {tested["texts"] - tested["short"]:,} of {tested["texts"]:,} '
            f'texts of {tested["name"]} ({", ".join(tested["files"])}); the others are '
            'too short'
        )
    text += problems(manifest)
    if seconds:
        tokens = sum(counts['tokens'] for counts in manifest['splits'].values())
        text.append(f'{seconds:,.1f} s, {tokens / seconds:,.0f} tokens per second')
    if budget:
        text.append(f'{budget / first["rows"]:,.2f} epochs in the steps of this config')
    return text


def _of_training(manifest):
    """Returns the counts of the training split, else of the first."""
    splits = manifest['splits']
    return splits.get('train', next(iter(splits.values())))


def sizes(manifest):
    """Returns a line per split of a manifest."""
    return [
        f'{split}: {counts["documents"]:,} documents, {counts["tokens"]:,} tokens, '
        f'{counts["rows"]:,} rows of {manifest["row_length"]}, '
        f'{counts["efficiency"]:.2%} filled'
        for split, counts in manifest['splits'].items()
    ]


def problems(manifest):
    """Returns the lines on dropped documents of a manifest, and a remedy if most were."""
    text = left_out(manifest)
    dropped = (manifest.get('left_out') or {}).items()
    invalid = sum(count for reason, count in dropped if reason.startswith(BAD))
    if invalid > sum(counts['documents'] for counts in manifest['splits'].values()):
        text.append(
            'Most documents are invalid: convert files that are not UTF-8 (`iconv`), or '
            'name another text column (prepare.source.field)'
        )
    return text


def left_out(manifest):
    """Returns the lines on dropped documents, with examples by name."""
    counts = (manifest.get('left_out') or {}).items()
    counted = ', '.join(f'{count:,} {reason}' for reason, count in counts)
    text = [f'documents left out: {counted}'] if counts else []
    for reason, names in (manifest.get('examples') or {}).items():
        if is_named(reason):
            text.append(f'{reason}, such as {"; ".join(names[:NAMES])}')
    return text


def write(path, manifest, texts, seconds=None, budget=0):
    """Writes the page; `texts` are decoded sample rows. Returns the path."""
    first = _of_training(manifest)
    examples = manifest.get('examples') or {}
    left = (manifest.get('left_out') or {}).items()
    sections = [
        {'text': '\n\n'.join(lines(manifest, seconds, budget))},
        {
            'heading': 'Document lengths',
            'table': {
                'columns': ['tokens', *manifest['splits']],
                'rows': _lengths(manifest['splits']),
            },
        },
        {
            'heading': 'Dropped documents',
            'text': '' if left else 'None.',
            'table': {
                'columns': ['reason', 'documents', 'examples'],
                'rows': [[why, n, ' … '.join(examples.get(why, []))] for why, n in left],
            },
        },
        # Cells show a text as it is, where backticks in paragraphs mark code.
        {
            'heading': 'Sample rows',
            'table': {'columns': ['text'], 'rows': [[text] for text in texts]},
        },
        {'heading': 'Manifest', 'details': {'manifest.json': manifest}},
    ]
    lead = f'{first["rows"]:,} rows of {manifest["row_length"]} tokens.'
    return page.write(path, 'Prepared rows', lead, sections, 'jepa-text prepare')


def _lengths(splits):
    """Returns [[range of lengths, as '8 to 15', documents of each split], ...]."""
    longest = max(len(counts['lengths']) for counts in splits.values())
    rows = []
    for power in range(longest):
        row = [sum(counts['lengths'][power : power + 1]) for counts in splits.values()]
        if rows or any(row):
            rows.append([f'{2**power:,} to {2 ** (power + 1) - 1:,}', *row])
    return rows
