"""The number of members that fit into memory, by the compiler's analysis."""

from types import SimpleNamespace

import examined
import jax
import numpy as np
import pytest

from jepa_text.evaluation import finetune
from jepa_text.evaluation.config import Finetuning
from jepa_text.evaluation.members import fitting, grid
from jepa_text.pretrained import labels, prediction
from jepa_text.running import compilation


class Pretended:
    """A grid.Grid whose step takes this many bytes per member and device, of four."""

    encoder_params = np.zeros(25)  # 200 bytes

    def __init__(self, takes):
        self.takes, self.compiled = takes, []

    def lowered(self, rows, count):
        self.compiled.append(count)
        whole = SimpleNamespace(peak_memory_in_bytes=1000 + self.takes(count // 4))
        for part in ('argument', 'alias', 'output', 'temp'):
            setattr(whole, f'{part}_size_in_bytes', 0)
        return SimpleNamespace(
            compile=lambda: SimpleNamespace(memory_analysis=lambda: whole)
        )


@pytest.mark.parametrize(
    'room, members, wanted',
    [
        (None, 30, 32),
        (None, 3, 4),
        (None, 1, 1),
        (1200 + 800, 30, 32),
        (1200 + 799, 30, 28),
        (1200 + 150, 32, 4),
        (1, 30, 4),
        (1, 1, 1),
    ],
)
def test_the_width_fits_memory_evenly_on_devices(monkeypatch, room, members, wanted):
    """All four devices are used: copies that pad a group are trained but not returned."""
    monkeypatch.setattr(fitting, 'memory_limit', lambda: room)
    monkeypatch.setattr(jax, 'device_count', lambda: 4)
    made = Pretended(lambda alone: 100 * alone)
    assert fitting.width(made, [], members) == wanted
    assert len(made.compiled) <= 3
    # If memory grows superlinearly, smaller widths are tried until one fits.
    found = fitting.width(Pretended(lambda alone: 3 * alone**2), [], members)
    if room and found > 4:
        assert 1200 + 3 * (found // 4) ** 2 <= room


@pytest.mark.slow
def test_each_member_adds_parameters_moments_and_gradients():
    kind = labels.Labels(labels=('land', 'sea'))
    rows = kind.rows(prediction.reader(examined.model()), examined.sea_or_land(20))
    recipe = Finetuning(steps=2, batch_size=4)
    made = grid.Grid(examined.model(depth=1), kind, recipe)
    members = [grid.Member(1e-3, 0)]
    params, *_ = made._fresh(members, made._used_tokens(rows))
    own = sum(x.nbytes for x in jax.tree.leaves(params))
    peaks = [compilation.peak(made.lowered(rows, n).compile()) for n in (1, 2, 4)]
    assert peaks[1] - peaks[0] > 3 * own
    assert peaks[2] < peaks[1]  # of the four devices each has one


def test_the_memory_limit_is_that_of_the_smallest_device(monkeypatch):
    assert fitting.memory_limit() is None  # of a CPU

    class Device:
        def __init__(self, limit):
            self.memory_stats = lambda: {'bytes_limit': limit}

    monkeypatch.setattr(jax, 'devices', lambda: [Device(1000), Device(500)])
    assert fitting.memory_limit() == 460


@pytest.mark.slow
def test_an_examination_trains_as_many_members_as_fit(monkeypatch):
    monkeypatch.setattr(fitting, 'memory_limit', lambda: 1)
    monkeypatch.setattr(jax, 'device_count', lambda: 1)
    given = examined.model(depth=1), examined.labeled(), Finetuning(steps=1, batch_size=4)
    assert finetune.Examination(*given).width(3) == 1
