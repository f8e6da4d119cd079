"""Accelerators by name: peak FLOP/s, memory, bandwidth and price, with sources.

Peaks are of dense bfloat16 products, or float32 if a chip does not support bfloat16,
without the factor two for sparsity that data sheets often include.

Prices are per chip and hour, on demand, without discounts: those of NVIDIA's of RunPod,
as quoted by others in spring 2026, of TPUs orders of magnitude for Google Cloud in the
USA, not confirmed. They change monthly, so budgets should use current ones (`--price`).

The default MFU is REACHED times a bound (planning/roofline.py): that of an MLM step of
610m, as compiled for eight H200s, with the speeds of the chip; for the T4 that of
configs/small_gpu.py, compiled for it. It is not measured.
"""

import dataclasses
import re

from jepa_text.config import schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
    """An accelerator.

    peak          FLOP/s
    memory        bytes
    bandwidth     of the memory, bytes/s
    price         US dollars per hour, or None
    mfu           share of the peak to plan with; the comment is its bound
    kind          regular expression of jax's `device_kind`
    source        source of the speeds and the memory
    links         bytes/s in each direction to the other chips of the machine
    capability    compute capability of NVIDIA GPUs
    float32       speed of float32 products as a share of the peak. By default they are
                  computed in TF32, on TPUs in bfloat16
    """

    peak: float
    memory: float
    bandwidth: float
    price: float | None
    mfu: float
    kind: str
    source: str
    links: float | None = None
    capability: tuple[int, int] | None = None
    float32: float = 0.5

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

CHIPS = {
    'h100': Chip(
        peak=989e12,
        memory=80e9,
        bandwidth=3.35e12,
        links=450e9,
        price=2.69,
        mfu=0.29,  # 0.44
        kind=r'H100(?!.*(PCIe|NVL))',
        source='NVIDIA H100 data sheet, SXM',
        capability=(9, 0),
    ),
    'h200': Chip(
        peak=989e12,
        memory=141e9,
        bandwidth=4.8e12,
        links=450e9,
        price=3.59,
        mfu=0.31,  # 0.48
        kind=r'(?<!G)H200(?!.*NVL)',
        source='NVIDIA H200 data sheet, SXM',
        capability=(9, 0),
    ),
    'b200': Chip(
        peak=2250e12,
        memory=180e9,
        bandwidth=7.7e12,
        links=900e9,
        price=None,
        mfu=0.29,  # 0.44
        kind=r'(?<!G)B200',
        source='NVIDIA HGX B200 data sheet',
        capability=(10, 0),
    ),
    'a100': Chip(
        peak=312e12,
        memory=80e9,
        bandwidth=2.039e12,
        links=300e9,
        price=1.39,
        mfu=0.33,  # 0.51
        kind=r'A100',
        source='NVIDIA A100 data sheet, 80 GB SXM',
        capability=(8, 0),
    ),
    'l4': Chip(
        peak=121e12,
        memory=24e9,
        bandwidth=300e9,
        links=32e9,
        price=None,
        mfu=0.25,  # 0.39
        kind=r'L4$',
        source='NVIDIA L4 data sheet; links are PCIe 4',
        capability=(8, 9),
    ),
    't4': Chip(
        peak=8.1e12,
        memory=16e9,
        bandwidth=320e9,
        links=16e9,
        price=None,
        mfu=0.39,  # 0.6
        kind=r'T4$',
        source='NVIDIA T4 data sheet, float32, as it has no bfloat16; links are PCIe 3',
        capability=(7, 5),
        float32=1.0,
    ),
    'v5e': Chip(
        peak=197e12,
        memory=16e9,
        bandwidth=819e9,
        links=100e9,
        price=1.20,
        mfu=0.3,  # 0.46
        kind=r'TPU v5( lite|e)',
        source='Google Cloud, TPU v5e',
        float32=1.0,
    ),
    'v5p': Chip(
        peak=459e12,
        memory=95e9,
        bandwidth=2.765e12,
        links=300e9,
        price=4.20,
        mfu=0.33,  # 0.5
        kind=r'TPU v5p?$',
        source='Google Cloud, TPU v5p',
        float32=1.0,
    ),
    'v6e': Chip(
        peak=918e12,
        memory=32e9,
        bandwidth=1.64e12,
        links=224e9,
        price=2.70,
        mfu=0.22,  # 0.34
        kind=r'TPU v6( lite|e)',
        source='Google Cloud, TPU v6e',
        float32=1.0,
    ),
    # One of the two dies of a module, which arXiv 2507.00994 counts as a GPU. The MFU is
    # fitted to the 16,000 hours that the paper reports for 120,000 steps at 610M; its 15
    # base models would then take 10% more than reported.
    'mi250x': Chip(
        peak=191.5e12,
        memory=64e9,
        bandwidth=1.638e12,
        price=None,
        mfu=0.105,
        kind=r'MI250',
        source='AMD Instinct MI250X data sheet, one die',
        float32=0.25,
    ),
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
    price: float | None = schema.field(
        None, 'US dollars per chip and hour; default: of the chip', minimum=0
    )
    vocab_size: int | None = schema.field(
        None, 'vocabulary size if the tokenizer is not available', minimum=0
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
