"""A cached result is reused unless it is damaged or of another config."""

import math

from jepa_text.study import cached_result


def counted():
    """Returns a function that counts its calls."""
    calls = []

    def compute():
        calls.append(1)
        return {'loss': 5.25, 'none': math.nan, 'of': (1, 2)}

    return compute, calls


def test_results_are_computed_once_per_config(tmp_path):
    compute, calls = counted()
    path = tmp_path / 'new' / 'x.json'
    first = cached_result.get_or_compute(path, {'a': (1,)}, compute)
    again = cached_result.get_or_compute(path, {'a': [1]}, compute)
    assert len(calls) == 1 and str(first) == str(again) and first['of'] == [1, 2]
    cached_result.get_or_compute(path, {'a': [2]}, compute)
    assert len(calls) == 2


def test_damaged_bytes_are_detected(tmp_path, capsys):
    compute, calls = counted()
    path = tmp_path / 'x.json'
    cached_result.get_or_compute(path, {'a': 1}, compute)
    whole = path.read_bytes()
    # Changes of white space are not damage.
    places = [at for at in range(len(whole)) if not whole[at : at + 1].isspace()]
    for number, at in enumerate(places[::7], start=2):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cached_result.get_or_compute(path, {'a': 1}, compute)['loss'] == 5.25
        assert len(calls) == number
        assert f'{path} is damaged' in capsys.readouterr().out
    path.write_bytes(whole[: len(whole) // 2])
    cached_result.get_or_compute(path, {'a': 1}, compute)
    assert len(calls) == number + 1
    assert path.read_bytes() == whole
