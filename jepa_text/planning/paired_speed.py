"""`encode` against sentence-transformers, and `top_k` against faiss, on this machine:

    python -m jepa_text.planning.paired_speed encode MODEL_FOLDER TEXTS.txt
    python -m jepa_text.planning.paired_speed search 1000000 384 100

MODEL_FOLDER is one of sentence-transformers, TEXTS.txt has a text a line; or so many
vectors of this width and so many queries. Each side is a process of its own, warmed up;
they take turns, and a ratio is that of one turn. OMP_NUM_THREADS holds for both. Where
other programs compute too, look at the seconds of the CPU: torch's threads wait actively.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from jepa_text.report import console

ROUNDS, K = 7, 100
SIDES = {'encode': ('ours', 'sentence-transformers'), 'search': ('ours', 'faiss')}


def main(arguments):
    """Measures one of SIDES, or is a side of it, which answers each line with seconds."""
    if arguments[:1] == ['side']:
        return answer(*arguments[1:])
    if not arguments or arguments[0] not in SIDES:
        raise SystemExit(__doc__)
    kind, ours, other = arguments[0], *SIDES[arguments[0]]
    command = [sys.executable, '-m', 'jepa_text.planning.paired_speed', 'side']
    sides = [
        subprocess.Popen(
            [*command, side, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side in (ours, other)
    ]
    seconds_RSU = [[ask(side) for side in sides] for _ in range(ROUNDS + 1)][1:]
    ended = [ask(side, 'end') for side in sides]
    seconds_SUR = np.moveaxis(np.array(seconds_RSU), 0, -1)
    rows = []
    for name, (mine_R, theirs_R) in zip(('wall', 'CPU'), np.swapaxes(seconds_SUR, 0, 1)):
        for what, values in (
            (f'{ours}, s ({name})', mine_R),
            (f'{other}, s ({name})', theirs_R),
            (f'{other} / ours ({name})', theirs_R / mine_R),
        ):
            low, middle, high = np.percentile(values, (25, 50, 75))
            rows.append((what, f'{middle:.3f}', f'{low:.3f} to {high:.3f}'))
    difference = np.abs(np.subtract(*ended)).max()
    rows.append(('largest difference', f'{difference:.1e}', ''))
    console.table(kind, (f'{ROUNDS} turns', 'median', 'quartiles'), rows)
    return 0


def ask(side, line='go'):
    """What a side answers; RuntimeError if it ended."""
    side.stdin.write(line + '\n')
    side.stdin.flush()
    if not (said := side.stdout.readline()):
        raise RuntimeError('a side ended; what it said is above.')
    return json.loads(said)


def answer(side, kind, *given):
    """[seconds, seconds of the CPU] of each call; at the end the sum of its vectors' or
    best scores' rows."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    work = (encoding if kind == 'encode' else searching)(side, *given)
    work()
    for line in sys.stdin:
        start = time.perf_counter(), time.process_time()
        found = work()
        seconds = time.perf_counter() - start[0], time.process_time() - start[1]
        said = found[:, 0].tolist() if line.strip() == 'end' else seconds
        print(json.dumps(said), file=answers, flush=True)
    return 0


def encoding(side, folder, path):
    """A function that encodes the lines of a file."""
    texts = Path(path).read_text(encoding='utf-8').split('\n')
    texts = [text for text in texts if text.strip()]
    if side == 'ours':
        from jepa_text import load

        model = load.load(f'hf:{folder}')
        return lambda: model.encode(texts)
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(folder, device='cpu')
    return lambda: model.encode(texts, show_progress_bar=False)


def searching(side, documents, width, queries):
    """A function that finds the best of random vectors."""
    rng = np.random.default_rng(0)
    corpus_ND = rng.standard_normal((int(documents), int(width)), np.float32)
    queries_QD = rng.standard_normal((int(queries), int(width)), np.float32)
    if side == 'ours':
        from jepa_text.evaluation import search

        return lambda: search.top_k(queries_QD, corpus_ND, K)[0]
    import faiss

    index = faiss.IndexFlatIP(int(width))
    index.add(corpus_ND)
    return lambda: index.search(queries_QD, K)[0]


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
