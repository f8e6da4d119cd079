"""A compiled step as tables: kernels, collectives, roofline, what is costliest."""

from jepa_text.planning import roofline
from jepa_text.report import console

MIB = 2**20


def show(name, plan, phase, stream=None):
    """Prints what the compiler made of a phase of a plan.Plan."""
    compiled, chip = phase.compiled, plan.chip
    for line in compiled.notes:
        print(line, file=stream)
    if not compiled.kernels:
        return
    bound = plan.roofline(phase)
    console.table(f'{name}: kernels of a device', *kinds(compiled, bound), stream)
    if rows := list(collectives(compiled, chip)):
        columns = ['collective', 'among', 'times a step', 'MiB sent', 'ms', 'waited for']
        console.table(f'{name}: collectives of a device', columns, rows, stream)
    console.table(f'{name}: the costliest kernels', *costliest(compiled, chip), stream)
    for line in sentences(bound):
        print(line, file=stream)


def kinds(compiled, bound):
    """Columns and rows: how many kernels of each kind, and the milliseconds they take."""
    rows = []
    for kind in roofline.KINDS:
        own = [kernel for kernel in compiled.kernels if kernel.kind == kind]
        if not own:
            continue
        seconds = bound.seconds[kind]
        rows.append(
            [
                kind,
                f'{len(own):,}',
                f'{sum(kernel.times for kernel in own):,}',
                f'{sum(k.flops * k.times for k in own) / 1e12:.2f}',
                f'{sum(k.bytes * k.times for k in own) / 1e9:.1f}',
                f'{1e3 * seconds:.2f}',
                f'{seconds / bound.step:.1%}',
            ]
        )
    columns = ['kind', 'kernels', 'run', 'TFLOP', 'GB', 'ms at least', 'of the step']
    return columns, rows


def collectives(compiled, chip):
    """Rows: what is sent, by kind and group."""
    kernels = compiled.kernels
    groups = {}
    for index, kernel in enumerate(kernels):
        if kernel.kind == 'collective':
            groups.setdefault((kernel.op, kernel.group), []).append(index)
    for (op, group), own in groups.items():
        sending, waited = roofline.waits(kernels, chip, own)
        yield [
            op,
            f'{group}',
            f'{sum(kernels[n].times for n in own):,}',
            f'{sum(kernels[n].sent * kernels[n].times for n in own) / MIB:,.0f}',
            f'{1e3 * sending:.2f}',
            f'{waited / sending:.0%}' if sending else '',
        ]


def costliest(compiled, chip, count=10):
    """Columns and rows: the kernels that take most of a step, by what they compute."""
    rows = [
        [
            kernel.kind,
            kernel.name[-70:],
            kernel.shape[:40],
            f'{1e3 * seconds:.2f}',
        ]
        for kernel, seconds in roofline.costliest(compiled.kernels, chip, count)
    ]
    return ['kind', 'computes', 'gives', 'ms a step'], rows


def sentences(bound):
    """What the roofline says, and under which assumptions."""
    yield (
        f'Roofline: a step takes at least {1e3 * bound.step:.1f} ms, so MFU is at most '
        f'{bound.mfu:.3f}: products at {roofline.PRODUCTS:.0%} of the peak, attention at '
        f'{roofline.ATTENTION:.0%}, all else at the speed of memory; collectives '
        f'{1e3 * bound.sending:.1f} ms, of which {1e3 * bound.waited:.1f} behind nothing.'
    )
