"""Sections -> phases: steps one after the other, each with an objective of its own."""

from jepa_text.config import ranges, resolve
from jepa_text.data import section as reads
from jepa_text.data import stream
from jepa_text.models import stack
from jepa_text.models.network import Network
from jepa_text.optim import schedules
from jepa_text.running import budget
from jepa_text.training import step as steps
from jepa_text.training.recipe import Phase


def make(sections, total, *, data, devices, model, tokenizer, schedule, **of_step):
    """The phases of so many steps in all, whose learning rate is `schedule`.

    `data` and `model` are sections, which a phase may change. `of_step` are the other
    arguments of step.make_step. Raises ValueError for a section that means nothing.
    """
    phases, row, encoders = [], 0, {}
    for index, (section, (start, stop)) in enumerate(
        zip(sections, spans(sections, total))
    ):
        own = reads.changed(data, section.get('data'))
        rows = budget.rows_of_step(own, devices)
        objective = resolve.build(
            'objectives',
            section['objective'],
            tokenizer=tokenizer,
            length=own['row_length'],
            steps=stop - start,
        )
        # One for all phases that turn alike: what is compiled of it is shared.
        theta = section.get('rope_theta')
        if theta not in encoders:
            turned = stack.with_theta(model, theta)
            vocab_size = tokenizer.vocab_size
            encoders[theta] = resolve.build('models', turned, vocab_size=vocab_size)
        network = Network(encoders[theta], objective)
        reset, rewarm = _at_switch(section, index, stop - start)
        rate = schedules.rewarmed(schedule, start, rewarm)
        step = steps.make_step(
            network, objective, schedule=rate, phase_start=start, **of_step
        )
        parts = dict(section=section, objective=objective, network=network, step=step)
        read = dict(
            data=own,
            batch_size=rows,
            length=own['row_length'],
            cursor=stream.Cursor(start, row),
        )
        span = dict(index=index, start=start, stop=stop)
        phases.append(Phase(**span, reset=reset, schedule=rate, **parts, **read))
        row += rows * (stop - start)
    return tuple(phases)


def _at_switch(section, index, steps):
    """(pattern of what starts afresh or None, steps of a new warm-up) of a phase."""
    at = section.get('at_switch') or {}
    if at and not index:
        raise ValueError(
            'phases.0: at_switch belongs to a later phase; none ends before the first.'
        )
    return at.get('reset'), ranges.in_steps(at.get('rewarm', 0), steps)


def spans(phases, total):
    """(start, stop) of each phase: its `steps`, or its `share` of all steps; the last
    phase may leave both out and takes the rest. Raises ValueError when they do not add
    up to `total`."""
    found, start = [], 0
    for number, phase in enumerate(phases):
        if 'steps' in phase and 'share' in phase:
            raise ValueError(f'phase {number} has steps and a share: give one of them.')
        length = total - start
        if 'steps' in phase:
            length = int(phase['steps'])
        elif 'share' in phase:
            length = round(phase['share'] * total)
        found.append((start, start + length))
        start += length
    if start != total or any(stop <= begin for begin, stop in found):
        raise ValueError(
            f'phases cover steps {found}, but the run has {total} steps: each needs at '
            'least one step, and together they must cover all. Change steps or shares.'
        )
    return found
