"""Prints the plan of a run as tables: parameters, FLOPs, memory, time and cost."""

from jepa_text.parallel import hardware
from jepa_text.planning import roofline
from jepa_text.planning.memory import USABLE
from jepa_text.report import console

GIB, MIB = 2**30, 2**20


def show(name, plan):
    """Prints a plan.Plan."""
    console.table(f'{name}: parameters', *parameters(plan))
    console.table(f'{name}: arithmetic', *arithmetic(plan))
    console.table(f'{name}: memory per device, GiB', *memory(plan))
    for phase in plan.phases:
        if phase.compiled is not None:
            _show_compiled(f'{name}: {phase.name}', plan, phase)
    console.table(f'{name}: time and cost', *cost(plan))
    print(*notes(plan), *verdict(plan), sep='\n')


def _show_compiled(name, plan, phase):
    print(*phase.compiled.notes, sep='\n')
    if bound := plan.roofline(phase):
        console.table(f'{name}: roofline per device', *kernels(bound))
        if rows := collectives(plan, phase):
            columns = ['collective', 'group', 'times/step', 'MiB sent', 'ms', 'overlaps']
            console.table(f'{name}: collectives per device', columns, rows)
        print(
            f'A step takes at least {1e3 * bound.step:.1f} ms, so MFU is at most '
            f'{bound.mfu:.3f}, with products at {roofline.PRODUCTS:.0%} of the peak, '
            f'attention at {roofline.ATTENTION:.0%}, and all other kernels at memory '
            'bandwidth.'
        )


def kernels(bound):
    """Columns and rows: the kernels of a device and their time."""
    times = bound.kernels | {'collectives alone': bound.waits}
    rows = [
        [kind, f'{1e3 * seconds:.2f}', f'{seconds / bound.step:.1%}']
        for kind, seconds in times.items()
    ]
    return ['kernels', 'min ms', 'of the step'], rows


def collectives(plan, phase):
    """Rows: bytes sent and time of the collectives by kind and group size."""
    groups = {}
    for one in phase.compiled.traffic.collectives:
        groups.setdefault((one.kind, one.group, one.is_async), []).append(one)
    return [
        [
            kind,
            f'{group}',
            f'{sum(one.times for one in own):,}',
            f'{sum(one.sent for one in own) / MIB:,.0f}',
            f'{1e3 * sum(roofline.seconds(one, plan.chip) for one in own):.2f}',
            'yes' if is_async else 'no',
        ]
        for (kind, group, is_async), own in groups.items()
    ]


def verdict(plan):
    """If the run does not fit, yields sentences that say so and what needs less."""
    if plan.fits(plan.chip):
        return
    room = f'{plan.chip.memory / GIB:.1f} GiB per device, of which {USABLE:.0%} is usable'
    yield ''
    yield (
        f'Does not fit: {plan.peak_memory / GIB:.1f} GiB per device are needed, but '
        f'{plan.options.target} has {room}. No time or cost is estimated.'
    )
    yield (
        'Less is needed with more devices, or with config.accumulate=2, '
        'config.model.remat=full, config.mesh.fsdp=-1 (with config.mesh.data=1), or a '
        'smaller config.data.batch_size, which changes the training.'
    )


def parameters(plan):
    """Columns and rows: each part, its number of parameters, and its phases."""
    parts = {}
    for number, phase in enumerate(plan.phases, start=1):
        for part, count in phase.parameters.items():
            parts.setdefault((part, count), []).append(str(number))
    rows = [
        [part, f'{count:,}', ', '.join(numbers)]
        for (part, count), numbers in parts.items()
    ]
    last = plan.phases[-1].parameters
    total = sum(last.values())
    rows.append(['total, last phase', f'{total:,}', ''])
    rows.append(['without embedding', f'{total - last["embedding"]:,}', ''])
    return ['part', 'parameters', 'in phase'], rows


def arithmetic(plan):
    """Columns and rows: FLOPs per token in each phase, and the share of each part."""
    counts = [phase.count for phase in plan.phases]
    names = list(dict.fromkeys(part for count in counts for part in count.parts))
    rows = []
    for number, phase in enumerate(plan.phases, start=1):
        total = phase.count.model
        shares = [phase.count.parts.get(part, 0) / total for part in names]
        rows.append(
            [
                f'{number} {phase.name}',
                f'{phase.steps:,}',
                f'{phase.steps * phase.tokens / 1e9:.4g}',
                f'{total / phase.tokens / 1e9:.4g}',
                *(f'{share:.1%}' if share else '' for share in shares),
                f'{phase.count.program / total:.2f}',
            ]
        )
    columns = ['phase', 'steps', 'G tokens', 'GFLOP/token', *names, 'computed']
    return columns, rows


def memory(plan):
    """Columns and rows: memory use per device, and the most rows that fit."""
    columns = ['phase', 'weights', 'target', 'optimizer', 'gradients', 'activations']
    columns += ['workspace', 'total', 'of', 'rows now', 'most rows']
    rows = []
    for number, phase in enumerate(plan.phases, start=1):
        estimate, at_once = phase.memory, phase.rows_at_once
        sizes = [
            *(estimate.state[part] for part in ('params', 'target', 'opt_state')),
            estimate.gradients,
            at_once * estimate.activations,
            estimate.workspace(at_once),
            estimate.total(at_once),
            plan.chip.memory,
        ]
        cells = [f'{size / GIB:.2f}' for size in sizes]
        maximum = estimate.max_rows(plan.chip.memory)
        cells += [f'{at_once:,}', f'{maximum:,}' if maximum else 'none']
        if phase.compiled is not None:
            cells.append(f'{phase.compiled.peak / GIB:.2f}')
        rows.append([f'{number} {phase.name}', *cells])
    if plan.phases[0].compiled is not None:
        columns.append('compiled')
    return columns, rows


def cost(plan):
    """Columns and rows: speed, hours and dollars on the planned chip, then on the same
    number of each other chip, with that chip's default price and MFU."""
    columns = ['hardware', 'MFU', 'tokens/s', 's/step', 'hours', 'chip hours']
    columns.append('US dollars')
    rows = [_cost(plan, plan.options.target, plan.chip, plan.mfu, plan.price)]
    for name, chip in hardware.CHIPS.items():
        if chip is not plan.chip:
            mfu, label = chip.share(plan.dtype), f'{name}:{plan.devices}'
            rows.append(_cost(plan, label, chip, mfu, chip.price))
    return columns, rows


def _cost(plan, label, chip, mfu, price):
    if not plan.fits(chip):
        return [label, f'{mfu:.3g}', 'does not fit', None, None, None, None]
    if not plan.is_known(chip, mfu):
        return [label, f'{mfu:.3g}', 'step below 1 ms', None, None, None, None]
    seconds = plan.seconds(chip, mfu)
    hours = seconds / 3600
    steps = sum(phase.steps for phase in plan.phases)
    dollars = None if price is None else f'{hours * plan.devices * price:,.2f}'
    return [
        label,
        f'{mfu:.3g}',
        f'{plan.tokens / seconds:,.0f}',
        f'{seconds / steps:.3g}',
        f'{hours:,.3g}',
        f'{hours * plan.devices:,.3g}',
        dollars,
    ]


def notes(plan):
    """Yields sentences that state the assumptions of the plan."""
    chip, options = plan.chip, plan.options
    stores = dict.fromkeys(phase.name for phase in plan.phases if not phase.fused)
    attention = f'an array (in {", ".join(stores)})' if stores else 'no array'
    if options.mfu is not None:
        mfu = 'given'
    elif plan.bound:
        mfu = f'{hardware.REACHED} of the bound {plan.bound:.2f} of the compiled program'
    else:
        mfu = 'of the chip, from the same file'
        if chip.share(plan.dtype) != chip.mfu:
            mfu += f'; times {chip.float32}, the relative speed of float32 products'
    yield ''
    yield (
        '"computed" is the FLOPs that the program executes per model FLOP (PaLM, '
        'appendix B, with half of the scores for causal attention). Tokens are positions '
        'in rows, including padding.'
    )
    yield (
        'Memory: the state is exact, the rest is read from the traced step; attention is '
        f'assumed to store {attention} of row length squared; at most {USABLE:.0%} of a '
        'device is used.'
    )
    yield f'Peak: {chip.peak / 1e12:.4g} TFLOP/s, from parallel/hardware.py. MFU: {mfu}.'
    if options.dollars_per_chip_hour is None:
        yield 'Prices: see parallel/hardware.py; they change monthly.'
    if plan.dtype != chip.dtype:
        yield (
            f'The peak is for {chip.dtype}, but model.dtype is {plan.dtype}: set '
            f'model.dtype to {chip.dtype}.'
        )
