"""The position of each phase in its data: phases continue where earlier ones stopped.

    phase 0   a a b a a b          mixture 0: a 2, b 1
    phase 1   a a b a              the same mixture, continued
    phase 2   a c c a c c          mixture 1: a from its eighth row, c from its first row

One counter numbers the rows of the run, and masks are drawn by it. A part of a mixture is
identified by the checksums of its rows, wherever they are stored.
"""

import dataclasses
import hashlib

from jepa_text.data import mixture as mixtures
from jepa_text.data import pipeline


def with_mixtures(phases, tokenizer):
    """Returns the phases with their mixtures of rows.

    Raises ValueError for what `pipeline` rejects, and for rows of another tokenizer.
    """
    parts_of_phases = [pipeline.open_parts(phase.data) for phase in phases]
    distinct = {
        part.rows.fingerprint: part for parts in parts_of_phases for part in parts
    }
    pipeline.check_names(distinct.values())
    for part in distinct.values():
        pipeline.check_tokenizer(part.rows.manifest, tokenizer, part.rows.folder)
    made, read, last = [], dict.fromkeys(distinct, 0), None
    for phase, parts in zip(phases, parts_of_phases):
        # A single part needs no name in metrics.
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
    """Raises ValueError if a phase reads nothing of a part, or rows more than once.

    With `repeat`, rows may be read more than once.
    """
    totals = {}  # the rows that the run reads of each part
    for phase in phases:
        for part, begin, end in _reads(phase):
            totals[part.rows.fingerprint] = part, end
            if begin == end:
                raise ValueError(
                    f'Phase {phase.index} reads {phase.steps * phase.batch_size:,} rows, '
                    f'but none of {part.rows.folder}, whose weight is '
                    f'{float(part.weight):g}. Raise the weight, or remove the folder.'
                )
    over = [
        f'{part.rows.folder} has {len(part.rows):,} rows, but the run reads {end:,}: '
        f'{end / len(part.rows):.2f} epochs'
        for part, end in totals.values()
        if end > len(part.rows)
    ]
    if over and not repeat:
        raise ValueError(
            f'{"; ".join(over)}. To read rows again, newly shuffled and masked, set '
            '--config.data.repeat=True; or prepare more text, or train fewer steps.'
        )


def fingerprint(phases, seed):
    """Returns 48 hex digits, 16 each for the rows, the batch sizes and the seed, which
    together determine the batch of a step number."""
    first, *others = phases
    rows, sizes = first.mixture.fingerprint, first.batch_size
    # One value if all phases agree, else one per phase.
    if any(phase.mixture is not first.mixture for phase in others):
        rows = [(phase.start, phase.mixture.fingerprint) for phase in phases]
    if any(phase.batch_size != first.batch_size for phase in others):
        sizes = [(phase.start, phase.batch_size) for phase in phases]
    parts = (rows, sizes, seed)
    digests = (hashlib.sha256(repr(part).encode()).hexdigest() for part in parts)
    return ''.join(digest[:16] for digest in digests)


def check_fingerprint(saved, now):
    """Raises ValueError if a checkpoint was trained on another stream of data."""
    if saved == now:
        return
    names = ('rows', 'batch size', 'seed')
    spans = [slice(start, start + 16) for start in (0, 16, 32)]
    changed = [name for name, span in zip(names, spans) if saved[span] != now[span]]
    raise ValueError(
        'This checkpoint was trained on another stream of data: other '
        f'{" and other ".join(changed)} (fingerprint {saved}, now {now}). To resume, use '
        'the original settings; to start over from its weights, use a new workdir.'
    )


def _reads(phase):
    """Returns (part, begin, end) of each part, whose rows from `begin` to `end`, counted
    over all epochs, the phase reads."""
    begins, ends = (phase.mixture.read(phase.row(x)) for x in (phase.start, phase.stop))
    return zip(phase.mixture.parts, begins, ends)


def epochs(phase, step):
    """Returns {metric: epochs of a part that the run has read after `step`}."""
    read = phase.mixture.read(phase.row(step))
    return {
        metric(part.name, 'epochs'): count / len(part.rows)
        for part, count in zip(phase.mixture.parts, read)
    }


def metric(name, what):
    """Returns 'data/NAME/what', or 'data/what' for a part without a name."""
    return '/'.join(filter(None, ('data', name, what)))


def named_metrics(phase, values):
    """Returns the metrics of a step with parts called by name instead of by number.

    Metrics of parts without a token in this step are left out.
    """
    named = {}
    for key, value in values.items():
        kind, _, rest = key.partition('/')
        if kind != mixtures.PART:
            named[key] = value
            continue
        number, _, what = rest.partition('/')
        if values[f'{kind}/{number}/tokens']:
            named[metric(phase.mixture.parts[int(number)].name, what)] = value
    return named


def lines(phase):
    """Yields lines that say how much a phase reads of each part."""
    for (part, begin, end), share in zip(_reads(phase), phase.mixture.shares):
        size = len(part.rows)
        yield (
            f'data     {part.rows.folder}: {float(share):.4g} of phase {phase.index}, '
            f'{end - begin:,} rows of {size:,}, epochs {begin / size:.2f} to '
            f'{end / size:.2f}'
        )
