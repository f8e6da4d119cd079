"""Schedules against published values and optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.optim import schedules
from jepa_text.settings import ranges


def wsd(**lengths):
    return dict(name='wsd', peak=1.0, **lengths)


@pytest.mark.parametrize(
    'name, lengths',
    [
        ('wsd', dict(warmup=0.1, decay=0.2)),
        ('wsd', dict(warmup=0, decay=1)),
        ('wsd', dict(warmup=1, decay=0)),
        ('warmup_cosine', dict(warmup=0.3)),
        ('wsd_twice', dict(first=0.4, warmup=0.1, decay=0.2)),
    ],
)
def test_steps_and_fractions_give_the_same_schedule(name, lengths):
    given = dict(name=name, peak=1.0)
    in_steps = {f'{key}_steps': round(100 * x) for key, x in lengths.items()}
    fractions = {f'{key}_fraction': x for key, x in lengths.items()}
    values = [
        schedules.make(given | spelled, 100)(jnp.arange(100))
        for spelled in (in_steps, fractions, dict.fromkeys(in_steps) | fractions)
    ]
    assert_array_equal(values[1:], [values[0]] * 2)


def test_fractions_whose_sum_is_one_fit_any_number_of_steps():
    """Both may be rounded up."""
    given = dict(name='wsd', peak=1.0, warmup_fraction=0.1, decay_fraction=0.9)
    assert schedules.make(given, 15)(14) == 0
    for steps in range(1, 60):
        for share in np.arange(21) / 20:
            given |= dict(warmup_fraction=share, decay_fraction=1 - share)
            made = ranges.in_steps('schedule', given, steps)
            assert made['warmup_steps'] + made['decay_steps'] <= steps


def test_fractions_are_of_the_schedules_own_steps():
    given = dict(name='wsd', peak=1.0, warmup_steps=0, steps=100)
    made, wanted = (
        schedules.make(given | length, 20)(jnp.arange(100))
        for length in (dict(decay_fraction=0.5), dict(decay_steps=50))
    )
    assert_array_equal(made, wanted)


def wsd_of_optax(peak, warmup, decay, steps):
    parts = [
        optax.linear_schedule(0.0, peak, warmup),
        optax.constant_schedule(peak),
        optax.linear_schedule(peak, 0.0, decay),
    ]
    joined = optax.join_schedules(parts, [warmup, steps - decay])
    # Theirs begins with a step of rate 0 and has no last one: ours is one ahead.
    return lambda step: joined(step + 1)


def warmup_cosine_of_optax(peak, warmup, steps, end):
    rise = optax.linear_schedule(peak / warmup, peak * (1 + 1 / warmup), warmup)
    fall = optax.cosine_decay_schedule(peak, steps - warmup, end / peak)
    return optax.join_schedules([rise, fall], [warmup])


@pytest.mark.parametrize(
    'ours, theirs',
    [
        (schedules.linear(0.2, 0.9, 30), optax.linear_schedule(0.2, 0.9, 30)),
        (schedules.cosine(2.0, 0.5, 30), optax.cosine_decay_schedule(2.0, 30, 0.25)),
        (schedules.constant(0.3), optax.constant_schedule(0.3)),
        (schedules.wsd(0.5, 7, 11, 40), wsd_of_optax(0.5, 7, 11, 40)),
        (
            schedules.warmup_cosine(0.5, 7, 40, end=0.1),
            warmup_cosine_of_optax(0.5, 7, 40, 0.1),
        ),
    ],
    ids=['linear', 'cosine', 'constant', 'wsd', 'warmup_cosine'],
)
def test_values_match_optax(ours, theirs):
    steps = jnp.arange(40)
    found = np.broadcast_to(jax.vmap(ours)(steps), 40)
    assert_allclose(found, [theirs(step) for step in range(40)], atol=1e-6)


@pytest.mark.parametrize(
    'section, words',
    [
        (-1e-3, 'schedule=-0.001 must be a number at least 0'),
        ({'name': 'wdd'}, 'wsd'),
        (wsd(warmup_steps=60, decay_steps=60), '100 steps'),
        (wsd(warmup_steps=0.5, decay_steps=1), 'warmup_steps=0.5 must be an integer at'),
        (wsd(warmup_steps=True, decay_steps=1), 'warmup_steps=True must be an integer'),
        (wsd(warmup_fraction=2, decay_steps=1), 'warmup_fraction=2 must .* at most 1'),
        (wsd(decay_steps=1), "schedule 'wsd' requires 'warmup_steps'"),
        (
            wsd(warmup_steps=1, warmup_fraction=0.1, decay_steps=1),
            "'wsd' has warmup_steps and a fraction: give one of them",
        ),
        (
            wsd(warmup_steps=0, decay_steps=0, first_steps=100) | {'name': 'wsd_twice'},
            'first_steps=100 must be between 0 and 100',
        ),
    ],
)
def test_errors_name_what_is_wrong_in_a_section(section, words):
    with pytest.raises(ValueError, match=words):
        schedules.make(section, 100)


def test_wsd_twice_is_two_runs_of_wsd():
    """Continued pretraining in one run: each part equals a run of its length."""
    made = schedules.wsd_twice(
        0.5, warmup_steps=3, decay_steps=4, first_steps=20, steps=32
    )
    steps = jnp.arange(32)
    both = [schedules.wsd(0.5, *lengths)(steps) for lengths in ((3, 4, 20), (0, 4, 12))]
    one, other = map(np.asarray, both)
    assert_array_equal(made(steps), [*one[:20], *other[:12]])
