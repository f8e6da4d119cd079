"""How long a compiled step takes at least, and the share of the peak that this bounds.

Kernels run one after the other: products at the speed that large ones are seen to reach,
attention at that of its kernels, all else at the speed of memory, collectives at that of
the links, less what runs meanwhile. What is left out makes it slower: waits of the host,
kernels too small to fill a device, networks between machines.
"""

import collections
import dataclasses

# Of the peak. Large bfloat16 products reach 0.8 of it on H100 and H200 (0.77 to 0.87 on
# B200 and A100: Bekman, Machine Learning Engineering, "maximum achievable matmul
# FLOPS"). Attention of heads of 64 reaches about 0.4, forward and backward (Shah et al.
# 2024, arXiv 2407.08608, figures 5 and 6).
PRODUCTS, ATTENTION = 0.8, 0.4
KINDS = ('product', 'attention', 'pass', 'copy', 'collective')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roofline:
    """Seconds of a step on one device, by kind of kernel; `waited`, those of collectives
    that nothing hides, of the seconds `sending`. `mfu`: the most that can be."""

    seconds: dict
    sending: float
    waited: float
    mfu: float

    @property
    def step(self):
        """Seconds of a step."""
        return sum(self.seconds.values())


def of(kernels, chip, flops):
    """The Roofline of kernels on a hardware.Chip; `flops` are those of the model that
    one device does in a step (cost/flops.py)."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for kernel in kernels:
        seconds[kernel.kind] += took(kernel, chip) * kernel.times
    own = [n for n, kernel in enumerate(kernels) if kernel.kind == 'collective']
    sending, waited = waits(kernels, chip, own)
    seconds['collective'] = waited
    total = sum(seconds.values())
    return Roofline(
        seconds=seconds,
        sending=sending,
        waited=waited,
        mfu=flops / (chip.peak * total) if total else 0.0,
    )


def waits(kernels, chip, indices):
    """(seconds that some collectives send, those of them in which nothing else runs)."""
    sending = waited = 0.0
    for index in indices:
        own = kernels[index]
        between = kernels[index + 1 : own.until] if own.until is not None else ()
        meanwhile = sum(
            took(kernel, chip) * kernel.times
            for kernel in between
            if kernel.kind != 'collective'
        )
        time = took(own, chip) * own.times
        sending += time
        waited += max(0.0, time - meanwhile)
    return sending, waited


def took(kernel, chip):
    """Seconds of a kernel each time, at least."""
    if kernel.kind == 'collective':
        return kernel.sent / chip.links if chip.links else 0.0
    moving = kernel.bytes / chip.bandwidth
    share = ATTENTION if kernel.kind == 'attention' else PRODUCTS
    peak = chip.peak * (chip.float32 if kernel.dtype == 'f32' else 1)
    return max(moving, kernel.flops / (share * peak))


def costliest(kernels, chip, count=10):
    """[(kernel, seconds of a step)] of those that take most; alike ones are one."""
    alike = collections.OrderedDict()
    for kernel in kernels:
        key = (kernel.kind, kernel.name, kernel.shape)
        first, total = alike.get(key, (kernel, 0.0))
        alike[key] = first, total + took(kernel, chip) * kernel.times
    return sorted(alike.values(), key=lambda one: -one[1])[:count]
