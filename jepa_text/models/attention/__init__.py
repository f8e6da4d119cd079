"""One way to compute attention per file.

A file has

    why_not(request) -> str
        '' if it can do what the `attention.Request` asks for; else why not, in words.
    attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL, *, causal, window)
        -> out_BLHK, in the dtype of `q_BLHK`; differentiable. Called only if it can.
        Of a request with `gaps` it gets positions_BL, too, after order_BL.
    SPLITS
        whether XLA splits it over the devices of a mesh by itself. If not, it is given
        the rows and heads of one device (`models/attention/split.py`).
    RUNS
        whether each run of equal ids is a document of its own, though its id may have
        come before in the row. If not, equal ids are one document.
    MULTIPLE
        rows come padded to a multiple of so many positions; what is added is a document
        of its own.
    KEEPS
        whether what its backward pass wants, the log-sum-exp beside the result, is kept
        under rematerialization, so that the kernel does not run twice. If so, `attend`
        takes `keep`, the name to keep it by. If not, the result alone is named.

and may have `fits(segment_ids_BL) -> bool`, on the device, where what it can do depends
on what is in the rows: rows that do not fit go to `blockwise`. Where it is known how many
documents a row has at most (`attend.of_documents`), `attend` takes them as `documents`
instead, and all rows fit.

The scale is K**-0.5 of the true head width K, the softmax is float32, and every position
sees itself at least. None may let one document change another.
"""
