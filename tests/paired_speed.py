"""Compares the speed of `encode` with sentence-transformers, and of `top_k` with faiss.

Not run by CI, except on few vectors.

    python tests/paired_speed.py encode MODEL_FOLDER TEXTS.txt
    python tests/paired_speed.py search 1000000 384 100

MODEL_FOLDER is a sentence-transformers model, TEXTS.txt has one text per line. `search`
takes the number of vectors, their width, and the number of queries. Each side runs in a
warmed-up process of its own; the sides alternate, and ratios are computed per round.
OMP_NUM_THREADS applies to both. If other programs use the CPU too, compare the CPU times:
idle threads of torch spin.
"""

import contextlib
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
    """Runs a comparison of SIDES, or one of its sides if the first argument is 'side'."""
    if arguments[:1] == ['side']:
        return serve(*arguments[1:])
    if not arguments or arguments[0] not in SIDES:
        raise SystemExit(__doc__)
    kind, ours, other = arguments[0], *SIDES[arguments[0]]
    command = [sys.executable, __file__, 'side']
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, side, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for side in (ours, other)
        ]
        # One round more, for warmup.
        rounds = [[request(side, 'run') for side in sides] for _ in range(ROUNDS + 1)]
        outputs = [request(side, 'end') for side in sides]
    seconds_RSU = rounds[1:]
    seconds_SUR = np.moveaxis(np.array(seconds_RSU), 0, -1)
    rows = []
    for name, (ours_R, theirs_R) in zip(('wall', 'CPU'), np.swapaxes(seconds_SUR, 0, 1)):
        for label, values in (
            (f'{ours}, s ({name})', ours_R),
            (f'{other}, s ({name})', theirs_R),
            (f'{other} / ours ({name})', theirs_R / ours_R),
        ):
            low, middle, high = np.percentile(values, (25, 50, 75))
            rows.append((label, f'{middle:.3f}', f'{low:.3f} to {high:.3f}'))
    difference = np.abs(np.subtract(*outputs)).max()
    rows.append(('largest difference', f'{difference:.1e}', ''))
    console.table(kind, (f'{ROUNDS} rounds', 'median', 'quartiles'), rows)
    return 0


def request(side, line):
    """The response of a side to a line; raises RuntimeError if its process ended."""
    side.stdin.write(line + '\n')
    side.stdin.flush()
    if not (response := side.stdout.readline()):
        raise RuntimeError('One side ended unexpectedly; see its output above.')
    return json.loads(response)


def serve(side, kind, *arguments):
    """Responds to each line on stdin with [wall seconds, CPU seconds] of a run; to 'end'
    with the first column of the output, to compare the sides."""
    responses = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    work = (encoding if kind == 'encode' else searching)(side, *arguments)
    work()
    for line in sys.stdin:
        start = time.perf_counter(), time.process_time()
        output = work()
        seconds = time.perf_counter() - start[0], time.process_time() - start[1]
        response = output[:, 0].tolist() if line.strip() == 'end' else seconds
        print(json.dumps(response), file=responses, flush=True)
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
    """A function that returns the top K scores of random queries and documents."""
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
