"""`train(config, workdir) -> state`: phases of objectives over one stream of rows.

The config ends here: everything below takes the values that it uses. The same call
again resumes from the newest good checkpoint, exactly: the data cursor is the step,
every random choice is keyed by it, and the metrics after it are written again.
"""

import contextlib
import functools

import jax

from jepa_text import checkpoint, console, metrics, sharding, telemetry, workdir
from jepa_text import recipe as recipes
from jepa_text import state as states
from jepa_text.data import pipeline

# What a resumed run may set differently without becoming another run.
MAY_CHANGE = ('log_every', 'checkpoint', 'evaluate.every', 'mesh', 'data.threads')


def train(config, folder):
    """Trains, or resumes, the run that `config` describes in the folder.

    Returns the final TrainState. Raises ValueError for a config that cannot run and
    for a folder that belongs to another one, before anything is written.
    """
    config = recipes.plain(config)
    with contextlib.ExitStack() as stack:
        recipe = recipes.make(config)
        stack.enter_context(workdir.open_workdir(folder, config, MAY_CHANGE))
        store = stack.enter_context(
            checkpoint.Checkpointer(
                f'{folder}/checkpoints', keep=config['checkpoint']['keep']
            )
        )
        state, index = _start(recipe, store)
        started = int(state.step)
        total = recipe.phases[-1].stop
        if jax.process_index() == 0:
            recipe.tokenizer.save(f'{folder}/tokenizer.json')
        writer = stack.enter_context(
            metrics.Writer(folder, resume_step=started if index is not None else -1)
        )
        progress = stack.enter_context(
            console.Progress(config['name'], total, start=started)
        )
        run = _Run(config, recipe, store, writer, progress)
        if index is None:
            run.evaluate(state, 0)
            index = 0
        for phase in recipe.phases:
            if phase.index > index:
                state = _enter(recipe, phase, state)
            if phase.stop > int(state.step):
                state = run.phase(phase, state)
            index = max(index, phase.index)
        store.wait()
        return state


def _start(recipe, store):
    """The state to go on from, and its phase; None as phase for a fresh start."""
    found = store.newest_good()
    if found is None:
        phase = recipe.phases[0]
        places = jax.tree.map(
            lambda leaf: leaf.sharding, recipes.abstract_state(recipe, phase)
        )
        make = functools.partial(
            states.create, phase.network, phase.objective, recipe.optimizer, recipe.seed
        )
        return jax.jit(make, out_shardings=places)(), None
    step, meta = found
    pipeline.check_fingerprint(meta['fingerprint'], recipe.fingerprint)
    phase = recipe.phases[meta['phase']]
    return store.restore(step, recipes.abstract_state(recipe, phase)), phase.index


def _enter(recipe, phase, state):
    """The state at the first step of a phase, laid out for it."""
    places = jax.tree.map(
        lambda leaf: leaf.sharding, recipes.abstract_state(recipe, phase)
    )
    enter = functools.partial(
        states.enter_phase,
        network=phase.network,
        objective=phase.objective,
        optimizer=recipe.optimizer,
        seed=recipe.seed,
        reset=phase.reset,
    )
    return jax.jit(enter, out_shardings=places)(state)


class _Run:
    """The loop of one phase, and what happens beside it."""

    def __init__(self, config, recipe, store, writer, progress):
        self.config, self.recipe, self.store = config, recipe, store
        self.writer, self.progress = writer, progress
        self.clock = metrics.Throughput(devices=jax.device_count())
        self.warned = set()

    def phase(self, phase, state):
        """Trains from the state's step to the end of the phase."""
        config, mesh = self.config, self.recipe.mesh
        places = jax.tree.map(
            lambda leaf: leaf.sharding, recipes.abstract_state(self.recipe, phase)
        )
        step = jax.jit(
            phase.step,
            in_shardings=(places, sharding.batch_sharding(mesh)),
            out_shardings=(places, sharding.replicated(mesh)),
            donate_argnums=0,
        )
        self.clock.restart()
        batches = pipeline.batches(
            self.recipe.rows,
            phase.corrupt,
            batch_size=self.recipe.batch_size,
            seed=self.recipe.seed,
            start=int(state.step),
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        with contextlib.closing(batches):
            for number in range(int(state.step) + 1, phase.stop + 1):
                with self.clock.waiting():
                    batch = next(batches)
                # Every process has as many rows; padding is not counted.
                tokens = int((batch['segment_ids'] > 0).sum()) * jax.process_count()
                state, values = step(state, sharding.put_batch(batch, mesh))
                self.clock.step(tokens)
                if number % config['log_every'] == 0 or number == phase.stop:
                    self.log(number, jax.device_get(values), state, phase)
                if self._due('evaluate', number, phase):
                    self.evaluate(state, number)
                # After the metrics of this step: a resumed run does not write them again.
                if self._due('checkpoint', number, phase):
                    self.save(state, phase, wait=number == self.recipe.phases[-1].stop)
        return state

    def log(self, number, values, state, phase):
        """Writes the metrics of a step, and stops a run that only skips."""
        rates = self.clock.window()
        self.writer.write(number, {**values, **rates})
        self.progress.update(
            number,
            loss=values['train/loss'],
            tokens_per_second=rates.get('throughput/tokens_per_second'),
        )
        self.watch(number, values, state, phase)
        if values['train/skipped_in_row'] >= self.config['stop_after_skips']:
            self.save(state, phase, wait=True)
            raise FloatingPointError(
                f'step {number}: loss or gradient was not finite '
                f'{int(values["train/skipped_in_row"])} times in a row. The state before '
                'the first of them is saved. Lower schedule.peak, or look at the data.'
            )

    def watch(self, number, values, state, phase):
        """Says in words what looks like collapse, once per phase; stops if asked to."""
        for kind, text in telemetry.alarms(values).items():
            if self.config['telemetry']['on_collapse'] == 'stop':
                self.save(state, phase, wait=True)
                raise FloatingPointError(f'step {number}: {text} The state is saved.')
            if (phase.index, kind) not in self.warned:
                self.warned.add((phase.index, kind))
                self.progress.log(f'step {number}: {text}')

    def evaluate(self, state, number):
        """Held-out losses, written at a step."""
        if self.recipe.evaluator is not None:
            with self.clock.paused():
                self.writer.write(number, self.recipe.evaluator.run(state.params))

    def save(self, state, phase, wait=False):
        """A checkpoint of the state, with what it takes to go on from it."""
        with self.clock.paused():
            meta = {
                'phase': phase.index,
                'fingerprint': self.recipe.fingerprint,
                'history': [
                    {
                        'start': past.start,
                        'stop': min(past.stop, int(state.step)),
                        **section,
                    }
                    for past, section in zip(
                        self.recipe.phases[: phase.index + 1], self.config['phases']
                    )
                ],
            }
            self.store.save(state, meta, wait=wait)

    def _due(self, section, number, phase):
        every = self.config[section]['every']
        return bool(every) and (number % every == 0 or number == phase.stop)
