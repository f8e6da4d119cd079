"""Small tokenizers in foreign formats."""

import base64

import sentencepiece_files
import tokenizers as library


def wordpiece(path, special=('[UNK]', '[CLS]', '[SEP]')):
    """A WordPiece tokenizer without mask and pad."""
    names = [*special, '[unused0]', *'thewalsnd', *(f'##{c}' for c in 'thewalsnd')]
    model = library.models.WordPiece(
        {n: i for i, n in enumerate(names)}, unk_token='[UNK]'
    )
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(list(special))
    path.parent.mkdir(parents=True, exist_ok=True)
    backend.save(str(path))
    return path


def sentencepiece(path):
    """Ten pieces and a reserved token, as a SentencePiece model."""
    names = [('<unk>', 2), ('<s>', 3), ('</s>', 3), ('<unused0>', 3)]
    pieces = [(name, 0.0, kind) for name, kind in names]
    pieces += [(text, -3.0, 1) for text in '▁thewals,;']
    path.write_bytes(sentencepiece_files.model(pieces))
    return path


def ranks(path):
    """Bytes and two merges, as a .tiktoken file."""
    tokens = [*(bytes([byte]) for byte in range(256)), b'th', b'the']
    lines = [f'{base64.b64encode(t).decode()} {n}' for n, t in enumerate(tokens)]
    path.write_text('\n'.join(lines))
    return path
