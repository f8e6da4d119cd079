"""Traces of some steps, with the names of the stages."""

import jax
import jax.numpy as jnp
import pytest
from jax.profiler import ProfileData

from jepa_text.running import profiling


def test_the_given_steps_are_recorded(tmp_path):
    step = jax.jit(lambda x: x + 1)
    with profiling.Trace(tmp_path / 'profile', [2, 3]) as trace:
        x = jnp.zeros(())
        for number in range(1, 6):
            x = trace.run(step, number, x)
    assert float(x) == 5
    (path,) = (tmp_path / 'profile').rglob('*.xplane.pb')
    data = ProfileData.from_file(str(path))
    numbers = {
        dict(event.stats)['step_num']
        for plane in data.planes
        for line in plane.lines
        for event in line.events
        if event.name == 'train'
    }
    assert numbers == {2, 3}


def test_a_run_that_ends_first_still_leaves_its_trace(tmp_path):
    with (
        pytest.raises(KeyError),
        profiling.Trace(tmp_path / 'profile', (1, 9)) as trace,
    ):
        trace.run(lambda: 0, 1)
        raise KeyError
    assert list((tmp_path / 'profile').rglob('*.xplane.pb'))


def test_nothing_is_recorded_by_default(tmp_path):
    for steps in ((), [], [0, 0]):
        with profiling.Trace(tmp_path / 'profile', steps) as trace:
            assert trace.run(lambda x: x, 1, 7) == 7
    assert not (tmp_path / 'profile').exists()


@pytest.mark.parametrize('steps', [(3, 2), (0, 5), (4,), (1, 2, 3)])
def test_invalid_steps_raise(steps):
    with pytest.raises(ValueError, match='profile_steps'):
        profiling.Trace('unused', steps)
