"""What the vectors of held-out paragraphs look like, and what can be read off them."""

from jepa_text.measures import geometry, probes


def author(document):
    """Who wrote it; all presidents are one, as the last ones are held out."""
    is_address = document['title'].startswith('State of the Union')
    return 'a president' if is_address else document['author']


LABELS = {'author': author, 'century': probes.century}


def run(model, train, heldout, *, label='author', most=1500, pool='mean'):
    """{representation/uniformity, effective_rank, ..., probe, probe_low, probe_high}.

    `train` and `heldout` are documents. A linear probe learns the label from at most
    `most` paragraphs of `train`, and is scored on paragraphs of `heldout`; geometry is
    measured on the latter, mean-pooled and raw.
    """
    label_of = LABELS[label]
    sets = []
    for documents in (train, heldout):
        paragraphs = probes.paragraphs(documents)
        # Evenly spaced, so that every document is in.
        stride = max(1, -(-len(paragraphs) // most))
        chosen = paragraphs[::stride]
        vectors_ND = model.encode([text for text, _ in chosen], pool=pool)
        sets.append((vectors_ND, [label_of(document) for _, document in chosen]))
    (train_ND, train_labels), (test_ND, test_labels) = sets
    probe = probes.linear_probe(train_ND, train_labels, test_ND, test_labels)
    values = {
        'probe': probe['accuracy'],
        'probe_low': probe['low'],
        'probe_high': probe['high'],
        'probe_majority': probe['majority'],
        'paragraphs': len(test_labels),
        **geometry.summary(test_ND),
    }
    return {f'representation/{name}': value for name, value in values.items()}
