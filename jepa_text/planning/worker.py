"""Measures one case of benchmark.py, in a process of its own."""

import itertools
import time

import jax
import numpy as np

from jepa_text.models.attention import attend
from jepa_text.parallel import exits, hardware, sharding
from jepa_text.planning import peer
from jepa_text.running import compilation, xla_flags
from jepa_text.training import config as settings
from jepa_text.training import preflight
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states
from jepa_text.training import step as steps


def measure(case):
    """Builds a case, warms it up and times its steps.

    Returns the `seconds` of a step, peak `memory` in bytes, `tokens` and `flops` per
    step, the `peak` FLOP/s of its devices (0 if unknown), its `library`, `device` and
    `parameters`, and the `attention` backends used. Raises exits.ConfigError if it cannot
    be built here.
    """
    xla_flags.apply()
    # Page faults can take up to half of a step on CPUs (LOG.md).
    if xla_flags.computes_on_cpu():
        xla_flags.keep_freed_memory()
    compilation.use_cache()
    with exits.config_errors():
        work = make(case)
        # Attention backends are chosen while the step is traced.
        with attend.record_requests() as seen:
            work.steps(case['warmup_steps'])
    start = time.perf_counter()
    work.steps(case['steps_a_round'])
    seconds = (time.perf_counter() - start) / case['steps_a_round']
    attention = {attend.choose(name, request) for request, name in seen.items()}
    measured = {'memory': work.memory(), 'attention': sorted(attention)}
    return work.about | {'seconds': seconds} | measured


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
    preflight.batch_size(recipe)
    (phase,) = recipe.phases
    made = batches(case, phase)
    if is_ours:
        work = Ours(recipe, phase, made)
    else:
        work = peer.Peer(case, phase.network.encoder, made)
    work.about |= {
        'tokens': case['rows'] * case['row_length'],
        'flops': recipe.cost(phase).model,
        'peak': jax.device_count() * (hardware.peak(work.about['device']) or 0),
    }
    return work


def batches(case, phase):
    """Four batches of random tokens, masked by the objective; each row is a document."""
    rng = np.random.default_rng(case['seed'])
    length = case['row_length']
    made = []
    for _ in range(4):
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
    """The training step of train.py on batches."""

    def __init__(self, recipe, phase, made):
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
        """Peak memory in bytes of the device, or of the process if it is not reported."""
        known = jax.devices()[0].memory_stats() or {}
        return known.get('peak_bytes_in_use') or peer.process_memory()
