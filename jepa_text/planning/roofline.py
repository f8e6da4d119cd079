"""Roofline model of a compiled step: lower bound of its time, upper bound of its MFU.

Kernels run one after the other: matrix products at the speed that large products reach in
practice, attention at the speed of attention kernels, all others at memory bandwidth.
Collectives run at link bandwidth, asynchronous ones at the same time as the kernels. What
is not modeled makes a step slower: collectives that wait for a kernel, host latency,
kernels too small to fill a device, networks between machines.
"""

from typing import NamedTuple

# Achievable fractions of the peak. Large bfloat16 products reach 0.8 on H100 and H200
# (0.77 to 0.87 on B200 and A100: Bekman, Machine Learning Engineering, "maximum
# achievable matmul FLOPS"). Attention with head width 64 reaches about 0.4, forward and
# backward (Shah et al. 2024, arXiv 2407.08608, figures 5 and 6).
PRODUCTS, ATTENTION = 0.8, 0.4
# Attention kernels compute the scores again in the backward pass: seven products, of
# which the model needs six.
_RECOMPUTED = 7 / 6


class Roofline(NamedTuple):
    """Time bound of a step on one device, in seconds.

    kernels    {kind of kernel: seconds}
    waits      of collectives that run alone
    step       all of them together
    mfu        upper bound of the MFU
    """

    kernels: dict
    waits: float
    step: float
    mfu: float


def of(traffic, count, chip, devices, dtype):
    """The Roofline of a hlo.Traffic and a flops.Count of all devices, on a hardware.Chip
    that computes in a dtype."""
    peak = chip.peak * devices * (chip.float32 if dtype == 'float32' else 1)
    kernels = {
        'products': count.products / (PRODUCTS * peak),
        'attention': _RECOMPUTED * count.attention / (ATTENTION * peak),
        'other kernels': traffic.bytes / chip.bandwidth,
    }
    waits, overlaps = (
        sum(seconds(one, chip) for one in traffic.collectives if one.is_async == is_async)
        for is_async in (False, True)
    )
    step = max(sum(kernels.values()), overlaps) + waits
    mfu = count.model / (chip.peak * devices * step)
    return Roofline(kernels, waits, step, mfu)


def seconds(collective, chip):
    """Seconds per step of a hlo.Collective at the bandwidth of the chip's links."""
    return collective.sent / chip.links if chip.links else 0.0
