"""`train(config, workdir) -> state`: phases of objectives over one stream of rows.

The config ends here: everything below takes the values that it uses. The same call
again resumes from the newest good checkpoint, exactly: the data cursor is the step,
every random choice is keyed by it, and the metrics after it are written again.
"""

import contextlib
import functools

import jax

from jepa_text import paths, ranges, resolve, sharding, start, telemetry, warm
from jepa_text import recipe as recipes
from jepa_text import state as states
from jepa_text.data import pipeline
from jepa_text.planning import baseline
from jepa_text.running import (
    allocator,
    arithmetic,
    checkpoint,
    compilation,
    distributed,
    exits,
    profiling,
    reporter,
    signals,
    watchdog,
    workdir,
    xla_flags,
)

# What a resumed run may set differently without becoming another run.
MAY_CHANGE = (
    'log_every',
    'checkpoint',
    'evaluate.every',
    'geometry',
    'mesh',
    'data.threads',
    'offload',
    'watchdog',
    'profile_steps',
    'compilation_cache',
    'plan',
)


def train(config, folder):
    """Trains, or resumes, the run that `config` describes in the folder.

    Returns the final TrainState. Raises ValueError for a config that cannot run and
    for a folder that belongs to another one, RuntimeError on a machine that computes
    wrongly (running/arithmetic.py), both before anything is written; and exits.Stopped
    when a signal asked to stop and the state is saved. In a job of several processes,
    each makes the same call (`distributed.start` before it).
    """
    xla_flags.mend()
    allocator.keep_freed_memory()
    config = recipes.plain(config)
    with contextlib.ExitStack() as stack:
        with exits.refusals():
            run, state, meta = _begin(config, folder, stack)
        recipe, store = run.recipe, run.store
        if not meta:
            run.evaluate(state, 0, recipe.phases[0])
            run.measure(state, 0)
        for phase in recipe.phases:
            if phase.index > meta.get('phase', 0):
                state = _enter(recipe, phase, state)
            if phase.stop > int(state.step):
                state = run.phase(phase, state)
        store.wait()
        run.report.conclude()
        return state


def _begin(config, folder, stack):
    """(the run, its state, the meta of the checkpoint or {}): all before the first step.

    What must be left again is entered into the stack.
    """
    # First, as all that follows may wait for other processes.
    paths.local('The workdir', folder)
    guard = stack.enter_context(_guard(config, folder))
    with distributed.together('the config'):
        compilation.use_cache(config['compilation_cache'])
        config = start.complete(config, folder)
        start.check_words(config, folder)
        ranges.config(config)
    config = baseline.matched(config, folder)
    guard.expect('prepare')
    distributed.first(lambda: recipes.prepare_rows(config), 'preparing the rows')
    guard.expect('compile')
    with distributed.together('the recipe'):
        recipe = recipes.make(config)
        trace = profiling.Trace(f'{folder}/profile', config['profile_steps'])
    with distributed.together('the arithmetic of this machine'):
        arithmetic.check()
    distributed.same('The rows or the seeds', recipe.fingerprint)
    with distributed.together('the workdir'):
        stack.enter_context(
            workdir.open_workdir(folder, config, MAY_CHANGE, steps=_steps(config))
        )
    stop = stack.enter_context(signals.Requests())
    store = stack.enter_context(
        checkpoint.Checkpointer(
            f'{folder}/checkpoints', keep=config['checkpoint']['keep']
        )
    )
    state, meta = _start(config, recipe, store, folder)
    distributed.first(
        lambda: recipe.tokenizer.save(f'{folder}/tokenizer.json'), 'the tokenizer'
    )
    report = stack.enter_context(
        reporter.Reporter(
            folder,
            config,
            recipe,
            resumed=int(state.step) if meta else None,
            seconds=meta.get('seconds', 0.0),
        )
    )
    stack.enter_context(trace)
    run = _Run(config, recipe, store, report, guard, trace, stop)
    return run, state, meta


def _steps(config):
    """Where a step must lie before the config is settled; None if it is at once."""
    matched = config['baseline']
    # Times measured for one config are read from the folder, and are none of another's.
    timed = matched != 'none' and matched['by'] == 'time'
    return None if timed else 'checkpoints'


def _guard(config, folder):
    """The watchdog of this process, with a file of its own."""
    index = jax.process_index()
    name = watchdog.FILE if index == 0 else f'{index}-{watchdog.FILE}'
    return resolve.call(
        'watchdog', watchdog.Watchdog, config['watchdog'], path=f'{folder}/{name}'
    )


def _start(config, recipe, store, folder):
    """The state to go on from, and its meta; of a new run, its first one, and {}."""
    found = store.newest_good()
    if found is None:
        phase = recipe.phases[0]
        make = functools.partial(
            states.create, phase.network, phase.objective, recipe.optimizer, recipe.seed
        )
        state = jax.jit(make, out_shardings=recipes.places(recipe, phase))()
        if config.get('start'):
            state = warm.begin(config['start'], recipe, state, folder)
        return state, {}
    step, meta = found
    pipeline.check_fingerprint(meta['fingerprint'], recipe.fingerprint)
    phase = recipe.phases[meta['phase']]
    return store.restore(step, recipes.abstract_state(recipe, phase)), meta


def _enter(recipe, phase, state):
    """The state at the first step of a phase, laid out for it."""
    enter = functools.partial(
        states.enter_phase,
        network=phase.network,
        objective=phase.objective,
        optimizer=recipe.optimizer,
        seed=recipe.seed,
        reset=phase.reset,
    )
    return jax.jit(enter, out_shardings=recipes.places(recipe, phase))(state)


class _Run:
    """The loop of one phase, and what happens beside it."""

    def __init__(self, config, recipe, store, report, guard, trace, stop):
        self.config, self.recipe, self.store = config, recipe, store
        self.report, self.guard, self.trace = report, guard, trace
        self.stop, self.vote = stop, distributed.Vote()
        self.last = recipe.phases[-1].stop
        self.warned = set()

    def phase(self, phase, state):
        """Trains from the state's step to the end of the phase."""
        mesh = self.recipe.mesh
        step = recipes.compiled(self.recipe, phase)
        self.guard.expect('compile')
        self.report.begin(phase)
        clock = self.report.clock
        with contextlib.closing(self._batches(phase, int(state.step))) as batches:
            for number in range(int(state.step) + 1, phase.stop + 1):
                with clock.waiting():
                    batch = next(batches)
                batch = sharding.put_batch(batch, mesh)
                state, values = self.trace.run(step, number, state, batch)
                clock.step(values['train/tokens'])
                if number % self.config['log_every'] == 0 or number == phase.stop:
                    self.log(number, jax.device_get(values), state, phase)
                self.guard.beat()
                if self._due('evaluate', number, phase):
                    self.evaluate(state, number, phase)
                if self._due('geometry', number, phase):
                    self.measure(state, number)
                # After the metrics of this step: a resumed run does not write them again.
                if self._due('checkpoint', number, phase):
                    self.save(state, phase, wait=number == self.last)
                if self.vote(self.stop.asked) and number < self.last:
                    self.leave(number, state, phase)
        return state

    def log(self, number, values, state, phase):
        """Writes the metrics of a step, and stops a run that only skips."""
        self.report.step(number, values)
        self.watch(number, values, state, phase)
        if values['train/skipped_in_row'] >= self.config['stop_after_skips']:
            self.save(state, phase, wait=True)
            raise exits.Diverged(
                f'step {number}: loss or gradient was not finite '
                f'{int(values["train/skipped_in_row"])} times in a row. The state before '
                'the first of them is saved. Look at the data, or begin a new workdir '
                'with a lower schedule.peak; config.start goes on from this one.'
            )

    def watch(self, number, values, state, phase):
        """Says in words what looks like collapse, once per phase; stops if asked to."""
        for kind, text in telemetry.alarms(values).items():
            if self.config['telemetry']['on_collapse'] == 'stop':
                self.save(state, phase, wait=True)
                raise exits.Diverged(f'step {number}: {text} The state is saved.')
            if (phase.index, kind) not in self.warned:
                self.warned.add((phase.index, kind))
                self.report.say(f'step {number}: {text}')

    def evaluate(self, state, number, phase):
        """Held-out losses, written at a step, as far as the phase predicts tokens."""
        evaluator = self.recipe.evaluator
        if evaluator is None:
            return
        if 'lm_head' in phase.network.modules:
            with self._pause():
                values = evaluator.run(state.params, phase.network)
                self.report.write(number, values)
        elif (phase.index, 'unscored') not in self.warned:
            self.warned.add((phase.index, 'unscored'))
            self.report.say(
                f'phase {phase.index}: its objective has no lm_head, which predicts '
                'tokens: not scored on held-out rows.'
            )

    def measure(self, state, number):
        """The geometry of held-out vectors, written at a step."""
        if self.recipe.geometry is not None:
            with self._pause():
                self.report.write(number, self.recipe.geometry.run(state.params))

    def save(self, state, phase, wait=False):
        """A checkpoint of the state, with what it takes to go on from it."""
        with self._pause():
            past = zip(self.recipe.phases[: phase.index + 1], self.config['phases'])
            meta = {
                'phase': phase.index,
                'fingerprint': self.recipe.fingerprint,
                'seconds': self.report.seconds,
                'history': [
                    {'start': p.start, 'stop': min(p.stop, int(state.step)), **section}
                    for p, section in past
                ],
            }
            self.store.save(state, meta, wait=wait)

    def leave(self, number, state, phase):
        """Saves the state of this very step on all processes, and ends the run."""
        if self.store.last_step != number:
            self.save(state, phase, wait=True)
        with self._pause():
            self.store.wait()
        raise exits.Stopped(
            f'stopped after step {number:,} of {self.last:,} as asked; the state is '
            'saved, and the same command goes on from it.'
        )

    @contextlib.contextmanager
    def _pause(self):
        """Around work that is no step: the clock stops, the watchdog is patient."""
        self.guard.expect('pause')
        with self.report.clock.paused():
            yield
        self.guard.beat()

    def _batches(self, phase, start):
        """This process's part of each batch, as the objective of a phase hides it."""
        index, count = sharding.part_of_batch(self.recipe.mesh)
        return pipeline.batches(
            self.recipe.rows,
            phase.corrupt,
            batch_size=self.recipe.batch_size,
            seed=self.recipe.seed,
            start=start,
            process_index=index,
            process_count=count,
            threads=self.config['data'].get('threads'),
        )

    def _due(self, section, number, phase):
        every = self.config[section]['every']
        return bool(every) and (number % every == 0 or number == phase.stop)
