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


def __getattr__(name):
    """`jepa_text.load`, imported when it is asked for: of a program that only uses
    losses, importing needs jax alone."""
    if name != 'load':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from jepa_text.pretrained.load import load

    return load
