"""`encode` beside sentence-transformers, on a CPU.

    python benchmarks/encode.py MODEL_FOLDER TEXTS.txt [--rounds=7]

MODEL_FOLDER is a sentence-transformers model, TEXTS.txt has one text per line.
OMP_NUM_THREADS applies to both. If other programs run too, compare the processors.
"""

from pathlib import Path

import harness


def read(path):
    """The lines of a file that are not empty."""
    lines = Path(path).read_text(encoding='utf-8').split('\n')
    return [line for line in lines if line.strip()]


def ours(folder, path):
    """Encodes by the package."""
    from jepa_text.pretrained import load

    model, texts = load.load(f'hf:{folder}'), read(path)
    return lambda: model.encode(texts)[:, 0].tolist()


def theirs(folder, path):
    """Encodes by sentence-transformers."""
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(folder, device='cpu')
    texts = read(path)
    return lambda: model.encode(texts, show_progress_bar=False)[:, 0].tolist()


if __name__ == '__main__':
    harness.main(__doc__, {'ours': ours, 'sentence-transformers': theirs})
