"""Attention backends, one per file, with a common interface.

Each file defines

    attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *, causal, window, keep=None)
        -> out_BLHK, in the dtype of `q_BLHK`; differentiable. Called only if the request
        is supported. `keep` is the name by which the result and what else the backward
        pass needs, such as the log-sum-exp, are saved under rematerialization, so that a
        kernel does not run twice.
    SPLITS
        whether it is made of XLA's operations: these support all requests, and XLA can
        split them over the devices of a mesh by itself. They also take order_BL=None and
        positions_BL=None, the latter for a request with `gaps`. If not, it is a kernel,
        which is called with the rows and heads of one device
        (`models/attention/split.py`), and supports neither.
    MULTIPLE
        rows are padded to a multiple of this number of positions; the padding is a
        document of its own.

and a kernel

    PLATFORM, CAPABILITY, DTYPES
        the platform, the least compute capability, and the dtypes that it supports.

and may define `why_not(request)`, which returns '' if it supports the rest of the
`attention.Request`, else the reason why not; and `fits(segment_ids_BL) -> bool`, computed
on the device, if its support depends on the contents of the rows: rows that do not fit
are computed by `blockwise`. If the maximum number of documents per row is known
(`attend.with_max_documents`), `attend` gets it as `documents` instead, and all rows fit.

The scale is K**-0.5 with the true head width K, the softmax is float32, and each position
attends at least to itself. No backend may let one document affect another.
"""
