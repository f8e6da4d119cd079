"""Prints a compiled step as tables: kernels, collectives, costliest kernels, roofline."""

from jepa_text.planning import roofline
from jepa_text.report import console

MIB = 2**20


def show(name, plan, phase, stream=None):
    """Prints the compiled step of a phase of a plan.Plan."""
    compiled, chip = phase.compiled, plan.chip
    for line in compiled.notes:
        print(line, file=stream)
    if not compiled.kernels:
        return
    bound = plan.roofline(phase)
    console.table(f'{name}: kernels per device', *kinds(compiled, bound), stream)
    if rows := list(collectives(compiled, chip)):
        columns = ['collective', 'group', 'times/step', 'MiB sent', 'ms', 'exposed']
        console.table(f'{name}: collectives per device', columns, rows, stream)
    console.table(f'{name}: costliest kernels', *costliest(compiled, chip), stream)
    print(sentence(bound), file=stream)


def kinds(compiled, bound):
    """Columns and rows: number, FLOPs, bytes and time of the kernels of each kind."""
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
    columns = ['kind', 'kernels', 'runs', 'TFLOP', 'GB', 'min ms', 'of the step']
    return columns, rows


def collectives(compiled, chip):
    """Yields rows: bytes sent and time of the collectives by kind and group size."""
    kernels = compiled.kernels
    groups = {}
    for index, kernel in enumerate(kernels):
        if kernel.kind == 'collective':
            groups.setdefault((kernel.op, kernel.group), []).append(index)
    for (op, group), own in groups.items():
        total, exposed = roofline.collective_seconds(kernels, chip, own)
        yield [
            op,
            f'{group}',
            f'{sum(kernels[n].times for n in own):,}',
            f'{sum(kernels[n].sent * kernels[n].times for n in own) / MIB:,.0f}',
            f'{1e3 * total:.2f}',
            f'{exposed / total:.0%}' if total else '',
        ]


def costliest(compiled, chip):
    """Columns and rows: the kernels that take the most time per step."""
    rows = [
        [
            kernel.kind,
            kernel.name[-70:],
            kernel.shape[:40],
            f'{1e3 * seconds:.2f}',
        ]
        for kernel, seconds in roofline.costliest(compiled.kernels, chip)
    ]
    return ['kind', 'operation', 'result', 'ms/step'], rows


def sentence(bound):
    """States the roofline bound and its assumptions."""
    return (
        f'Roofline: a step takes at least {1e3 * bound.step:.1f} ms, so MFU is at most '
        f'{bound.mfu:.3f}, with products at {roofline.PRODUCTS:.0%} of the peak, '
        f'attention at {roofline.ATTENTION:.0%}, and all other kernels at memory '
        f'bandwidth. Collectives take {1e3 * bound.communication:.1f} ms, of which '
        f'{1e3 * bound.exposed:.1f} ms are not overlapped.'
    )
