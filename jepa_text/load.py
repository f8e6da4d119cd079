"""A model out of training: `load(workdir)`, then `encode(texts)` and `fill(text)`."""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import pooling, resolve, restore, tokenizers
from jepa_text import state as states


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder with its words. params: {'encoder': ..., 'lm_head': ...}."""

    network: states.Network
    params: dict
    tokenizer: tokenizers.Tokenizer
    length: int
    name: str = ''

    def encode(self, texts, layer=-1, pool='mean', batch_size=64):
        """One vector a text, [N, D] float32 in numpy.

        `layer` counts as in Python: -1 is the last, after its norm; 0 the embedding,
        before the first. Texts are cut at `length` tokens; specials are read but not
        pooled. Raises ValueError for a text without tokens, an unknown pool or layer.
        """
        if pool not in pooling.POOLINGS:
            known = ', '.join(pooling.POOLINGS)
            raise ValueError(f'pool={pool!r} does not exist; there are: {known}.')
        depth = self.network.encoder.depth + 1
        if not -depth <= layer < depth:
            raise ValueError(
                f'layer={layer}: there are {depth}, -{depth} to {depth - 1}.'
            )
        rows = [self._row(text) for text in texts]
        # Alike lengths share a batch; each batch is padded to a multiple of 32.
        order = np.argsort([len(row) for row in rows], kind='stable')
        vectors_ND = np.zeros((len(rows), self.network.encoder.width), np.float32)
        for begin in range(0, len(rows), batch_size):
            chosen = order[begin : begin + batch_size]
            batch = self._pad([rows[i] for i in chosen], batch_size)
            pooled_BD = self._encode(layer % depth, pool)(self.params, *batch)
            vectors_ND[chosen] = np.asarray(pooled_BD)[: len(chosen)]
        return vectors_ND

    def fill(self, text, top=3):
        """The `top` likeliest tokens for each '<mask>': [[(word, share), ...], ...].

        Raises ValueError when the text has no '<mask>' or is longer than a row.
        """
        # The space before a word belongs to its token, so the mask hides that too.
        parts = text.replace(' <mask>', '<mask>').split('<mask>')
        if len(parts) < 2:
            raise ValueError(f'{text!r} has no <mask> to fill.')
        tokenizer = self.tokenizer
        ids = [tokenizer.bos_id, *tokenizer.encode(parts[0])]
        for part in parts[1:]:
            ids += [tokenizer.mask_id, *tokenizer.encode(part)]
        ids = np.array([*ids, tokenizer.eos_id], np.int32)
        if len(ids) > self.length:
            raise ValueError(f'{len(ids)} tokens, but the model reads {self.length}.')
        tokens_BL, segments_BL, positions_BL, _ = self._pad([ids], 1)
        probabilities_BLV = self._words()(
            self.params, tokens_BL, segments_BL, positions_BL
        )
        answers = []
        for place in np.flatnonzero(ids == tokenizer.mask_id):
            probabilities_V = np.asarray(probabilities_BLV)[0, place]
            best = np.argsort(-probabilities_V, kind='stable')[:top]
            answers.append(
                [(tokenizer.decode([i]), float(probabilities_V[i])) for i in best]
            )
        return answers

    def _row(self, text):
        ids = self.tokenizer.encode(text)[: self.length - 2]
        if not len(ids):
            raise ValueError(f'the text {text!r} has no tokens to encode.')
        return np.concatenate([[self.tokenizer.bos_id], ids, [self.tokenizer.eos_id]])

    def _pad(self, rows, batch_size):
        """tokens, segment_ids, positions [B, L] and pooled_BL: real, non-special ones."""
        longest = max(map(len, rows))
        length = max(min(self.length, -(-longest // 32) * 32), longest)
        tokens_BL = np.full((batch_size, length), self.tokenizer.pad_id, np.int32)
        segments_BL = np.zeros((batch_size, length), np.int32)
        for index, row in enumerate(rows):
            tokens_BL[index, : len(row)] = row
            segments_BL[index, : len(row)] = 1
        positions_BL = np.broadcast_to(np.arange(length, dtype=np.int32), tokens_BL.shape)
        pooled_BL = (segments_BL > 0) & ~np.isin(tokens_BL, self.tokenizer.special_ids)
        return tokens_BL, segments_BL, positions_BL, pooled_BL

    @functools.cache  # noqa: B019 - one compiled function per model, layer and pool
    def _encode(self, layer, pool):
        last = layer == self.network.encoder.depth

        def encode(params, tokens_BL, segments_BL, positions_BL, pooled_BL):
            hidden = self.network.apply(
                'encoder',
                params,
                tokens_BL,
                segments_BL,
                positions_BL,
                causal=False,
                every_layer=not last,
            )
            hidden_BLD = hidden if last else hidden[1][layer]
            return pooling.POOLINGS[pool](hidden_BLD, pooled_BL)

        return jax.jit(encode)

    @functools.cache  # noqa: B019
    def _words(self):
        def words(params, tokens_BL, segments_BL, positions_BL):
            hidden_BLD = self.network.apply(
                'encoder', params, tokens_BL, segments_BL, positions_BL, causal=False
            )
            embedding_VD = params['encoder']['embedding']
            logits_BLV = self.network.apply('lm_head', params, hidden_BLD, embedding_VD)
            return jax.nn.softmax(logits_BLV.astype(jnp.float32))

        return jax.jit(words)


def load(workdir, step=None):
    """The model of a workdir's newest good checkpoint, or of the one at `step`.

    Raises FileNotFoundError when the folder holds no run or no good checkpoint.
    """
    config, tokenizer = _read(workdir)
    folder = Path(workdir) / 'checkpoints'
    if step is None:
        step = restore.newest_good_step(folder)
    if step is None:
        raise FileNotFoundError(f'{folder} holds no good checkpoint: train first.')
    phase = restore.meta(folder, step)['phase']
    model = _model(config, tokenizer, phase, f'{workdir} at step {step}')
    wanted = {name: model.params[name] for name in ('encoder', 'lm_head')}
    params = restore.part(folder, step, {'params': wanted})['params']
    return dataclasses.replace(model, params=params)


def untrained(workdir):
    """The model that the run of a workdir started from: its seed, no step taken."""
    config, tokenizer = _read(workdir)
    model = _model(config, tokenizer, 0, f'{workdir} untrained')
    params = jax.jit(functools.partial(model.network.init, config['seed']))()
    return dataclasses.replace(model, params=params)


def _read(workdir):
    folder = Path(workdir)
    if not (folder / 'config.json').is_file():
        raise FileNotFoundError(
            f'{workdir} holds no config.json, so no run of jepa-text: give the --workdir '
            'of a training run.'
        )
    config = json.loads((folder / 'config.json').read_text())
    return config, tokenizers.load(folder / 'tokenizer.json')


def _model(config, tokenizer, phase, name):
    """A model whose parameters are shapes only."""
    encoder = resolve.build('models', config['model'], vocab_size=tokenizer.vocab_size)
    length = config['data']['row_length']
    objective = resolve.build(
        'objectives',
        config['phases'][phase]['objective'],
        tokenizer=tokenizer,
        length=length,
        steps=1,
    )
    network = states.Network(encoder, objective)
    params = jax.eval_shape(functools.partial(network.init, config['seed']))
    return Pretrained(network, params, tokenizer, length, name)
