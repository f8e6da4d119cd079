"""One objective per file: what is hidden, and how it is scored.

`make(tokenizer, length, steps, **section)` gives a frozen dataclass with

    modules(encoder)      {name: module} that it needs beside the encoder
    causal                how its forward attends
    has_target            does it read an EMA copy of the encoder?
    momentum(step)        of that copy, after step `step`
    corrupt(example, rng) a row of the data -> the row + {inputs, loss_mask, ...}, numpy
    counts(batch)         {name: how many positions count} over the whole batch
    loss(apply, params, target, batch, step, counts) -> scalar, {name: scalar}

`step` counts from the start of the objective's phase and `steps` is the length of that
phase. `apply(module, params, *inputs)` runs one module of the network on `params`,
a dict by module name. The batch given to `loss` may be a part of the one that was
counted (gradient accumulation): every scalar returned is this part's share, so that
adding up the parts gives the loss and metrics of the whole batch, and positions weigh
the same on every device and in every part.
"""
