"""Records a trace with jax's profiler and sums device time by operation."""

import collections
from pathlib import Path

import jax

# Steps to trace, and operations to report.
STEPS, TOP = 2, 10


def record(work, folder):
    """Traces a call of `work()`, which must wait for the device, into a folder that
    TensorBoard, XProf and Perfetto read.

    Returns {'file': path of the trace in the folder, 'costliest': [[operation, seconds,
    fraction of the total]], 'seconds': total}; times are summed over all devices. Raises
    RuntimeError if the profiler writes no trace.
    """
    with jax.profiler.trace(str(folder)):
        work()
    files = sorted(
        Path(folder).rglob('*.xplane.pb'), key=lambda path: path.stat().st_mtime
    )
    if not files:
        raise RuntimeError(f"jax's profiler wrote no trace to {folder}.")
    times = operation_seconds(jax.profiler.ProfileData.from_file(str(files[-1])))
    total = times.total()
    costliest = sorted(times.items(), key=lambda item: -item[1])[:TOP]
    return {
        'file': str(files[-1].relative_to(folder)),
        'seconds': total,
        'costliest': [[name, s, s / total] for name, s in costliest],
    }


def operation_seconds(profile):
    """Counter {operation: seconds} of a jax.profiler.ProfileData: of the kernels on
    devices, or if there are none, of the XLA operations on the CPU."""
    times = collections.Counter()
    devices = [plane for plane in profile.planes if plane.name.startswith('/device:')]
    lines = [line for plane in devices for line in plane.lines if _has_kernels(line.name)]
    events = [event for line in lines for event in line.events]
    if not events:
        lines = (line for plane in profile.planes for line in plane.lines)
        events = [
            event for line in lines for event in line.events if _is_operation(event)
        ]
    for event in events:
        # A loop spans the operations in its body, which have events of their own.
        if not event.name.startswith(('while', 'call', '%while')):
            times[event.name] += event.duration_ns / 1e9
    return times


def _has_kernels(name):
    """Whether a line of a device's plane lists its kernels: a stream of a GPU, or the
    operations of a TPU."""
    return name.startswith('Stream') or name == 'XLA Ops'


def _is_operation(event):
    return any(key == 'hlo_op' for key, _ in event.stats)
