"""Device descriptions for compiling without the device: GPU specifications, TPU slices.

A TPU target is given by its slice name, an NVIDIA GPU by the specification below.

Figures of B200, H200, H100 and A100 are those of XLA's own specifications
(github.com/openxla/xla, xla/backends/gpu/target_config/specs). L4 and T4 have none there;
their figures are from NVIDIA's data sheets and the CUDA programming guide. XLA uses them
to lay out kernels; nothing is measured. The compute capability is that of hardware.CHIPS.
"""

import dataclasses

from jepa_text.cost import hardware


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Specification of an NVIDIA GPU.

    name         device name reported by the driver
    cores        streaming multiprocessors (SMs)
    units        float32 units per SM
    threads      maximum threads per SM
    shared       bytes of shared memory per SM, and the maximum per block
    bandwidth    memory bandwidth in bytes/s
    pcie         bandwidth to the host in bytes/s
    l2, memory   bytes of L2 cache and of device memory
    clock        GHz
    accelerated  has architecture-specific instructions (the `a` of sm_90a)
    links        number of NVLink links
    """

    name: str
    cores: int
    units: int
    threads: int
    shared: tuple[int, int]
    bandwidth: int
    pcie: int
    l2: int
    memory: int
    clock: float
    accelerated: bool = False
    links: int = 0


_HOPPER = dict(
    cores=132,
    units=128,
    threads=2048,
    shared=(233472, 232448),
    pcie=34359738368,
    l2=52428800,
    clock=1.98,
    accelerated=True,
    links=18,
)
TARGETS = {
    'h100': Target(
        name='NVIDIA H100 80GB HBM3',
        bandwidth=3352320000000,
        memory=84942979072,
        **_HOPPER,
    ),
    'h200': Target(
        name='NVIDIA H200', bandwidth=4800000000000, memory=151397597184, **_HOPPER
    ),
    'b200': Target(
        name='NVIDIA B200',
        cores=148,
        units=128,
        threads=2048,
        shared=(233472, 232448),
        bandwidth=7672320000000,
        pcie=68719476736,
        l2=132644864,
        memory=191514411008,
        clock=1.965,
        accelerated=True,
        links=18,
    ),
    'a100': Target(
        name='NVIDIA A100-SXM4-80GB',
        cores=108,
        units=64,
        threads=2048,
        shared=(167936, 166912),
        bandwidth=2039040000000,
        pcie=34359738368,
        l2=41943040,
        memory=85100068864,
        clock=1.41,
        links=12,
    ),
    'l4': Target(
        name='NVIDIA L4',
        cores=58,
        units=128,
        threads=1536,
        shared=(102400, 101376),
        bandwidth=300000000000,
        pcie=34359738368,
        l2=50331648,
        memory=23580639232,
        clock=2.04,
    ),
    't4': Target(
        name='Tesla T4',
        cores=40,
        units=64,
        threads=1024,
        shared=(65536, 65536),
        bandwidth=320000000000,
        pcie=17179869184,
        l2=4194304,
        memory=15828320256,
        clock=1.59,
    ),
}
# Versions of the libraries to compile for; cuDNN builds its kernels at program load.
CUDA, CUDNN = '13.0.0', (9, 10, 0)

# TPU slice topologies by chip and number of chips, as libtpu names them.
_FLAT = {4: '2x2', 8: '2x4', 16: '4x4', 32: '4x8', 64: '8x8', 128: '8x16', 256: '16x16'}
_CUBE = {4: '2x2x1', 8: '2x2x2', 16: '2x2x4', 32: '2x4x4', 64: '4x4x4'}
SLICES = {'v5e': _FLAT, 'v6e': _FLAT, 'v5p': _CUBE}
# GPUs per machine.
MACHINE = 8


def topology(name):
    """('gpu' or 'tpu', topology) of hardware such as 'h200:16' ('1x2x8': two machines of
    eight) or 'v5e:8' ('v5e:2x4'). Raises ValueError for unsupported hardware."""
    _, count = hardware.find(name)
    kind = name.partition(':')[0].lower()
    if kind in TARGETS:
        if count > MACHINE and count % MACHINE:
            raise ValueError(
                f'{name}: machines have {MACHINE} GPUs; a larger number of GPUs must be '
                f'a multiple of {MACHINE}.'
            )
        return 'gpu', f'1x{max(1, count // MACHINE)}x{min(count, MACHINE)}'
    if kind not in SLICES:
        known = ', '.join((*TARGETS, *SLICES))
        raise ValueError(
            f'Ahead-of-time compilation does not support {kind}; supported: {known}. '
            'Omit --compile to estimate memory instead.'
        )
    if count not in SLICES[kind]:
        raise ValueError(
            f'{name} is not a supported slice; supported: '
            f'{", ".join(f"{kind}:{n}" for n in SLICES[kind])}.'
        )
    return 'tpu', f'{kind}:{SLICES[kind][count]}'


def text(name):
    """XLA's description of a GPU: a GpuTargetConfigProto in text format."""
    target = TARGETS[name]
    major, minor = hardware.CHIPS[name].capability
    feature = 'ACCELERATED_FEATURES' if target.accelerated else 'NONE'
    version = '.'.join(map(str, CUDNN))
    fields = [
        ('threads_per_block_limit', 1024),
        ('threads_per_warp', 32),
        ('shared_memory_per_block', 49152),
        ('shared_memory_per_core', target.shared[0]),
        ('shared_memory_per_block_optin', target.shared[1]),
        ('threads_per_core_limit', target.threads),
        ('core_count', target.cores),
        ('fpus_per_core', target.units),
        ('block_dim_limit_x', 2**31 - 1),
        ('block_dim_limit_y', 2**16 - 1),
        ('block_dim_limit_z', 2**16 - 1),
        ('thread_dim_limit_x', 1024),
        ('thread_dim_limit_y', 1024),
        ('thread_dim_limit_z', 64),
        ('registers_per_core_limit', 65536),
        ('registers_per_block_limit', 65536),
        ('memory_bandwidth', target.bandwidth),
        ('pcie_bandwidth', target.pcie),
        ('l2_cache_size', target.l2),
        ('device_memory_size', target.memory),
        ('clock_rate_ghz', target.clock),
        ('device_address_bits', 64),
        ('ecc_enabled', 'true'),
        ('device_vendor', '"NVIDIA Corporation"'),
        ('name', f'"{target.name}"'),
        ('platform_version', f'"Compute Capability {major}.{minor}"'),
        ('driver_version', f'"{CUDA}"'),
        ('runtime_version', f'"{CUDA}"'),
        ('compile_time_toolkit_version', f'"{CUDA}"'),
        ('dnn_version', f'"{version}"'),
        (
            'cuda_compute_capability',
            f'{{ major: {major} minor: {minor} feature_extension: {feature} }}',
        ),
        ('device_interconnect_info', f'{{ active_links: {target.links} }}'),
    ]
    lines = [
        f'  {key} {value}' if str(value).startswith('{') else f'  {key}: {value}'
        for key, value in fields
    ]
    dnn = 'major: {} minor: {} patch: {}'.format(*CUDNN)
    return '\n'.join(
        [
            'gpu_device_info {',
            *lines,
            '}',
            'platform_name: "CUDA"',
            f'dnn_version_info {{ {dnn} }}',
            f'device_description_str: "{target.name}"',
            '',
        ]
    )
