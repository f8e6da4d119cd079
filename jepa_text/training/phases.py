"""Builds the phases of a run: consecutive spans of steps, each with its own objective."""

from jepa_text.config import own_code, ranges, resolve
from jepa_text.data import section as reads
from jepa_text.data import stream
from jepa_text.models import stack
from jepa_text.models.network import Network
from jepa_text.optim import schedules
from jepa_text.running import budget
from jepa_text.training import contract
from jepa_text.training import step as steps
from jepa_text.training.recipe import Phase


def make(sections, total, *, data, devices, model, tokenizer, schedule, **step_options):
    """Returns the phases of a run of `total` steps.

    `data` and `model` are sections of the config, which a phase may change; `schedule` is
    the learning rate of the run. `step_options` are the remaining arguments of
    step.make_step. Raises ValueError for an invalid section.
    """
    phases, row, encoders = [], 0, {}
    for index, (section, (start, stop)) in enumerate(
        zip(sections, budget.spans(sections, total))
    ):
        own_data = reads.changed(data, section.get('data'))
        batch_size = budget.rows_of_step(own_data, devices)
        objective = resolve.build(
            'objectives',
            section['objective'],
            tokenizer=tokenizer,
            length=own_data['row_length'],
            steps=stop - start,
        )
        contract.check_objective(section['objective'], objective)
        # Phases of equal rope_theta share an encoder, and so its compiled programs.
        theta = section.get('rope_theta')
        if theta not in encoders:
            encoders[theta] = resolve.build(
                'models', stack.with_theta(model, theta), vocab_size=tokenizer.vocab_size
            )
            contract.check_encoder(model, encoders[theta])
        with own_code.faults(own_code.names(section['objective'])):
            network = Network(encoders[theta], objective)
        reset, rewarm = _at_switch(section, index, stop - start)
        rate = schedules.rewarmed(schedule, start, rewarm)
        step = steps.make_step(
            network, objective, schedule=rate, phase_start=start, **step_options
        )
        phases.append(
            Phase(
                index=index,
                start=start,
                stop=stop,
                section=section,
                data=own_data,
                batch_size=batch_size,
                length=own_data['row_length'],
                cursor=stream.Cursor(start, row),
                objective=objective,
                network=network,
                reset=reset,
                schedule=rate,
                step=step,
            )
        )
        row += batch_size * (stop - start)
    return tuple(phases)


def _at_switch(section, index, steps):
    """Returns (pattern of what is reset or None, steps of a new warm-up) of a phase."""
    at_switch = section.get('at_switch') or {}
    if at_switch and not index:
        raise ValueError(
            'phases.0: at_switch is only for later phases, as no phase precedes the '
            'first. Remove it.'
        )
    return at_switch.get('reset'), ranges.in_steps(at_switch.get('rewarm', 0), steps)
