"""Pretrain text encoders in JAX, and tell the truth about them.

Data flows one way:

    text -> rows -> batch -> hidden -> loss -> state -> checkpoint -> evaluation -> plots

Arrays are named after their shape. One letter an axis, the same letter everywhere,
also in einsum strings:

    B batch     L length    V vocabulary   D width       F feed-forward width
    H heads     G key/value heads          K head width  M positions in the loss
    N examples  S members of a sweep       1 a broadcast axis

So `hidden_BLD` is [batch, length, width] and `mask_B1LL` broadcasts over heads.
Importing this package imports nothing else.
"""
