"""How far an analysis is: the parts that are done, and what the present one is doing."""

from jepa_text.evaluation import controls


class Telling:
    """Shows parts on a console.Progress, or nothing without one."""

    def __init__(self, progress=None):
        self._progress, self._done, self._part = progress, 0, ''

    def part(self, *names):
        """A part begins, such as a model on a task."""
        self._part = ', '.join(filter(None, names))
        self._show('')

    def within(self, what):
        """What the present part is doing, as 'vectors of 640 of 2,500 texts'."""
        self._show(f': {what}')

    def done(self):
        """The present part is done."""
        self._done += 1
        self._show('')

    def say(self, text):
        """A line of its own."""
        if self._progress is not None:
            self._progress.log(text)

    def _show(self, more):
        if self._progress is not None:
            self._progress.update(self._done, description=f'{self._part}{more}')


def parts(config, tasks):
    """How many parts an analysis has: each model and control on each task, the control
    without a model, then likeness and the comparison."""
    of_a_model = (controls.UNTRAINED, controls.BAG)
    kinds = 1 + sum(name in config['controls'] for name in of_a_model)
    counted = controls.TF_IDF in config['controls']
    return len(tasks) * (len(config['models']) * kinds + counted) + 2
