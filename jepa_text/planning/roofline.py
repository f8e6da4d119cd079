"""Roofline model of a compiled step: lower bound of its time, upper bound of its MFU.

Kernels run one after the other: matrix products at the speed that large products reach in
practice, attention at the speed of attention kernels, all others at memory bandwidth, and
collectives at link bandwidth, minus the kernels that overlap them. Effects that are not
modeled make a step slower: host latency, kernels too small to fill a device, networks
between machines.
"""

import dataclasses

# Achievable fractions of the peak. Large bfloat16 products reach 0.8 on H100 and H200
# (0.77 to 0.87 on B200 and A100: Bekman, Machine Learning Engineering, "maximum
# achievable matmul FLOPS"). Attention with head width 64 reaches about 0.4, forward and
# backward (Shah et al. 2024, arXiv 2407.08608, figures 5 and 6).
PRODUCTS, ATTENTION = 0.8, 0.4
KINDS = ('product', 'attention', 'pass', 'copy', 'collective')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roofline:
    """Time bound of a step on one device.

    seconds        {kind of kernel: seconds}; of collectives, only the exposed ones
    communication  seconds of all collectives
    exposed        seconds of collectives that no other kernel overlaps
    mfu            upper bound of the MFU
    """

    seconds: dict
    communication: float
    exposed: float
    mfu: float

    @property
    def step(self):
        """Seconds per step."""
        return sum(self.seconds.values())


def of(kernels, chip, flops):
    """The Roofline of kernels on a hardware.Chip; `flops` are the model FLOPs per step of
    one device (cost/flops.py)."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for kernel in kernels:
        seconds[kernel.kind] += kernel_seconds(kernel, chip) * kernel.times
    own = [n for n, kernel in enumerate(kernels) if kernel.kind == 'collective']
    communication, exposed = collective_seconds(kernels, chip, own)
    seconds['collective'] = exposed
    total = sum(seconds.values())
    return Roofline(
        seconds=seconds,
        communication=communication,
        exposed=exposed,
        mfu=flops / (chip.peak * total) if total else 0.0,
    )


def collective_seconds(kernels, chip, indices):
    """(total, exposed) seconds of the collectives at these indices; exposed is the part
    that no other kernel overlaps."""
    total = exposed = 0.0
    for index in indices:
        own = kernels[index]
        between = kernels[index + 1 : own.until] if own.until is not None else ()
        overlapped = sum(
            kernel_seconds(kernel, chip) * kernel.times
            for kernel in between
            if kernel.kind != 'collective'
        )
        time = kernel_seconds(own, chip) * own.times
        total += time
        exposed += max(0.0, time - overlapped)
    return total, exposed


def kernel_seconds(kernel, chip):
    """Lower bound in seconds of one execution of a kernel."""
    if kernel.kind == 'collective':
        return kernel.sent / chip.links if chip.links else 0.0
    moving = kernel.bytes / chip.bandwidth
    share = ATTENTION if kernel.kind == 'attention' else PRODUCTS
    peak = chip.peak * (chip.float32 if kernel.dtype == 'f32' else 1)
    return max(moving, kernel.flops / (share * peak))


def costliest(kernels, chip, count=10):
    """[(kernel, seconds per step)] of the slowest kernels; kernels of the same kind, name
    and shape are summed."""
    totals = {}
    for kernel in kernels:
        key = (kernel.kind, kernel.name, kernel.shape)
        first, total = totals.get(key, (kernel, 0.0))
        totals[key] = first, total + kernel_seconds(kernel, chip) * kernel.times
    return sorted(totals.values(), key=lambda one: -one[1])[:count]
