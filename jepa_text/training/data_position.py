"""What the phases of a run read: a part goes on where the phases before left it.

    phase 0   a a b a a b          mixture 0: a 2, b 1
    phase 1   a a b a              the same: it goes on
    phase 2   a c c a c c          mixture 1: a begins at its eighth row, c at its first

One counter numbers the rows of the run, and masks are drawn by it; a part is known by
the checksums of its rows, wherever they lie.
"""

import dataclasses

from jepa_text.data import mixture as mixtures
from jepa_text.data import pipeline


def opened(phases, tokenizer):
    """The phases with their mixtures.

    Raises ValueError for what `pipeline` refuses of them, and for another tokenizer.
    """
    found = [pipeline.opened(phase.data) for phase in phases]
    distinct = {part.rows.fingerprint: part for parts in found for part in parts}
    pipeline.check_together(distinct.values())
    for part in distinct.values():
        pipeline.check_tokenizer(part.rows.manifest, tokenizer, part.rows.folder)
    made, read, last = [], dict.fromkeys(distinct, 0), None
    for phase, parts in zip(phases, found):
        # The only one needs no name in metrics.
        parts = [
            dataclasses.replace(
                part,
                before=read[part.rows.fingerprint],
                name=part.name if len(distinct) > 1 else '',
            )
            for part in parts
        ]
        mixture = mixtures.Mixture(parts, begins=phase.row(phase.start))
        if last is not None and last.fingerprint == mixture.fingerprint:
            mixture = last
        counts = mixture.read(phase.row(phase.stop))
        read |= {p.rows.fingerprint: n for p, n in zip(mixture.parts, counts)}
        made.append(dataclasses.replace(phase, mixture=mixture))
        last = mixture
    return tuple(made)


def check(phases, repeat):
    """Raises ValueError for a part of which a phase reads nothing, and, unless they may
    `repeat`, for rows that are read more than once."""
    for phase in phases:
        ends = phase.mixture.read(phase.row(phase.stop))
        begins = phase.mixture.read(phase.row(phase.start))
        for part, begin, end in zip(phase.mixture.parts, begins, ends):
            if begin == end:
                raise ValueError(
                    f'Of the {phase.steps * phase.batch_size:,} rows of phase '
                    f'{phase.index}, none is of {part.rows.folder}, whose weight is '
                    f'{float(part.weight):g}: raise it, or leave the folder out.'
                )
    over = [
        f'{part.rows.folder} has {len(part.rows):,} rows, and the run reads {end:,}: '
        f'{end / len(part.rows):.2f} epochs'
        for part, end in totals(phases)
        if end > len(part.rows)
    ]
    if over and not repeat:
        raise ValueError(
            f'{"; ".join(over)}. To read them again, anew shuffled and masked, set '
            '--config.data.repeat=True; or prepare more text, or take fewer steps.'
        )


def totals(phases):
    """[(part, rows of it that the run reads)], each part once."""
    found = {}
    for phase in phases:
        for part, end in zip(
            phase.mixture.parts, phase.mixture.read(phase.row(phase.stop))
        ):
            found[part.rows.fingerprint] = part, end
    return list(found.values())


def epochs(phase, step):
    """{metric: epochs of each part of a phase} that the run has read after `step`."""
    read = phase.mixture.read(phase.row(step))
    return {
        metric(part.name, 'epochs'): count / len(part.rows)
        for part, count in zip(phase.mixture.parts, read)
    }


def metric(name, what):
    """'data/NAME/what'; 'data/what' of a part without a name."""
    return '/'.join(filter(None, ('data', name, what)))


def told(phase, values):
    """Metrics of a step with parts by their names, without those of which it had no
    token."""
    found = {}
    for key, value in values.items():
        kind, _, rest = key.partition('/')
        if kind != mixtures.PART:
            found[key] = value
            continue
        number, _, what = rest.partition('/')
        if values[f'{kind}/{number}/tokens']:
            found[metric(phase.mixture.parts[int(number)].name, what)] = value
    return found


def lines(phase):
    """What a phase reads, of which part how much, for a person."""
    ends = phase.mixture.read(phase.row(phase.stop))
    begins = phase.mixture.read(phase.row(phase.start))
    for part, share, begin, end in zip(
        phase.mixture.parts, phase.mixture.shares, begins, ends
    ):
        size = len(part.rows)
        yield (
            f'data     {part.rows.folder}: {float(share):.4g} of phase {phase.index}, '
            f'{end - begin:,} rows of {size:,}, epochs {begin / size:.2f} to '
            f'{end / size:.2f}'
        )
