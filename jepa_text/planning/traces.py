"""A trace of a few steps by jax's profiler, and what took the time in it."""

import collections
from pathlib import Path

import jax

STEPS, TOP = 2, 10


def of(work, folder):
    """Records `work()`, which ends when the device is done, into a folder, which
    TensorBoard, XProf and Perfetto read.

    Returns {'file': the trace in it, 'costliest': [[operation, seconds, share of all that
    ran]], 'seconds': of all that ran}; the last two are of all devices together.
    """
    with jax.profiler.trace(str(folder)):
        work()
    files = sorted(Path(folder).rglob('*.xplane.pb'), key=lambda one: one.stat().st_mtime)
    if not files:
        raise RuntimeError(f"jax's profiler left no trace in {folder}.")
    spent = seconds(jax.profiler.ProfileData.from_file(str(files[-1])))
    total = sum(spent.values())
    longest = sorted(spent.items(), key=lambda one: -one[1])[:TOP]
    return {
        'file': str(files[-1].relative_to(folder)),
        'seconds': total,
        'costliest': [[name, s, s / total] for name, s in longest],
    }


def seconds(profile):
    """Counter {operation: seconds} of a jax.profiler.ProfileData: of what ran on devices,
    or where it tells of none, of the operations of programs on the CPU."""
    spent = collections.Counter()
    on_devices = [one for one in profile.planes if one.name.startswith('/device:')]
    lines = [line for plane in on_devices for line in plane.lines if _holds(line.name)]
    events = [event for line in lines for event in line.events]
    if not events:
        every = (line for plane in profile.planes for line in plane.lines)
        events = [
            event for line in every for event in line.events if _is_operation(event)
        ]
    for event in events:
        # A loop lasts as long as what is in it, which has events of its own.
        if not event.name.startswith(('while', 'call', '%while')):
            spent[event.name] += event.duration_ns / 1e9
    return spent


def _holds(name):
    """Kernels are in the streams of a GPU, and in one line of a TPU."""
    return name.startswith('Stream') or name == 'XLA Ops'


def _is_operation(event):
    return any(key == 'hlo_op' for key, _ in event.stats)
