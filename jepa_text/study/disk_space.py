"""Disk space of the checkpoints of a study, at its end and in between."""

import dataclasses

from jepa_text.running import retention


def added(found, sections, sizes, phase_ends):
    """Returns the members with their disk space, if they are trained in order.

    `sections` are those of checkpoints, `sizes` the bytes of a state, and `phase_ends`
    the last steps of phases, all by member.
    """
    # (member, step) of each trunk: the index of the last member that needs it.
    needed_until = {
        (one.trunk, one.start): index for index, one in enumerate(found) if one.trunk
    }
    kept = {
        one.name: retained(
            sections[one.name],
            one.steps,
            [
                *phase_ends[one.name],
                *(step for name, step in needed_until if name == one.name),
            ],
            one.start,
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


def retained(section, steps, others, begin=0):
    """Returns the steps whose checkpoints exist at the end of a run.

    `others` are further steps that it saves: ends of phases, and where other runs
    continue. A run that continues from another has a copy of its checkpoint `begin`.
    """
    every, at = section['every'] or steps, section['keep_at']
    candidates = {*range(every, steps, every), steps, *at, *others, begin}
    saved = sorted(step for step in candidates if max(begin, 1) <= step <= steps)
    spare = retention.old(saved, section['keep'], section.get('keep_every'), at)
    return set(saved) - set(spare)
