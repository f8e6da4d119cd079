"""Disk space of the checkpoints of a study, at its end and in between."""

import dataclasses
import math


def added(found, sections, sizes):
    """Returns the members with their disk space, if they are trained in order.

    `sections` are those of checkpoints, `sizes` the bytes of a state, both by member.
    """
    # (member, step) of each trunk: the index of the last member that needs it.
    needed_until = {
        (one.trunk, one.start): index for index, one in enumerate(found) if one.trunk
    }
    kept = {
        one.name: retained(
            sections[one.name],
            one.steps,
            [step for name, step in needed_until if name == one.name],
        )
        for one in found
    }
    size = {one.name: len(kept[one.name]) * sizes[one.name] for one in found}
    order = {one.name: index for index, one in enumerate(found)}
    filled, completed = 0, []
    for index, one in enumerate(found):
        filled += size[one.name]
        for_others = sum(
            sizes[trunk]
            for (trunk, step), last in needed_until.items()
            if order[trunk] <= index <= last and step not in kept[trunk]
        )
        completed.append(
            dataclasses.replace(one, bytes=size[one.name], filled=filled + for_others)
        )
    return completed


def retained(section, steps, trunk_steps):
    """Returns the steps whose checkpoints exist at the end of a run.

    The run has also saved checkpoints at `trunk_steps`, for others to continue from.
    """
    at = {step for step in section['keep_at'] if step <= steps}
    every = section['every'] or steps
    saved = sorted({*range(every, steps, every), steps, *at, *trunk_steps})
    multiple = section.get('keep_every') or math.inf
    return at | {*saved[-section['keep'] :]} | {s for s in saved if s % multiple == 0}
