"""Any value in config.json either loads the same model or raises naming the key."""

import copy
import json
import math

import draws
import hf_cases
import numpy as np
import pytest
from hf_cases import CASES
from test_hf_import import logits_of, tensors_of

from jepa_text.hf import configs, families, load
from jepa_text.settings import resolve

DEEP = {'a': [{'b': {'c': [None, {}]}}]}
VALUES = (
    *(None, [], ['x'], [1, 2], {}, DEEP, '', 'x', '7', True, False, 0, -1, 7, 10**6),
    *(2**31, 10**30, -(10**30), 0.5, -0.5, 3.0, 1e300, math.nan, math.inf, -math.inf),
)


def corruptions(config):
    """(keys from the outside in, value): every value for every key, nested ones too."""
    for key, value in config.items():
        yield from (((key,), one) for one in VALUES)
        if isinstance(value, dict):
            for inner, one in corruptions(value):
                yield (key, *inner), one


def changed(config, keys, value):
    key, *rest = keys
    return {**config, key: changed(config[key], rest, value) if rest else value}


def whole(case):
    """The config.json of a case with all keys that have defaults."""
    config, _ = CASES[case]
    section, causal = configs.to_section(config), CASES[case][1]
    tied = bool(config.get('tie_word_embeddings'))
    written = configs.to_config(section, config['model_type'], tied, causal)
    return config | written | {'is_causal': causal, 'rope_scaling': None}


def without(config, keys, before):
    """The section if a value is null: derived from other keys, or the default."""
    derived = {
        'num_key_value_heads': {'kv_heads': before['heads']},
        'head_dim': {'head_width': before['width'] // before['heads']},
        'sliding_window': {'window': None},
    }
    if keys[-1] in derived:
        return before | derived[keys[-1]]
    *outer, last = keys
    place = config = json.loads(json.dumps(config))
    for key in outer:
        place = place[key]
    del place[last]
    return configs.to_section(config)


def is_kind_of(value, before):
    """Whether a value has a type that may replace this one."""
    kinds = (bool, str, list, dict, type(None))
    if isinstance(before, kinds):
        return type(value) is type(before)
    return type(value) in (int, float) and 0 <= value < math.inf


def names_key(error, keys):
    """Whether the error names the key, or lists tensors that do not match it."""
    text = str(error)
    return keys[-1] in text or keys[0] in text or 'do not fit the config' in text


def refused(config, keys, value):
    """The section of the changed config, of which there is a model; None if either raised
    an error with the key."""
    try:
        section = configs.to_section(changed(config, keys, value))
        resolve.build('models', section, vocab_size=1)
        return section
    except ValueError as error:
        assert names_key(error, keys), (keys, value, error)
        return None


@pytest.mark.parametrize('case', CASES)
def test_any_value_gives_the_same_section_or_an_error_with_its_key(case):
    """Or another section, if the value is a valid replacement."""
    config = whole(case)
    before, trials = configs.to_section(config), 0
    for keys, value in corruptions(config):
        trials += 1
        found, old = refused(config, keys, value), config
        for key in keys:
            old = old[key]
        if found is None or found == before or is_kind_of(value, old):
            continue
        assert value is None and found == without(config, keys, before), (keys, value)
    assert trials > 400


STRETCHED = dict(rope_type='llama3', factor=2.0, low_freq_factor=1, high_freq_factor=4)


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(rope_parameters=dict(full_attention=STRETCHED)), "'llama3' of full_att"),
        (
            dict(rope_scaling=STRETCHED | {'rope_theta': 7.0}),
            'rope_parameters has rope_sc',
        ),
        (dict(partial_rotary_factor=0.5), 'partial_rotary_factor=0.5'),
        (dict(rope_parameters=dict(rope_theta=7.0)), 'rope_parameters has rope_theta'),
    ],
)
def test_a_modernbert_does_not_stretch_its_positions(changes, words):
    config = whole('modernbert') | {'rope_parameters': None} | changes
    with pytest.raises(ValueError, match=words):
        configs.to_section(config)


@pytest.mark.peer
@pytest.mark.parametrize('family', ['llama', 'qwen3', 'smollm3', 'modernbert'])
@pytest.mark.parametrize(
    'changes',
    [
        dict(),
        dict(rope_theta=5.0),
        dict(rope_scaling=dict(type='default', rope_theta=3.0)),
        dict(rope_parameters=dict(rope_theta=5.0), rope_theta=7.0),
        dict(rope_parameters=dict(rope_theta=5.0), rope_scaling=dict(type='default')),
        dict(rope_parameters=dict(rope_theta=5.0), rope_scaling=STRETCHED),
        dict(rope_scaling=STRETCHED, rope_theta=7.0, original_max_position_embeddings=8),
        dict(
            rope_parameters=STRETCHED | dict(rope_theta=7.0),
            original_max_position_embeddings=16,
        ),
        dict(rope_parameters=dict(full_attention=dict(rope_theta=5.0))),
        dict(rope_parameters=dict(full_attention=dict(rope_theta=5.0), rope_theta=7.0)),
    ],
)
def test_positions_are_those_of_transformers_or_refused(family, changes):
    transformers = pytest.importorskip('transformers')
    config = {k: v for k, v in CASES[family][0].items() if not k.startswith('rope')}
    try:
        section = configs.to_section(copy.deepcopy(config | changes))
    except ValueError as error:
        assert 'rope' in str(error)
        return
    theirs = transformers.AutoConfig.for_model(**copy.deepcopy(config | changes))
    found = theirs.rope_parameters
    if family == 'modernbert':
        thetas = [found[layers]['rope_theta'] for layers in families.LAYER_TYPES]
        assert thetas == [section['rope_theta'], section['local_theta']]
        return
    scaling = section['rope_scaling'] or {}
    assert found['rope_theta'] == np.atleast_1d(section['rope_theta'])[0]
    assert (found['rope_type'] == 'llama3') == bool(scaling)
    stretch = {
        ours: found[theirs] for ours, theirs in families.STRETCH.items() if scaling
    }
    assert stretch == scaling


@pytest.mark.slow
@pytest.mark.parametrize('case', ['llama', 'modernbert'])
def test_any_value_loads_a_finite_model_or_an_error_with_its_key(tmp_path, case):
    config = whole(case)
    path = hf_cases.write(tmp_path, config, tensors_of(case))
    trials = [*corruptions(config)]
    for n in np.random.default_rng(draws.seed()).permutation(len(trials))[:12]:
        keys, value = trials[n]
        (path / 'config.json').write_text(json.dumps(changed(config, keys, value)))
        try:
            assert np.isfinite(logits_of(load.load(path))).all(), (keys, value)
        except ValueError as error:
            assert names_key(error, keys), (keys, value, error)
