"""Child process that measures one benchmark case; started by benchmark.py.

Reads a case as JSON, builds it, warms it up, and responds with `seconds` per step, peak
`memory` in bytes, `tokens` and `flops` per step, the `peak` FLOP/s of its devices, its
`library`, `device` and `parameters`, and the `attention` backends used; or with an
`error`.
"""

import dataclasses
import itertools
import resource
import time
import traceback

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.cost import hardware
from jepa_text.models.attention import attend
from jepa_text.parallel import sharding
from jepa_text.planning import child, peer
from jepa_text.running import compilation, xla_flags
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states
from jepa_text.training import step as steps


def main():
    """Responds to the case on stdin."""
    child.serve(respond)


def respond(case):
    """The result of `measure`, or the `error` of a device, such as lack of memory."""
    try:
        return measure(case)
    except RuntimeError as error:
        traceback.print_exc()
        return {'error': str(error).partition('\n')[0]}


def measure(case):
    """Builds a case and measures its steps after warmup; an `error` with
    `unsupported=True` if the case cannot be built."""
    try:
        keeps = case['side'] == 'ours' or case['peer_keeps_memory']
        if keeps and xla_flags.computes_on_cpu():
            xla_flags.keep_freed_memory()
        if case['side'] == 'ours':
            compilation.use_cache(case['compilation_cache'])
        work = make(case)
        # Attention backends are chosen while the step is traced.
        with attend.record_requests() as seen:
            work.steps(case['warmup'])
    except (ValueError, ImportError) as error:
        return {'error': str(error), 'unsupported': True}
    start = time.perf_counter()
    work.steps(case['steps_a_round'])
    seconds = (time.perf_counter() - start) / case['steps_a_round']
    attending = {attend.choose(name, request) for request, name in seen.items()}
    found = {'seconds': seconds, 'memory': work.memory(), 'attention': sorted(attending)}
    if case['trace']:
        with jax.profiler.trace(case['trace']):
            work.steps(2)
    return work.about | found


def make(case):
    """The training step of a case: ours, or that of transformers on the same batches.

    Raises ValueError or ImportError if it cannot be built.
    """
    is_ours = case['side'] == 'ours'
    shared = ('seed', 'model', 'optimizer', 'schedule', 'clip_norm', 'accumulate')
    config = {key: case[key] for key in (*shared, 'telemetry')} | {
        'steps': 10_000,
        'data': {'row_length': case['row_length'], 'batch_size': case['rows']},
        'phases': [{'objective': case['objective']}],
    }
    recipe = recipes.outline(
        settings.plain(config),
        # transformers runs on one device.
        sharding.make_mesh(**case['mesh'] if is_ours else {}),
        # Tokens are random, so any vocabulary size works with the bundled tokenizer.
        case['vocab_size'],
    )
    (phase,) = recipe.phases
    made = batches(case, phase)
    if is_ours:
        work = Ours(recipe, phase, made, case['metrics'])
    else:
        work = peer.Peer(case, phase.network.encoder, made)
    work.about |= {
        'tokens': case['rows'] * case['row_length'],
        'flops': recipe.cost(phase).model,
        'peak': jax.device_count() * peak(work.about['device']),
    }
    return work


def peak(device_kind):
    """Peak FLOP/s of a device: from its data sheet, or for a CPU the fastest of six
    measured matrix products; 0 if unknown."""
    if 'cpu' not in device_kind:
        return hardware.peak(device_kind) or 0
    x = jnp.ones((2048, 2048))
    product = jax.jit(jnp.matmul)
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        product(x, x).block_until_ready()
        seconds.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(seconds)


def batches(case, phase, count=4):
    """`count` batches of random tokens, masked by the objective; each row is one
    document."""
    rng = np.random.default_rng(case['seed'])
    length = case['row_length']
    made = []
    for _ in range(count):
        rows = []
        for _ in range(case['rows']):
            tokens_L = rng.integers(8, case['vocab_size'], length).astype(np.int32)
            row = {
                'tokens': tokens_L,
                'segment_ids': np.ones(length, np.int32),
                'positions': np.arange(length, dtype=np.int32),
            }
            rows.append(phase.corrupt(row, rng, 0))
        made.append({key: np.stack([row[key] for row in rows]) for key in rows[0]})
    return made


class Ours:
    """The training step of train.py on batches; without `metrics` it has none."""

    def __init__(self, recipe, phase, made, metrics):
        if not metrics:
            step = phase.step
            phase = dataclasses.replace(phase, step=lambda *given: (step(*given)[0], {}))
        self._state = states.first(recipe, phase)
        self._step = steps.compiled(recipe, phase)
        self._mesh, self._batches = recipe.mesh, itertools.cycle(made)
        self.about = {
            'library': f'jax {jax.__version__}',
            'device': jax.devices()[0].device_kind,
            'parameters': sum(x.size for x in jax.tree.leaves(self._state.params)),
        }

    def steps(self, count):
        """Runs `count` steps and waits until the device has finished."""
        for _ in range(count):
            batch = sharding.put_batch(next(self._batches), self._mesh)
            self._state, _ = self._step(self._state, batch)
        jax.block_until_ready(self._state)

    def memory(self):
        """Peak memory in bytes of the device, or of the process if the device does not
        report it."""
        known = jax.devices()[0].memory_stats() or {}
        if 'peak_bytes_in_use' in known:
            return known['peak_bytes_in_use']
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == '__main__':
    main()
