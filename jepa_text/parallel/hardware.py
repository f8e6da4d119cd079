"""Accelerators by name: peak FLOP/s, memory, bandwidth and price, with sources.

Peaks are of dense bfloat16 products, or float32 if a chip does not support bfloat16,
without the factor two for sparsity that data sheets often include.

Prices are per chip and hour, on demand, without discounts: those of NVIDIA's of RunPod,
as quoted by others in spring 2026, of TPUs orders of magnitude for Google Cloud in the
USA, not confirmed. They change monthly, so budgets should use current ones (`--price`).

The default MFU is REACHED times a bound (planning/roofline.py): that of an MLM step of
610m, as compiled for eight H200s, with the speeds of the chip; for the T4 that of 35m, in
float32. It is not measured.
"""

import dataclasses
import re
from typing import NamedTuple

from jepa_text.settings import schema


class Chip(NamedTuple):
    """An accelerator.

    peak          FLOP/s
    memory        bytes
    bandwidth     of the memory, bytes/s
    links         bytes/s in each direction to the other chips of the machine, or None
    price         US dollars per hour, or None
    mfu           share of the peak to plan with
    float32       speed of float32 products as a share of the peak. By default they are
                  computed in TF32, on TPUs in bfloat16
    capability    compute capability of NVIDIA GPUs, or None
    kind          regular expression of jax's `device_kind`
    """

    peak: float
    memory: float
    bandwidth: float
    links: float | None
    price: float | None
    mfu: float
    float32: float
    capability: tuple[int, int] | None
    kind: str

    @property
    def platform(self):
        """What jax names it: cpu, gpu or tpu."""
        if self.capability is None and 'TPU' in self.kind:
            return 'tpu'
        return 'cpu' if self.capability == (0, 0) else 'gpu'

    @property
    def dtype(self):
        """The dtype of the peak: bfloat16 if the chip supports it, else float32."""
        lacks_bfloat16 = self.capability is not None and self.capability < (8, 0)
        return 'float32' if lacks_bfloat16 else 'bfloat16'

    def share(self, dtype):
        """Returns the share of the peak to plan with for a model of this dtype."""
        return self.mfu * (self.float32 if dtype == 'float32' else 1)


# Share of a device's memory; the rest is used by libraries or lost to fragmentation.
USABLE = 0.92

# Decoders of 8B and more reach 0.39 to 0.6 of the peak in JAX. Nearly all of their time
# is in products, at 0.8 of the peak: that is 0.49 to 0.75 of their bound. ModernBERT's
# code reached 0.25 of the peak.
REACHED = 0.65

# Peak, memory, bandwidth, links, price, MFU, float32, capability and kind, as in Chip.
CHIPS = {
    # NVIDIA H100 data sheet, SXM.
    'h100': Chip(
        989e12, 80e9, 3.35e12, 450e9, 2.69, 0.29, 0.5, (9, 0), r'H100(?!.*(PCIe|NVL))'
    ),
    # NVIDIA H200 data sheet, SXM.
    'h200': Chip(
        989e12, 141e9, 4.8e12, 450e9, 3.59, 0.31, 0.5, (9, 0), r'(?<!G)H200(?!.*NVL)'
    ),
    # NVIDIA HGX B200 data sheet.
    'b200': Chip(2250e12, 180e9, 7.7e12, 900e9, None, 0.29, 0.5, (10, 0), r'(?<!G)B200'),
    # NVIDIA A100 data sheet, 80 GB SXM.
    'a100': Chip(312e12, 80e9, 2.039e12, 300e9, 1.39, 0.33, 0.5, (8, 0), r'A100'),
    # NVIDIA L4 data sheet; links are PCIe 4.
    'l4': Chip(121e12, 24e9, 300e9, 32e9, None, 0.25, 0.5, (8, 9), r'L4$'),
    # NVIDIA T4 data sheet, float32, as it has no bfloat16; links are PCIe 3.
    't4': Chip(8.1e12, 16e9, 320e9, 16e9, None, 0.39, 1.0, (7, 5), r'T4$'),
    # Google Cloud, TPU v5e.
    'v5e': Chip(197e12, 16e9, 819e9, 100e9, 1.2, 0.3, 1.0, None, r'TPU v5( lite|e)'),
    # Google Cloud, TPU v5p.
    'v5p': Chip(459e12, 95e9, 2.765e12, 300e9, 4.2, 0.33, 1.0, None, r'TPU v5p?$'),
    # Google Cloud, TPU v6e.
    'v6e': Chip(918e12, 32e9, 1.64e12, 224e9, 2.7, 0.22, 1.0, None, r'TPU v6( lite|e)'),
    # One of the two dies of a module, which arXiv 2507.00994 counts as a GPU. The MFU is
    # fitted to the 16,000 hours that the paper reports for 120,000 steps at 610M; its 15
    # base models would then take 10% more than reported. AMD Instinct MI250X data sheet.
    'mi250x': Chip(191.5e12, 64e9, 1.638e12, None, None, 0.105, 0.25, None, r'MI250'),
    # A core of an AMD EPYC 9004, float32. The MFU is fitted to 3,030 tokens/s of
    # configs/small.py on two of them. It is for plans: no device of jax is one core.
    'core': Chip(100e9, 4e9, 20e9, None, None, 0.42, 1.0, (0, 0), r'(?!)'),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The config section `plan`: the hardware to plan a run for."""

    hardware: str = schema.field('h100:8', 'CHIP or CHIP:COUNT')
    mfu: float | None = schema.field(
        None,
        "fraction of the chips' peak FLOP/s; default: of the chip",
        above=0,
        maximum=1,
    )
    dollars_per_chip_hour: float | None = schema.field(
        None, 'price of a chip in US dollars per hour; default: of the chip', minimum=0
    )
    vocab_size: int | None = schema.field(
        None,
        'vocabulary size if the tokenizer is not available',
        minimum=16,
        maximum=2**24,
    )
    compile: str | None = schema.field(
        None, 'CHIP or CHIP:COUNT to compile the steps for; takes the place of `hardware`'
    )

    def __post_init__(self):
        find(self.target)

    @property
    def target(self):
        """The hardware to plan for."""
        return self.compile or self.hardware


def find(name):
    """Returns (chip, count) of 'h100:8', or of 'h100' for one.

    Raises ValueError for an unknown chip or a count below 1.
    """
    match = re.fullmatch(r'(\w+)(?::0*([1-9][0-9]*))?', str(name).lower())
    kind, count = match.groups() if match else ('', None)
    if kind not in CHIPS:
        raise ValueError(
            f'hardware={name!r} must be CHIP or CHIP:COUNT, as h100:8; available chips: '
            f'{", ".join(CHIPS)}.'
        )
    return CHIPS[kind], int(count or 1)


def peak(device_kind):
    """Returns the peak FLOP/s of a device by jax's `device_kind`; None if unknown."""
    name = name_of(device_kind)
    return CHIPS[name].peak if name else None


def name_of(device_kind):
    """Returns the name of a chip, as 'h100', by jax's `device_kind`; None if unknown."""
    named = (name for name, chip in CHIPS.items() if re.search(chip.kind, device_kind))
    return next(named, None)
