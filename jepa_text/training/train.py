"""`train(config, workdir) -> state`: trains the phases of a run, or resumes it.

    begin.recipe_of          config -> Recipe (recipe.py); locks the workdir
    begin.restore_or_init    the newest good checkpoint, or the first state (state.py)
    for each phase           switches.entered, then one compiled step (step.py) per batch
    result                   the final TrainState

The same call again resumes exactly from the newest good checkpoint: the step number is
the data cursor, every random choice is keyed by it, and metrics logged after that
checkpoint are written again.
"""

import contextlib

import jax
import jax.numpy as jnp

from jepa_text.data import data_position, stream
from jepa_text.parallel import exits, processes, sharding
from jepa_text.running import places, xla_flags
from jepa_text.training import begin, descriptions, switches
from jepa_text.training import step as steps


def train(config, workdir, evaluations=(), stop=None, trunk=None):
    """Trains, or resumes, the run that `config` describes, in the workdir.

    Args:
      config: the config of a run (training/config.py).
      workdir: a folder, or an address on gs://.
      evaluations: further evaluations during training, as in recipe.make.
      stop: the signals.StopRequests of a caller that has more to do after the last step.
      trunk: (workdir, step) of a run that is identical up to that step. A run without
        checkpoints of its own continues from there.

    Returns the final TrainState. Raises ValueError for an invalid config and for a
    workdir that belongs to another config, and RuntimeError on a machine that computes
    wrong results (running/self_test.py), both before anything is written. Raises
    exits.Stopped after a signal, once the state is saved, and exits.Diverged if the run
    diverges. In a job of several processes each process makes the same call, after
    `processes.start`.
    """
    xla_flags.apply()
    with contextlib.ExitStack() as stack:
        with exits.config_errors():
            place = stack.enter_context(places.opened(workdir, is_run=True))
            folder = place.folder
            recipe, watchdog = begin.recipe_of(config, folder, stack, evaluations)
            tools, state, meta = begin.restore_or_init(recipe, place, stack, stop, trunk)
        loop = _Loop(recipe, watchdog, tools)
        if not meta:
            for evaluation in recipe.evaluations:
                loop.evaluate(evaluation, state, 0, recipe.phases[0])
        for phase in recipe.phases:
            if phase.index > meta.get('phase', 0):
                state = loop.enter(phase, state)
            if phase.stop > int(state.step):
                state = loop.train_phase(phase, state)
        tools.store.wait()
        if problem := _problem(state):
            raise exits.Diverged(
                f'step {recipe.steps}: the run ended, but {problem}. The state is saved. '
                'Inspect the data, or start a new workdir with a lower schedule.peak.'
            )
        for line in descriptions.conclusion(recipe, folder):
            tools.report.log(line)
        return state


def batches_of(recipe, phase, start):
    """Returns this process's part of the batches of a phase from step `start` on."""
    index, count = sharding.part_of_batch(recipe.mesh)
    return stream.batches(
        phase.mixture,
        phase.corrupt,
        batch_size=phase.batch_size,
        seed=recipe.seed,
        start=start,
        stop=phase.stop,
        row_of=phase.row,
        process_index=index,
        process_count=count,
    )


def _problem(state):
    """Returns what is wrong with a final state: its last steps were skipped, or it is not
    finite; '' if nothing."""
    if skipped := int(state.skipped_in_row):
        return f'the loss or gradient of the last {skipped} steps was not finite'
    finite = jax.jit(lambda p: [jnp.isfinite(x).all() for x in jax.tree.leaves(p)])
    return '' if all(map(bool, finite(state.params))) else 'the parameters are not finite'


def _is_due(number, every, milestone):
    """Whether what is done every so many steps (0: never) and at milestones is due."""
    return bool(every) and (milestone or number % every == 0)


class _Loop:
    """The training loop of one phase, with logging, evaluation and checkpoints."""

    def __init__(self, recipe, watchdog, tools):
        self.recipe, self.settings, self.watchdog = recipe, recipe.settings, watchdog
        self.store, self.report, self.trace, self.stop, self.send = tools
        self.vote = processes.Vote()
        self.reported = set()  # (phase index, kind) of messages
        self.pending = {}  # metrics of the last step, perhaps still being computed

    def enter(self, phase, state):
        with self._pause():
            return switches.entered(self.recipe, phase, state)

    def train_phase(self, phase, state):
        recipe, clock = self.recipe, self.report.clock
        step = steps.compiled(recipe, phase)
        self.watchdog.pause()
        # On all processes, because a kernel may be tried out for these lines.
        self.report.begin(
            lambda: recipe.cost(phase).model / phase.tokens_per_step,
            descriptions.program(recipe, phase),
        )
        batches = batches_of(recipe, phase, int(state.step))
        saved = self.settings.checkpoint
        with contextlib.closing(batches):
            batch = next(batches)
            for number in range(int(state.step) + 1, phase.stop + 1):
                batch = sharding.put_batch(batch, recipe.mesh)
                state, values = self.trace.run(step, number, state, batch)
                self.pending = values
                self.report.stepped(number, values['train/tokens'])
                if number < phase.stop:
                    # Read the next batch while the device computes this step.
                    with clock.waiting(lambda: not self.pending['train/loss'].is_ready()):
                        batch = next(batches)
                is_kept = number in saved.keep_at_steps
                milestone = is_kept or number == phase.stop
                if _is_due(number, self.settings.log_every_steps, milestone):
                    self.log(number, jax.device_get(values), state, phase)
                self.watchdog.beat()
                for evaluation in recipe.evaluations:
                    if _is_due(number, evaluation.every, milestone):
                        self.evaluate(evaluation, state, number, phase)
                # After the metrics of this step: a resumed run does not write them again.
                is_last = number == recipe.steps
                if is_kept or is_last or _is_due(number, saved.every_steps, milestone):
                    self.save(state, phase, wait=is_last)
                if self.vote(self.stop.requested) and not is_last:
                    self.leave(number, state, phase)
        return state

    def log(self, number, values, state, phase):
        """Writes the metrics of a step. Raises Diverged after too many skipped steps."""
        values = data_position.named_metrics(phase, values)
        read = data_position.epochs(phase, number)
        read['train/total_positions'] = self.recipe.positions_until(number)
        self.report.step(number, values | read)
        for kind, text in phase.objective.notes(values).items():
            self.report_once(phase, kind, f'step {number}: {text}')
        skipped = int(values['train/skipped_in_row'])
        if skipped >= self.settings.stop_after_skips:
            self.save(state, phase, wait=True)
            raise exits.Diverged(
                f'step {number}: the loss or gradient was not finite {skipped} times in '
                'a row. The state before the first of these steps is saved. Inspect the '
                'data, or start a new workdir with a lower schedule.peak; '
                'config.init_from can start it from this state.'
            )

    def report_once(self, phase, kind, text):
        if (phase.index, kind) not in self.reported:
            self.reported.add((phase.index, kind))
            self.report.log(text)

    def evaluate(self, evaluation, state, number, phase):
        """Writes the metrics of an evaluation, or reports why it does not apply."""
        with self._pause():
            if values := evaluation.run(state.params, phase.network):
                self.report.write(number, values)
                return
        self.report_once(
            phase,
            'not scored',
            f'phase {phase.index}: the objective has no lm_head to predict tokens, so it '
            'is not scored on held-out rows.',
        )

    def save(self, state, phase, wait=False):
        with self._pause():
            meta = {
                **self.recipe.meta(phase, int(state.step)),
                'skipped_in_row': int(state.skipped_in_row),
                # Metrics reach the disk before the checkpoint that follows them.
                'logged': self.report.sync(),
            }
            self.send()
            self.store.save(state, meta, wait=wait)

    def leave(self, number, state, phase):
        """Saves the state of this very step on all processes, and raises Stopped."""
        with self._pause():
            # A save of this step may be in progress, and may still fail.
            self.store.wait()
        if self.store.last_step != number:
            self.save(state, phase, wait=True)
        raise exits.Stopped(
            f'stopped after step {number:,} of {self.recipe.steps:,} as requested; the '
            'state is saved. Run the same command again to resume.'
        )

    @contextlib.contextmanager
    def _pause(self):
        """Stops the clock and relaxes the watchdog during work other than steps."""
        self.watchdog.pause()
        # Steps still running on the device do not belong to the pause.
        jax.block_until_ready(self.pending)
        with self.report.clock.paused():
            yield
        self.watchdog.beat()
