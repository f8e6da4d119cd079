"""Pretrain text encoders in JAX, and tell the truth about them.

Data flows one way:

    text -> rows -> batch -> hidden -> loss -> state -> checkpoint -> evaluation -> plots

Arrays are named after their shape. One letter an axis, the same letter everywhere,
also in einsum strings:

    B batch      L length              V vocabulary    D width      F features
    H heads      G key/value heads     K width of a head, or components of a fit
    M positions or examples that are chosen            N all of them
    C classes or columns               J blocks        P prototypes or table rows
    R repeats    S samples             T targets       X contexts
    1 a broadcast axis                 2 the two of a pair

So `hidden_BLD` is [batch, length, width] and `mask_B1LL` broadcasts over heads.
Importing this package imports nothing else.
"""
