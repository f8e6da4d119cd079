"""Report of `jepa-text tokenizer` on the console."""

from jepa_text.report import console

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
    """Prints the training and the fit to the text."""
    on = report['measured_on']
    print('Training', *report['said'], sep='\n', end='\n\n')
    print(
        f'Measured on {on["what"]}: {on["documents"]:,} documents, {on["bytes"]:,} bytes.'
    )
    tokenizers = list(report['tokenizers'].values())
    rows = [['entries', *(one['vocab_size'] for one in tokenizers)]]
    for name, cell in _CELLS.items():
        rows.append([name, *(cell.format(**one) for one in tokenizers)])
    console.table('Fit to the text', ['', *report['tokenizers']], rows)
