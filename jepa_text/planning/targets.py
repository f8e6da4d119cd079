"""Descriptions of absent devices for compilers: GPU specifications, TPU slices.

A TPU target is given by its slice name, an NVIDIA GPU by the specification below. Figures
are those of XLA's own specifications (github.com/openxla/xla,
xla/backends/gpu/target_config/specs). XLA uses them to lay out kernels; nothing is
measured. Memory, bandwidth and compute capability are those of hardware.CHIPS.
"""

import dataclasses

from jepa_text.parallel import hardware


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Specification of an NVIDIA GPU; the defaults are those of Hopper.

    name          device name reported by the driver
    cores         streaming multiprocessors (SMs)
    clock         GHz
    units         float32 units per SM
    shared        bytes of shared memory per SM; a block may use 1 KiB less
    l2            bytes of L2 cache
    links         number of NVLink links
    """

    name: str
    cores: int
    clock: float
    units: int = 128
    shared: int = 233472
    l2: int = 52428800
    links: int = 18


TARGETS = {
    'h100': Target(name='NVIDIA H100 80GB HBM3', cores=132, clock=1.98),
    'h200': Target(name='NVIDIA H200', cores=132, clock=1.98),
    'b200': Target(name='NVIDIA B200', cores=148, clock=1.965, l2=132644864),
    'a100': Target(
        name='NVIDIA A100-SXM4-80GB',
        cores=108,
        clock=1.41,
        units=64,
        shared=167936,
        l2=41943040,
        links=12,
    ),
}

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
            f'Compiling for absent devices does not support {kind}; supported: {known}. '
            'Use --hardware instead of --compile to estimate the memory.'
        )
    if count not in SLICES[kind]:
        raise ValueError(
            f'{name} is not a supported slice; supported: '
            f'{", ".join(f"{kind}:{n}" for n in SLICES[kind])}.'
        )
    return 'tpu', f'{kind}:{SLICES[kind][count]}'


# A GpuTargetConfigProto in text format. The versions are of the libraries to compile for;
# cuDNN builds its kernels at program load.
_TEXT = """
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {target.shared}
  shared_memory_per_block_optin: {optin}
  threads_per_core_limit: 2048
  core_count: {target.cores}
  fpus_per_core: {target.units}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  memory_bandwidth: {chip.bandwidth:.0f}
  pcie_bandwidth: 34359738368
  l2_cache_size: {target.l2}
  device_memory_size: {chip.memory:.0f}
  clock_rate_ghz: {target.clock}
  device_address_bits: 64
  ecc_enabled: true
  device_vendor: "NVIDIA Corporation"
  name: "{target.name}"
  platform_version: "Compute Capability {major}.{minor}"
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.10.0"
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {feature} }}
  device_interconnect_info {{ active_links: {target.links} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{target.name}"
"""


def text(name):
    """XLA's description of a GPU."""
    target, chip = TARGETS[name], hardware.CHIPS[name]
    major, minor = chip.capability
    # Architecture-specific instructions, the `a` of sm_90a.
    feature = 'ACCELERATED_FEATURES' if major >= 9 else 'NONE'
    return _TEXT.format(
        target=target,
        chip=chip,
        optin=target.shared - 1024,
        major=major,
        minor=minor,
        feature=feature,
    )
