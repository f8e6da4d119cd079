"""`train(config, workdir) -> state`: phases of objectives over one stream of rows.

The config ends here: everything below takes the values that it uses. The same call
again resumes from the newest good checkpoint, exactly: the data cursor is the step,
every random choice is keyed by it, and the metrics after it are written again.
"""

import contextlib

import jax
import jax.numpy as jnp

from jepa_text.data import pipeline
from jepa_text.objectives.latent import diagnostics
from jepa_text.parallel import exits, processes, sharding
from jepa_text.running import ending, identity, xla_flags
from jepa_text.training import begin, switches
from jepa_text.training import recipe as recipes


def run(config, folder, **keywords):
    """The command: `train`, and then, in lines, what is there and what comes next."""
    train(config, folder, **keywords)
    if jax.process_index() == 0 and (lines := ending.lines(folder)):
        print('\n'.join(lines))


def train(config, folder, restart=False, stop=None):
    """Trains, or resumes, the run that `config` describes in the folder.

    Returns the final TrainState. Raises ValueError for a config that cannot run and
    for a folder that belongs to another one, RuntimeError on a machine that computes
    wrongly (running/arithmetic.py), both before anything is written; and exits.Stopped
    when a signal asked to stop and the state is saved. In a job of several processes,
    each makes the same call (`distributed.start` before it). With `restart`, a run of
    which no checkpoint is good begins anew; else that is refused (running/anew.py).
    `stop`: the signals.Requests of a caller who has more to do after the last step.
    """
    xla_flags.mend()
    with contextlib.ExitStack() as stack:
        with exits.refusals():
            config = recipes.plain(config)
            parts, state, meta = begin.begin(config, folder, stack, restart, stop)
        run, recipe = _Run(parts), parts.recipe
        if not meta:
            run.evaluate(state, 0, recipe.phases[0])
            run.measure(state, 0)
        for phase in recipe.phases:
            if phase.index > meta.get('phase', 0):
                state = run.enter(phase, state)
            if phase.stop > int(state.step):
                state = run.phase(phase, state)
        parts.store.wait()
        _check_end(state)
        parts.report.conclude()
        return state


def _check_end(state):
    """Raises Diverged for a run, ended now or before, that did not end well."""

    def finite(params):
        return jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(params)]).all()

    in_row = int(state.skipped_in_row)
    if in_row or not bool(jax.jit(finite)(state.params)):
        what = f'loss or gradient in the last {in_row}' if in_row else 'parameters after'
        raise exits.Diverged(
            f'step {int(state.step)}: the run ended with {what} steps that are not '
            'finite. The state is saved. Look at the data, or begin a new workdir with a '
            'lower schedule.peak.'
        )


class _Run:
    """The loop of one phase, and what happens beside it."""

    def __init__(self, parts):
        self.config, self.recipe, self.store = parts.config, parts.recipe, parts.store
        self.report, self.guard, self.trace = parts.report, parts.guard, parts.trace
        self.stop, self.vote = parts.stop, processes.Vote()
        self.last = parts.recipe.phases[-1].stop
        self.warned, self.running = set(), {}

    def enter(self, phase, state):
        """The state as a phase starts it; says which modules begin anew."""
        for name in switches.begun_anew(self.recipe, phase):
            self.report.say(
                f'phase {phase.index}: {name} begins anew, as its shapes are others than '
                f'those of phase {phase.index - 1}.'
            )
        return switches.enter(self.recipe, phase, state)

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
                self.running = values
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
        """Says what is worth a look, once per phase; of a collapse stops, if asked to."""
        collapse = diagnostics.collapse(values)
        if collapse and self.config['telemetry']['on_collapse'] == 'stop':
            self.save(state, phase, wait=True)
            raise exits.Diverged(
                f'step {number}: {" ".join(collapse.values())} The state is saved.'
            )
        balance = getattr(phase.objective, 'balance', None)
        notes = diagnostics.notes(values, learned=bool(balance and balance.modules()))
        for kind, text in {**collapse, **notes}.items():
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
                'steps': self.recipe.steps,
                # On the disk before the checkpoint that follows them.
                'logged': self.report.sync(),
                **identity.sums(self.config, self.recipe.tokenizer),
                'history': [
                    {'start': p.start, 'stop': min(p.stop, int(state.step)), **section}
                    for p, section in past
                ],
            }
            self.store.save(state, meta, wait=wait)

    def leave(self, number, state, phase):
        """Saves the state of this very step on all processes, and ends the run."""
        with self._pause():
            # A save of this step may be under way, and may fail yet.
            self.store.wait()
        if self.store.last_step != number:
            self.save(state, phase, wait=True)
        raise exits.Stopped(
            f'stopped after step {number:,} of {self.last:,} as asked; the state is '
            'saved, and the same command goes on from it.'
        )

    @contextlib.contextmanager
    def _pause(self):
        """Around work that is no step: the clock stops, the watchdog is patient."""
        self.guard.expect('pause')
        # Steps that still run on the device are no pause.
        jax.block_until_ready(self.running)
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
