"""What this machine's devices are good for: `python -m jepa_text.planning.accelerator`.

Three checks, in the order in which they cost: small programs against numpy
(running/arithmetic.py); every attention backend against the reference, forward and
backward, on packed rows and on ids that come again; and some minutes of training on the
bundled corpus, with tokens/s and MFU. One JSON file has all of it. Needs no network.
"""

import argparse
import contextlib
import importlib.metadata
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp

from jepa_text.models.attention import attend, trial, xla
from jepa_text.parallel import exits, sharding
from jepa_text.planning import memory
from jepa_text.running import allocator, arithmetic, metrics, xla_flags
from jepa_text.training import assemble, train
from jepa_text.training.evals import EVALUATIONS

# Rows of a device at most, and their length.
ROWS, LENGTH = {'210m': 16, 'toy': 16}, {'210m': 2048, 'toy': 64}


def main(argv=None):
    """Runs the checks, writes the JSON, and returns the exit code: 1 if one failed."""
    xla_flags.mend()
    parser = argparse.ArgumentParser(prog='accelerator', description=__doc__)
    parser.add_argument('--to', default='runs/accelerator.json', help='the JSON file')
    parser.add_argument('--seconds', type=float, default=120, help='of training')
    parser.add_argument('--preset', choices=sorted(ROWS), help='of the model')
    options = parser.parse_args(argv)
    if not 0 < options.seconds < math.inf:
        parser.error(f'--seconds={options.seconds} is not a time above 0.')
    allocator.keep_freed_memory()
    found = about() | {'arithmetic': _told('arithmetic', sums)}
    found['attention'] = _told('attention', kernels)
    preset = options.preset or ('toy' if found['platform'] == 'cpu' else '210m')
    Path(options.to).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path(options.to).parent) as folder:
        found['training'] = _told('training', lambda: trained(preset, options, folder))
    found['failed'] = failures(found)
    Path(options.to).write_text(json.dumps(found, indent=1), encoding='utf-8')
    show(found, options.to)
    return exits.FAILED if found['failed'] else exits.DONE


def about():
    """What computes here: devices, versions."""
    device = jax.local_devices()[0]
    versions = {}
    for name in ('jax', 'jaxlib', 'flax', 'tokamax', 'jax-cuda13-plugin', 'libtpu'):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        'platform': device.platform,
        'device': device.device_kind,
        'devices': jax.local_device_count(),
        'memory': (device.memory_stats() or {}).get('bytes_limit'),
        'versions': versions,
        'flags': os.environ.get('XLA_FLAGS', ''),
    }


def sums():
    """{program: {'off', 'allowed'}} of arithmetic.py."""
    found = arithmetic.deviations(tuple(jax.local_devices()))
    return {name: dict(off=off, allowed=limit) for name, (off, limit) in found.items()}


def kernels():
    """[{backend, causal, window, dtype, head_width, result}] of every attention backend;
    `result` is 'right', or 'cannot: why', or what was wrong."""
    found = []
    for name, backend in attend.BACKENDS.items():
        for question in questions():
            about = dict(backend=name, **question)
            found.append(about | {'result': _result(backend, **question)})
    return found


def questions():
    """What backends are asked: rows of half and whole precision, as models have them."""
    names = ('dtype', 'head_width', 'causal', 'window')
    rows = (
        ('bfloat16', 64, False, None),
        ('bfloat16', 64, True, None),
        ('bfloat16', 64, False, 20),
        ('bfloat16', 64, True, 20),
        ('bfloat16', 128, False, None),
        ('float32', 64, False, None),
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _result(backend, *, dtype, head_width, causal, window):
    rows = jax.ShapeDtypeStruct((1, trial.LENGTH, 4, head_width), dtype)
    keys = jax.ShapeDtypeStruct((1, trial.LENGTH, 2, head_width), dtype)
    request = attend.request_of(rows, keys, causal=causal, window=window)
    if reason := backend.why_not(request):
        return f'cannot: {reason}'
    shape = dict(dtype=dtype, groups=2, repeats=2, head_width=head_width)
    options = dict(runs=backend.RUNS, causal=causal, window=window)
    return trial.fails(backend.attend, _reference, **shape, **options) or 'right'


def _reference(q_BLHK, *inputs, **options):
    """All scores at once, in float32."""
    *arrays, ids_BL, order_BL = (q_BLHK, *inputs)
    with jax.default_matmul_precision('highest'):
        wide = [array.astype(jnp.float32) for array in arrays]
        return xla.attend(*wide, ids_BL, order_BL, **options).astype(q_BLHK.dtype)


def trained(preset, options, folder):
    """Speed, MFU and losses of training for some seconds after the first steps."""
    config = configured(preset, folder)
    config['data']['batch_per_device'] = rows_that_fit(config, ROWS[preset])
    run = Path(folder, 'run')
    done = threading.Event()
    ends = threading.Thread(target=_end, args=(run, options.seconds, done), daemon=True)
    ends.start()
    try:
        with contextlib.suppress(exits.Stopped):
            train.train(config, run, EVALUATIONS)
    finally:
        done.set()
        ends.join()
    lines = [line for line in metrics.read(run) if 'train/loss' in line]
    if len(lines) < 2:
        raise ValueError(
            f'{options.seconds:g} s were too short for a speed: only {len(lines)} of the '
            'lines that take five steps each. Give more --seconds.'
        )

    def middle(name):
        values = [line[name] for line in lines if name in line]
        return statistics.median(values) if values else None

    losses = [line['train/loss'] for line in (lines[0], lines[-1])]
    return {
        'preset': preset,
        'rows': config['data']['batch_per_device'],
        'length': LENGTH[preset],
        'steps': lines[-1]['step'],
        'losses': losses,
        'learns': bool(losses[-1] < losses[0]),
        'tokens_per_second': middle('throughput/tokens_per_second'),
        'step_time': middle('throughput/step_time'),
        'mfu': middle('throughput/mfu'),
        'memory_gib': middle('memory/device_peak_gib') or middle('memory/host_gib'),
    }


def _end(run, seconds, done):
    """Asks this process to stop, as a cluster would, so long after its first metrics."""
    told = run / metrics.FILE
    while not (told.exists() and told.stat().st_size) and not done.wait(0.1):
        pass
    if not done.wait(seconds):
        os.kill(os.getpid(), signal.SIGTERM)


def configured(preset, folder):
    """The config of a run of MLM on the bundled corpus; its words are made as many as
    those of the papers where the model is as large as theirs."""
    large = preset != 'toy'
    model = dict(name='transformer', preset=preset, attention='auto')
    if large:
        model |= dict(dtype='bfloat16', remat='names', scan=True, vocab_rows=128_256)
    return dict(
        name='accelerator',
        seed=0,
        steps=10**6,
        prepare=dict(
            source=dict(name='bundled'), tokenizer='bundled', row_length=LENGTH[preset]
        ),
        data=dict(folder=str(Path(folder, 'rows')), row_length=LENGTH[preset])
        | dict(batch_size=0, repeat=True),
        model=model,
        optimizer=dict(name='adamw', b1=0.9, b2=0.95, weight_decay=0.1),
        schedule=dict(name='wsd', peak=5e-4 if large else 3e-3, warmup=20, decay=20),
        clip_norm=1.0,
        accumulate=1,
        stop_after_skips=10,
        mesh=dict(data=-1, fsdp=1, tensor=1),
        log_every=5,
        telemetry=dict(every=0, on_collapse='warn'),
        evaluate=dict(every=0, rate=0.15, max_rows=16),
        checkpoint=dict(every=0, keep=1),
        phases=[dict(objective=dict(name='mlm', rate=0.3))],
    )


def rows_that_fit(config, limit):
    """Rows on a device at a time, by the estimate of `plan`; ValueError for none."""
    room = about()['memory'] or 2**40  # A CPU does not tell.
    data = config['data'] | {'batch_per_device': 1}
    config = config | {'offload': '', 'data': data}
    made = assemble.outline(config, sharding.abstract_mesh(jax.device_count()))
    held = memory.estimate(made, made.phases[0], microbatches=1, fused=True)
    if not (fit := held.max_rows(room)):
        raise ValueError(
            f'No row of {config["model"]["preset"]} fits into {room / 2**30:,.1f} GiB, '
            'which a device has; take --preset=toy.'
        )
    return min(fit, limit)


def _told(what, check):
    """What a check finds, or the error that ended it."""
    began = time.monotonic()
    try:
        found = check()
    # Any error is a finding about this machine, and the other checks have theirs.
    except Exception as error:
        traceback.print_exc()
        found = {'error': f'{type(error).__name__}: {error}'}
    print(f'{what}: {time.monotonic() - began:.1f} s', file=sys.stderr)
    return found


def failures(found):
    """What did not pass, in words."""
    failed = [
        f'{what}: {found[what]["error"]}'
        for what in ('arithmetic', 'attention', 'training')
        if 'error' in found[what]
    ]
    if 'error' not in found['arithmetic']:
        failed += [
            f'arithmetic: {name} is off by {one["off"]:.2g}'
            for name, one in found['arithmetic'].items()
            if not one['off'] <= one['allowed']
        ]
    if 'error' not in found['attention']:
        failed += [
            f'attention: {_asked(one)}: {one["result"]}'
            for one in found['attention']
            if one['result'] != 'right' and not one['result'].startswith('cannot: ')
        ]
    if found['training'].get('learns') is False:
        failed.append(
            'training: the loss did not fall from {} to {}'.format(
                *found['training']['losses']
            )
        )
    return failed


def _asked(one):
    ways = 'causal' if one['causal'] else 'bidirectional'
    ways += '' if one['window'] is None else f', window {one["window"]}'
    return f'{one["backend"]}, {one["dtype"]} x {one["head_width"]}, {ways}'


def show(found, path):
    """A summary for people."""
    print(f'{found["devices"]} x {found["device"]} ({found["platform"]})')
    if 'error' not in found['arithmetic']:
        off = max(one['off'] / one['allowed'] for one in found['arithmetic'].values())
        count = len(found['arithmetic'])
        print(f'arithmetic  {count} programs, at worst {off:.1%} of what is allowed')
    if 'error' not in found['attention']:
        for name in attend.BACKENDS:
            own = [one['result'] for one in found['attention'] if one['backend'] == name]
            right, reasons = (
                own.count('right'),
                dict.fromkeys(result for result in own if result != 'right'),
            )
            print(f'attention   {name}: {right} of {len(own)} right', *reasons, sep='; ')
    if 'error' not in found['training']:
        run = found['training']
        mfu = 'MFU unknown' if run['mfu'] is None else f'MFU {run["mfu"]:.1%}'
        print(
            f'training    {run["preset"]}, {run["rows"]} x {run["length"]}: '
            f'{run["tokens_per_second"] or 0:,.0f} tokens/s, {mfu}, loss '
            f'{run["losses"][0]:.2f} to {run["losses"][1]:.2f} in {run["steps"]} steps'
        )
    for failed in found['failed']:
        print(f'FAILED      {failed}')
    print(path)


if __name__ == '__main__':
    sys.exit(main())
