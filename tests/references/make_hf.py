"""Makes hf.npz: logits of transformers for every case of tests/hf_cases.py.

    python tests/references/make_hf.py

Needs torch and transformers; says which version it was in the file. Each case holds the
names and shapes of its tensors, and the logits of each document, alone in a batch with
padding.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import hf_cases  # noqa: E402


def model_of(config, is_decoder):
    """The transformers model of a config.json, with the weights of hf_cases."""
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(**config)
    config._attn_implementation = 'eager'
    auto = (
        transformers.AutoModelForCausalLM
        if is_decoder
        else transformers.AutoModelForMaskedLM
    )
    model = auto.from_config(config).eval()
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    tensors = hf_cases.weights(shapes)
    missing = model.load_state_dict(
        {name: torch.tensor(x) for name, x in tensors.items()}, strict=False
    )
    assert not missing.unexpected_keys
    model.tie_weights()
    return model, shapes


def logits_of(model):
    """The logits of each document, read in one padded batch."""
    import torch

    longest = max(map(len, hf_cases.DOCUMENTS))
    tokens = np.zeros((len(hf_cases.DOCUMENTS), longest), np.int64)
    for row, ids in enumerate(hf_cases.DOCUMENTS):
        tokens[row, : len(ids)] = ids
    # No document has the padding token inside.
    mask = torch.tensor(tokens > 0)
    with torch.no_grad():
        logits = model(torch.tensor(tokens), attention_mask=mask.long()).logits.numpy()
    return [logits[i, : len(ids)] for i, ids in enumerate(hf_cases.DOCUMENTS)]


def main():
    import transformers

    arrays, shapes = {}, {}
    for name, (config, is_decoder) in hf_cases.CASES.items():
        model, shapes[name] = model_of(config, is_decoder)
        for index, logits in enumerate(logits_of(model)):
            arrays[f'{name}/{index}'] = logits
    about = json.dumps({'transformers': transformers.__version__, 'shapes': shapes})
    np.savez_compressed(Path(__file__).with_name('hf.npz'), about=about, **arrays)


if __name__ == '__main__':
    main()
