"""Chips by name: speed, memory, price, and where each figure is from.

Speeds are dense bfloat16 products, float32 where a chip has no bfloat16, without the
doubling by sparsity that data sheets like. Prices are per chip and hour, on demand,
without discounts; they move by the month, so a plan of money should name its own
(`--price`). Shares of the peak follow from a bound (planning/roofline.py) unless the text
says otherwise.
"""

import dataclasses
import re

from jepa_text.config import schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
    """peak: FLOP/s. memory: bytes. bandwidth: bytes/s of it. links: bytes/s, each way,
    to the other chips of its machine. price: US dollars an hour, or None. mfu: the share
    of the peak to plan with. kind: what jax calls the device, as a regular expression.
    capability: CUDA's, of NVIDIA's. float32: the speed of its products, as a share of the
    peak; by default they go in as tensor float 32, on TPUs as bfloat16."""

    peak: float
    memory: float
    bandwidth: float
    price: float | None
    mfu: float
    kind: str
    source: str
    priced: str
    assumed: str
    links: float | None = None
    capability: tuple[int, int] | None = None
    float32: float = 0.5

    @property
    def dtype(self):
        """Of which products the peak is: bfloat16's, unless the chip has none."""
        is_old = self.capability is not None and self.capability < (8, 0)
        return 'float32' if is_old else 'bfloat16'

    def share(self, dtype):
        """The share of the peak to plan with for a model of this dtype."""
        return self.mfu * (self.float32 if dtype == 'float32' else 1)


# Of a device's memory: the rest is what allocators waste and libraries take.
USABLE = 0.92

_RUNPOD = 'RunPod, as quoted by others in spring 2026'
_GOOGLE = 'order of magnitude for Google Cloud in the USA, not confirmed'
# Decoders of 8B and more in JAX reach 0.39 to 0.6 of the peak, where products, at 0.8 of
# it, are nearly all: 0.49 to 0.75 of what bounds them. ModernBERT's code reached 0.25.
REACHED = 0.65
_BOUND = (
    f'{REACHED} of the bound {{}} of an MLM step of 610m, as compiled for eight H200s, '
    'with the speeds of this chip; not measured'
)

CHIPS = {
    'h100': Chip(
        peak=989e12,
        memory=80e9,
        bandwidth=3.35e12,
        links=450e9,
        price=2.69,
        mfu=0.29,
        kind=r'H100(?!.*(PCIe|NVL))',
        source='NVIDIA H100 data sheet, SXM',
        priced=_RUNPOD,
        assumed=_BOUND.format(0.44),
        capability=(9, 0),
    ),
    'h200': Chip(
        peak=989e12,
        memory=141e9,
        bandwidth=4.8e12,
        links=450e9,
        price=3.59,
        mfu=0.31,
        kind=r'H200(?!.*NVL)',
        source='NVIDIA H200 data sheet, SXM',
        priced=_RUNPOD,
        assumed=_BOUND.format(0.48),
        capability=(9, 0),
    ),
    'b200': Chip(
        peak=2250e12,
        memory=180e9,
        bandwidth=7.7e12,
        links=900e9,
        price=None,
        mfu=0.29,
        kind=r'(?<!G)B200',
        source='NVIDIA HGX B200 data sheet',
        priced='',
        assumed=_BOUND.format(0.44),
        capability=(10, 0),
    ),
    'a100': Chip(
        peak=312e12,
        memory=80e9,
        bandwidth=2.039e12,
        links=300e9,
        price=1.39,
        mfu=0.33,
        kind=r'A100',
        source='NVIDIA A100 data sheet, 80 GB SXM',
        priced=_RUNPOD,
        assumed=_BOUND.format(0.51),
        capability=(8, 0),
    ),
    'l4': Chip(
        peak=121e12,
        memory=24e9,
        bandwidth=300e9,
        links=32e9,
        price=None,
        mfu=0.25,
        kind=r'L4$',
        source='NVIDIA L4 data sheet; links are PCIe 4',
        priced='',
        assumed=_BOUND.format(0.39),
        capability=(8, 9),
    ),
    't4': Chip(
        peak=8.1e12,
        memory=16e9,
        bandwidth=320e9,
        links=16e9,
        price=None,
        mfu=0.39,
        kind=r'T4$',
        source='NVIDIA T4 data sheet, float32, as it has no bfloat16; links are PCIe 3',
        priced='',
        assumed=f'{REACHED} of the bound 0.60 of configs/small_gpu.py, compiled for it',
        capability=(7, 5),
        float32=1.0,
    ),
    'v5e': Chip(
        peak=197e12,
        memory=16e9,
        bandwidth=819e9,
        links=100e9,
        price=1.20,
        mfu=0.3,
        kind=r'TPU v5( lite|e)',
        source='Google Cloud, TPU v5e',
        float32=1.0,
        priced=_GOOGLE,
        assumed=_BOUND.format(0.46),
    ),
    'v5p': Chip(
        peak=459e12,
        memory=95e9,
        bandwidth=2.765e12,
        links=300e9,
        price=4.20,
        mfu=0.33,
        kind=r'TPU v5p?$',
        source='Google Cloud, TPU v5p',
        float32=1.0,
        priced=_GOOGLE,
        assumed=_BOUND.format(0.50),
    ),
    'v6e': Chip(
        peak=918e12,
        memory=32e9,
        bandwidth=1.64e12,
        links=224e9,
        price=2.70,
        mfu=0.22,
        kind=r'TPU v6( lite|e)',
        source='Google Cloud, TPU v6e',
        float32=1.0,
        priced=_GOOGLE,
        assumed=_BOUND.format(0.34),
    ),
    # One of the two dies of a module: what arXiv 2507.00994 counts as a GPU.
    'mi250x': Chip(
        peak=191.5e12,
        memory=64e9,
        bandwidth=1.638e12,
        price=None,
        mfu=0.105,
        kind=r'MI250',
        source='AMD Instinct MI250X data sheet, one die',
        priced='',
        float32=0.25,
        assumed='fitted to the 16,000 hours that arXiv 2507.00994 gives for 120,000 '
        'steps at 610M; by it, its 15 base models take a tenth more than it says',
    ),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The section `plan`: what a run is to be planned for."""

    hardware: str = schema.field('h100:8', 'CHIP or CHIP:COUNT')
    mfu: float | None = schema.field(
        None, "the share of the chips' peak; that of the chip", above=0, maximum=1
    )
    price: float | None = schema.field(
        None, 'US dollars a chip and hour; that of the chip', minimum=0
    )
    vocab_size: int | None = schema.field(
        None, 'for a config whose tokenizer is not here', minimum=0
    )
    compile: bool = schema.field(False, 'ask the compiler for the memory, too')

    def __post_init__(self):
        find(self.hardware)


def find(name):
    """(chip, how many) of 'h100:8', or of 'h100' (one).

    Raises ValueError for a chip that is not in the table or a count below 1.
    """
    asked = re.fullmatch(r'(\w+)(?::0*([1-9][0-9]*))?', str(name).lower())
    kind, count = asked.groups() if asked else ('', None)
    if kind not in CHIPS:
        raise ValueError(
            f'hardware {name!r} is not CHIP or CHIP:COUNT, as h100:8; chips: '
            f'{", ".join(CHIPS)}.'
        )
    return CHIPS[kind], int(count or 1)


def peak(device_kind):
    """FLOP/s of the device that jax calls so; None for one that the table lacks."""
    name = name_of(device_kind)
    return CHIPS[name].peak if name else None


def name_of(device_kind):
    """'h100' of the device that jax calls so; None for one that the table lacks."""
    named = (name for name, chip in CHIPS.items() if re.search(chip.kind, device_kind))
    return next(named, None)
