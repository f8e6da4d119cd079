"""Tiny models of every family that is read, with their odd flags on: config.json and
weights, made from names and shapes alone, so that nothing of them need be kept."""

import json
import zlib
from pathlib import Path

import numpy as np
import tokenizers
from safetensors.numpy import save_file

V = 40
WORDS = ['<pad>', '<bos>', '<eos>', '<mask>', *(f'w{i}' for i in range(4, V))]
DOCUMENTS = [
    np.array([1, 9, 23, 31, 7, 7, 12, 38, 20, 5, 2], np.int32),
    np.array([1, 30, 6, 17, 25, 11, 2], np.int32),
]

_SIZES = dict(
    vocab_size=V,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    max_position_embeddings=64,
)
_LLAMA = dict(num_key_value_heads=2, rms_norm_eps=1e-5)
_STRETCHED = dict(
    rope_type='llama3',
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)


def _rope(theta):
    return dict(rope_type='default', rope_theta=theta)


# {name, which begins with the model_type: what config.json has beside the sizes}
DECODERS = {
    'llama': dict(
        head_dim=12,
        attention_bias=True,
        mlp_bias=True,
        rope_parameters=_STRETCHED | dict(rope_theta=500.0),
    ),
    'llama_tied': dict(tie_word_embeddings=True, rope_theta=1e3),
    'mistral': dict(head_dim=12, sliding_window=3, rope_parameters=_rope(1e3)),
    'qwen2': dict(
        tie_word_embeddings=True,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=2,
        rope_parameters=_rope(1e4),
    ),
    'qwen3': dict(head_dim=12, attention_bias=True, rope_parameters=_rope(1e4)),
    'smollm3': dict(
        no_rope_layers=[1, 0, 1, 0],
        use_sliding_window=True,
        sliding_window=5,
        tie_word_embeddings=True,
        rope_parameters=_rope(5e3),
    ),
}
_MODERNBERT = dict(tie_word_embeddings=True, cls_token_id=1, sep_token_id=2)
ENCODERS = {
    'eurobert': _LLAMA | dict(rope_parameters=_rope(1e4)),
    'bert': dict(hidden_act='gelu_new', layer_norm_eps=1e-6, tie_word_embeddings=True),
    'bert_untied': dict(tie_word_embeddings=False),
    # Their head is gelu, whatever else they have.
    'roberta': dict(tie_word_embeddings=True, hidden_act='relu'),
    'xlm-roberta': dict(
        tie_word_embeddings=False,
        hidden_act='gelu_new',
        layer_norm_eps=1e-6,
        type_vocab_size=1,
    ),
    'modernbert': _MODERNBERT | dict(local_attention=6),
    'modernbert_one_layer': _MODERNBERT | dict(num_hidden_layers=1),
    'modernbert_biases': dict(
        layer_types=['full_attention', 'sliding_attention'] * 2,
        local_attention=4,
        rope_parameters=dict(full_attention=_rope(1e3), sliding_attention=_rope(1e2)),
        norm_bias=True,
        attention_bias=True,
        mlp_bias=True,
        classifier_bias=True,
        decoder_bias=True,
        classifier_activation='silu',
        tie_word_embeddings=False,
    ),
}
# {name: (config.json, does the model read causally?)}
CASES = {
    name: (_SIZES | dict(model_type=name.split('_')[0]) | own, causal)
    for made, causal in (
        ({name: _LLAMA | own for name, own in DECODERS.items()}, True),
        (ENCODERS, False),
    )
    for name, own in made.items()
}


def weights(shapes):
    """{name: float32 array} of {name: shape}; a tensor depends on its name alone."""
    found = {}
    for name, shape in shapes.items():
        random = np.random.RandomState(zlib.crc32(name.encode()))
        values = random.standard_normal(shape) * (0.3 if len(shape) > 1 else 0.1)
        found[name] = np.float32(values + ('norm' in name.lower() and 'weight' in name))
    return found


def write(folder, config, tensors):
    """A folder as save_pretrained leaves it, with a tokenizer of V words."""
    folder = Path(folder)
    (folder / 'config.json').write_text(json.dumps(config))
    save_file(tensors, folder / 'model.safetensors', metadata={'format': 'pt'})
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder, words=WORDS):
    """A tokenizer.json that knows `words`, the first of which are special."""
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token='w4')
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    special = [word for word in words if word.startswith(('<', '['))]
    backend.add_special_tokens(special)
    backend.save(str(Path(folder) / 'tokenizer.json'))


def add_template(folder, pair=None, **declared):
    """Gives the tokenizer of a folder special tokens around a text, and declares it."""
    path = str(Path(folder) / 'tokenizer.json')
    backend = tokenizers.Tokenizer.from_file(path)
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single='<bos> $A <eos>', pair=pair, special_tokens=[('<bos>', 1), ('<eos>', 2)]
    )
    backend.save(path)
    config = dict(tokenizer_class='PreTrainedTokenizerFast', pad_token='<pad>')
    (Path(folder) / 'tokenizer_config.json').write_text(json.dumps(config | declared))


def write_metaspace(folder):
    """A tokenizer.json of letters, V in all, where only what begins a text, and what
    follows a space, begins with the sign of a space."""
    words = [*WORDS[:4], '▁', 'a', 'b', ',', '.', *(f'x{i}' for i in range(9, V))]
    backend = tokenizers.Tokenizer(
        tokenizers.models.BPE({w: i for i, w in enumerate(words)}, [], unk_token='.')
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme='first')
    backend.decoder = tokenizers.decoders.Metaspace(prepend_scheme='first')
    backend.add_special_tokens(words[:4])
    backend.save(str(Path(folder) / 'tokenizer.json'))


def batch():
    """tokens, segment_ids, positions [3, 20]: each document padded, and both packed."""
    tokens = np.zeros((3, 20), np.int32)
    segments, positions = np.zeros_like(tokens), np.zeros_like(tokens)
    start = 0
    for row, ids in enumerate(DOCUMENTS):
        for place, first, number in ((row, 0, 1), (2, start, row + 1)):
            where = slice(first, first + len(ids))
            tokens[place, where] = ids
            segments[place, where] = number
            positions[place, where] = np.arange(len(ids))
        start += len(ids)
    return tokens, segments, positions


def by_document(values_BLV):
    """[padded, packed] of each document, out of what was computed from `batch`."""
    first, second = map(len, DOCUMENTS)
    return [
        (values_BLV[0, :first], values_BLV[2, :first]),
        (values_BLV[1, :second], values_BLV[2, first : first + second]),
    ]
