"""Pretraining, fine-tuning and analysis of text encoders in JAX.

Data flows in one direction:

    text -> rows -> batch -> hidden -> loss -> state -> checkpoint -> evaluation -> plots

Array names end in their shape: one letter per axis, the same letters everywhere,
including einsum strings:

    B batch      L length              V vocabulary    D width      F features
    H heads      G key/value heads     K head width, or components of a fit
    M selected positions or examples   N all positions or examples
    C classes or columns               J blocks        P table rows
    R repeats    S samples             T targets       X contexts
    1 a broadcast axis                 2 the two elements of a pair

For example, `hidden_BLD` has shape [batch, length, width] and `mask_B1LL` broadcasts over
heads. Importing this package imports none of its modules.
"""

import importlib

# The public names, imported when they are asked for: a program that only uses losses
# needs jax alone.
_PUBLIC = {
    'load': 'pretrained.load',
    'config': 'api',
    'train': 'api',
    'steps': 'training.own_loop',
    'evaluate': 'api',
    'analyze': 'api',
    'Run': 'api',
}


def __getattr__(name):
    """Imports a public name, as `jepa_text.load`, or a module, as `jepa_text.losses`."""
    if name in ('losses', 'sklearn'):
        return importlib.import_module(f'{__name__}.{name}')
    if name not in _PUBLIC:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    module = importlib.import_module(f'{__name__}.{_PUBLIC[name]}')
    return getattr(module, name)


def __dir__():
    return sorted({*globals(), *_PUBLIC, 'losses', 'sklearn'})
