"""`train(config, workdir) -> state`: phases of objectives over one stream of rows.

The config ends where it becomes a Recipe (build.py); all below takes the values that it
uses. The same call again resumes from the newest good checkpoint, exactly: the data
cursor is the step, every random choice is keyed by it, and the metrics after it are
written again.
"""

import contextlib

import jax
import jax.numpy as jnp

from jepa_text.data import stream
from jepa_text.parallel import exits, processes, sharding
from jepa_text.report import frequencies
from jepa_text.running import metrics, mirror, xla_flags
from jepa_text.training import (
    begin,
    build,
    data_position,
    descriptions,
    programs,
    switches,
)
from jepa_text.training import recipe as recipes


def train(config, workdir, evaluations=(), restart=False, stop=None, trunk=None):
    """Trains, or resumes, the run that `config` describes in the workdir.

    `evaluations` run beside the steps: pairs of a section of the config and what makes
    one of it, as evals.EVALUATIONS.
    Returns the final TrainState. Raises ValueError for a config that cannot run and
    for a folder that belongs to another one, RuntimeError on a machine that computes
    wrongly (running/self_test.py), both before anything is written; and exits.Stopped
    when a signal asked to stop and the state is saved. In a job of several processes,
    each makes the same call (`processes.start` before it). With `restart`, a run of
    which no checkpoint is good begins anew; else that is refused (fresh_start.py).
    `stop`: the signals.Requests of a caller who has more to do after the last step.
    `trunk`: (workdir, step) of a run that did the same up to that step; a run that has
    saved nothing goes on from there.
    A workdir at an address, or a mirror.Part, is worked on in a copy.
    """
    xla_flags.mend()
    with contextlib.ExitStack() as stack:
        with exits.refusals():
            place = stack.enter_context(mirror.opened(workdir))
            folder = place.folder
            recipe, guard = build.build(config, folder, stack, evaluations)
            tools, state, meta = begin.begin(
                recipe, folder, stack, restart, stop, place.save, trunk
            )
            place.begin()
        run = _Run(recipe, guard, tools)
        if not meta:
            for evaluation in recipe.evaluations:
                run.evaluate(evaluation, state, 0, recipe.phases[0])
        for phase in recipe.phases:
            if phase.index > meta.get('phase', 0):
                state = run.enter(phase, state)
            if phase.stop > int(state.step):
                state = run.phase(phase, state)
        tools.store.wait()
        _check_end(state)
        for line in _judgment(recipe, folder):
            tools.report.say(line)
        return state


def _judgment(recipe, workdir):
    """How the last evaluation compares with token frequencies, in lines."""
    if jax.process_index():
        return []
    _, values = metrics.newest(workdir, frequencies.PREFIX)
    able = [phase for phase in recipe.phases if 'lm_head' in phase.network.modules]
    objective = able[-1].section['objective'] if able else {'name': 'mlm'}
    return frequencies.sentences(values, frequencies.kind_of(objective))


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

    def __init__(self, recipe, guard, tools):
        self.recipe, self.loop, self.guard = recipe, recipe.loop, guard
        self.store, self.report, self.trace = tools.store, tools.report, tools.trace
        self.stop, self.vote = tools.stop, processes.Vote()
        self.last = recipe.phases[-1].stop
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
        recipe, clock = self.recipe, self.report.clock
        step = programs.compiled(recipe, phase)
        self.guard.expect('compile')
        # On all processes: a kernel may be tried out for the lines.
        self.report.begin(
            lambda: recipes.cost(recipe, phase).model / phase.tokens_per_step,
            descriptions.attending(recipe, phase),
        )
        with contextlib.closing(self._batches(phase, int(state.step))) as batches:
            batch = next(batches)
            for number in range(int(state.step) + 1, phase.stop + 1):
                batch = sharding.put_batch(batch, recipe.mesh)
                state, values = self.trace.run(step, number, state, batch)
                self.running = values
                clock.step(values['train/tokens'])
                if number < phase.stop:
                    # While the device computes.
                    with clock.waiting(self.computes):
                        batch = next(batches)
                ends = number == phase.stop or number in self.loop.keep_at
                if ends or number % self.loop.log_every == 0:
                    self.log(number, jax.device_get(values), state, phase)
                self.guard.beat()
                for evaluation in recipe.evaluations:
                    if evaluation.every and (ends or number % evaluation.every == 0):
                        self.evaluate(evaluation, state, number, phase)
                # After the metrics of this step: a resumed run does not write them again.
                if self.saves(number, phase):
                    self.save(state, phase, wait=number == self.last)
                if self.vote(self.stop.asked) and number < self.last:
                    self.leave(number, state, phase)
        return state

    def computes(self):
        """Has the device not yet ended the last step?"""
        return not jax.tree.leaves(self.running)[0].is_ready()

    def log(self, number, values, state, phase):
        """Writes the metrics of a step, and stops a run that only skips."""
        values = data_position.told(phase, values)
        seen = {'train/total_tokens': self.recipe.tokens_until(number)}
        self.report.step(
            number, {**values, **seen, **data_position.epochs(phase, number)}
        )
        self.watch(number, values, state, phase)
        if values['train/skipped_in_row'] >= self.loop.stop_after_skips:
            self.save(state, phase, wait=True)
            raise exits.Diverged(
                f'step {number}: loss or gradient was not finite '
                f'{int(values["train/skipped_in_row"])} times in a row. The state before '
                'the first of them is saved. Look at the data, or begin a new workdir '
                'with a lower schedule.peak; config.init_from goes on from this one.'
            )

    def watch(self, number, values, state, phase):
        """Says what is worth a look, once per phase; of a collapse stops, if asked to."""
        collapse = phase.objective.collapse(values)
        if collapse and self.loop.stop_at_collapse:
            self.save(state, phase, wait=True)
            raise exits.Diverged(
                f'step {number}: {" ".join(collapse.values())} The state is saved.'
            )
        for kind, text in {**collapse, **phase.objective.notes(values)}.items():
            self.say_once(phase, kind, f'step {number}: {text}')

    def say_once(self, phase, kind, text):
        """Says something of a kind, if it was not said in this phase."""
        if (phase.index, kind) not in self.warned:
            self.warned.add((phase.index, kind))
            self.report.say(text)

    def evaluate(self, evaluation, state, number, phase):
        """What an evaluation measures, written at a step; or why it has nothing."""
        if reason := evaluation.why_not(phase.network):
            self.say_once(phase, reason, f'phase {phase.index}: {reason}')
            return
        with self._pause():
            self.report.write(number, evaluation.run(state.params, phase.network))

    def saves(self, number, phase):
        """Is a checkpoint due after this step?"""
        every = self.loop.save_every
        regular = every and (number % every == 0 or number == phase.stop)
        return bool(regular) or number in self.loop.keep_at

    def save(self, state, phase, wait=False):
        """A checkpoint of the state, with what it takes to go on from it."""
        with self._pause():
            meta = {
                **recipes.meta(self.recipe, phase, int(state.step)),
                'seconds': self.report.seconds,
                # On the disk before the checkpoint that follows them.
                'logged': self.report.sync(),
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
        """This process's part of each batch, as the objective of a phase masks it."""
        index, count = sharding.part_of_batch(self.recipe.mesh)
        return stream.batches(
            phase.mixture,
            phase.corrupt,
            batch_size=phase.batch_size,
            seed=self.recipe.seed,
            start=start,
            cursor=phase.cursor,
            process_index=index,
            process_count=count,
            threads=self.loop.threads,
        )
