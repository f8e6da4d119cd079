"""The plan of a run as tables for a person."""

from jepa_text.cost import hardware
from jepa_text.planning import program_tables
from jepa_text.planning.memory import USABLE
from jepa_text.report import console

GIB = 2**30


def show(name, plan, stream=None):
    """Prints what a run needs and takes; `plan` is a plan.Plan."""
    console.table(f'{name}: parameters', *parameters(plan), stream)
    console.table(f'{name}: arithmetic', *arithmetic(plan), stream)
    console.table(f'{name}: memory of a device, GiB', *memory(plan), stream)
    for phase in plan.phases:
        if phase.compiled is not None:
            program_tables.show(f'{name}: {phase.name}', plan, phase, stream)
    console.table(f'{name}: time and money', *money(plan), stream)
    for line in [*notes(plan), *verdict(plan)]:
        print(line, file=stream)


def verdict(plan):
    """Whether it fits, in sentences, and what would make it; last, as it matters most."""
    if plan.fits(plan.chip):
        return
    room = f'{plan.chip.memory / GIB:.1f} GiB a device, of which {USABLE:.0%} are usable'
    yield ''
    yield (
        f'Does not fit: {plan.needed / GIB:.1f} GiB are needed, and '
        f'{plan.options.hardware} has {room}. So it has no hours and no price.'
    )
    if not plan.would_fit:
        yield 'No change that plan tries would make it fit: take a smaller model.'
    for flags, need in plan.would_fit:
        yield f'  would fit, with {need / GIB:.1f} GiB:  {flags}'


def parameters(plan):
    """Columns and rows: each part once, and in which phases it is."""
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
    rows.append(['together, last phase', f'{total:,}', ''])
    rows.append(['without embedding', f'{total - last["embedding"]:,}', ''])
    if plan.phases[-1].memory.state['target']:
        copied = last['embedding'] + last['encoder']
        rows.append(['target, not trained', f'{copied:,}', ''])
    return ['part', 'parameters', 'in phase'], rows


def arithmetic(plan):
    """Columns and rows: FLOPs of a token in each phase, and where they go."""
    names = list(dict.fromkeys(part for phase in plan.phases for part in phase.flops))
    rows = []
    for number, phase in enumerate(plan.phases, start=1):
        total = sum(phase.flops.values())
        shares = [phase.flops.get(part, 0) / total for part in names]
        rows.append(
            [
                f'{number} {phase.name}',
                f'{phase.steps:,}',
                f'{phase.steps * phase.tokens / 1e9:.4g}',
                f'{total / phase.tokens / 1e9:.4g}',
                f'{phase.factor:.2f}',
                *(f'{share:.1%}' if share else '' for share in shares),
                f'{phase.computed:.2f}',
            ]
        )
    columns = ['phase', 'steps', 'G tokens', 'GFLOP/token', 'x MLM', *names, 'computed']
    return columns, rows


def memory(plan):
    """Columns and rows: what lies on one device, and the most rows that fit."""
    columns = ['phase', 'weights', 'target', 'optimizer', 'gradients', 'kept', 'work']
    columns += ['together', 'of', 'rows now', 'most rows']
    rows = []
    for number, phase in enumerate(plan.phases, start=1):
        held, at_once = phase.memory, phase.rows_at_once
        sizes = [held.state[part] for part in ('params', 'target', 'opt_state')]
        sizes += [
            held.gradients,
            at_once * held.kept,
            held.work(at_once),
            held.total(at_once),
        ]
        cells = [f'{size / GIB:.2f}' for size in [*sizes, plan.chip.memory]]
        maximum = held.max_rows(plan.chip.memory)
        cells += [f'{at_once:,}', f'{maximum:,}' if maximum else 'none']
        if phase.compiled is not None:
            cells.append(f'{phase.compiled.peak / GIB:.2f}')
        rows.append([f'{number} {phase.name}', *cells])
    if plan.phases[0].compiled is not None:
        columns.append('compiled')
    return columns, rows


def money(plan):
    """Columns and rows: speed, hours and dollars on the chip that is planned with, then
    on as many of the others as have its price and share of the peak in the table."""
    columns = [
        'hardware',
        'MFU',
        'tokens/s',
        's/step',
        'hours',
        'chip hours',
        'US dollars',
    ]
    rows = [_money(plan, plan.options.hardware, plan.chip, plan.mfu, plan.price)]
    for name, chip in hardware.CHIPS.items():
        if chip is not plan.chip:
            mfu, label = chip.share(plan.dtype), f'{name}:{plan.devices}'
            rows.append(_money(plan, label, chip, mfu, chip.price))
    return columns, rows


def _money(plan, label, chip, mfu, price):
    if not plan.fits(chip):
        return [label, f'{mfu:.3g}', 'does not fit', None, None, None, None]
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
    """What is assumed, in sentences."""
    chip, own = plan.chip, plan.options
    yield ''
    yield (
        'Arithmetic: the model count (PaLM, appendix B), causal attention by half; '
        '"computed" is what the program holds for one that counts: rematerialization '
        'and the masked half of attention.'
    )
    attention = (
        'attention is taken to keep no array of row length squared, as kernels do (xla '
        'keeps one, which auto takes where none runs: for mixtures, in float32 on GPUs, '
        'and on those before Ampere)'
        if plan.fused
        else "XLA's attention keeps scores of row length squared"
    )
    yield (
        'Memory: the state is exact by sharding.TABLE, the rest read off the traced '
        f'step; {attention}; {USABLE:.0%} of a device are filled at most.'
    )
    mfu = chip.assumed
    if chip.share(plan.dtype) != chip.mfu:
        mfu += f'; times {chip.float32}, the speed of its products in float32'
    if own.mfu is not None:
        mfu = 'given'
    elif plan.bound:
        mfu = f'{hardware.REACHED} of the bound {plan.bound:.2f} of what was compiled'
    price = 'given' if own.price is not None else chip.priced
    yield f'Peak: {chip.peak / 1e12:.4g} TFLOP/s ({chip.source}). MFU: {mfu}.'
    yield f'Price: {price or "none known"}. Other chips: by hardware.CHIPS.'
    yield (
        'Tokens are places in rows. A step takes at least the time to read and write its '
        'state; networks between devices and waits for data are in the MFU only.'
    )
    if plan.dtype != chip.dtype:
        dtypes = f'{chip.dtype}, but model.dtype is {plan.dtype}'
        yield f'The peak is that of {dtypes}: set it.'
