"""Attention backends, one per file, with a common interface.

Each file defines

    attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL, *, causal, window)
        -> out_BLHK, in the dtype of `q_BLHK`; differentiable. Called only if the request
        is supported. For a request with `gaps` it also gets positions_BL after order_BL.
    SPLITS
        whether it is made of XLA's operations: these support all requests, and XLA can
        split them over the devices of a mesh by itself. If not, it is a kernel, which is
        called with the rows and heads of one device (`models/attention/split.py`), and
        supports neither an order per row nor windows in rows with gaps.
    RUNS
        whether each run of equal ids is a separate document, even if its id occurred
        earlier in the row. If not, equal ids are one document.
    MULTIPLE
        rows are padded to a multiple of this number of positions; the padding is a
        document of its own.
    KEEPS
        whether what its backward pass needs, the log-sum-exp besides the result, is saved
        under rematerialization, so that the kernel does not run twice. If so, `attend`
        takes `keep`, the name to save it by. If not, only the result is named.

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
