"""A model out of training: `load(workdir)`, then `encode(texts)` and `fill(text)`;
`load('hf:NAME_OR_FOLDER')` gives the same of a model of others."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.config import renamed, resolve
from jepa_text.data import as_read, tokenizers
from jepa_text.files import checksums, paths
from jepa_text.hf import load as hf_load
from jepa_text.kinds import base, kept, predicting
from jepa_text.models import pooling
from jepa_text.models.network import Network
from jepa_text.running import identity, restore, xla_flags


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder with its tokenizer. params: {'encoder': ..., 'lm_head': ...}.

    causal         a token sees only those before it
    begin, end     ids around a text; <bos> and <eos> if None
    pool           how it makes one vector of a text, which is what is exported; scaled
                   to length 1 if `normalize`
    shift          a masked token is told by the position this far before it
    record         how it was imported, for JSON; None for models of our own
    kind           of what it was fine-tuned to answer (kinds/base.py), or None
    """

    network: Network
    params: dict
    tokenizer: tokenizers.Tokenizer
    length: int
    name: str = ''
    causal: bool = False
    begin: tuple | None = None
    end: tuple | None = None
    pool: str = 'mean'
    normalize: bool = False
    shift: int = 0
    record: dict | None = None
    kind: Any = None

    def encode(self, texts, layer=-1, pool=None, batch_size=64):
        """One vector a text, [N, D] float32 in numpy.

        `layer` counts as in Python: -1 is the last, after its norm; 0 the embedding,
        before the first. Texts are cut at `length` tokens, with a warning of how many.
        `pool` is one of pooling.POOLINGS, over all tokens, special ones among them, or
        without these with '-specials' after its name; None is the model's own way, as
        `pool` and `normalize` say. Raises ValueError for a text without tokens, for 'cls'
        where no special token begins a text, an unknown pool or layer.
        """
        normalize = self.normalize and pool is None
        pool = self.pool if pool is None else pool
        if pooling.base(pool) not in pooling.POOLINGS:
            known = ', '.join(pooling.POOLINGS)
            raise ValueError(f'pool={pool!r} does not exist; there are: {known}.')
        depth = self.network.encoder.depth + 1
        if not -depth <= layer < depth:
            raise ValueError(
                f'layer={layer}: there are {depth}, -{depth} to {depth - 1}.'
            )
        texts = list(texts)
        rows = [self.row(text) for text in texts]
        as_read.warn(self, texts, rows)
        pooling.check(pool, self.ends()[0], rows, self.tokenizer.special_ids)
        # Alike lengths share a batch; each batch is padded to a multiple of 32.
        order = np.argsort([len(row) for row in rows], kind='stable')
        vectors_ND = np.zeros((len(rows), self.network.encoder.width), np.float32)
        for begin in range(0, len(rows), batch_size):
            chosen = order[begin : begin + batch_size]
            batch = self.pad([rows[i] for i in chosen], batch_size)
            pooled_BD = self._encode(layer % depth, pool)(self.params, *batch)
            vectors_ND[chosen] = np.asarray(pooled_BD)[: len(chosen)]
        if normalize:
            lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
            vectors_ND /= np.maximum(lengths_N1, 1e-12)
        return vectors_ND

    def fill(self, text, top=3):
        """The `top` likeliest tokens for each '<mask>': [[(token, share), ...], ...].

        Raises ValueError when the text has no '<mask>' or is longer than a row, and for
        a model without mask token or without LM head.
        """
        tokenizer, (begin, end) = self.tokenizer, self.ends()
        if tokenizer.mask_id is None or 'lm_head' not in self.params:
            lacks = 'mask token' if tokenizer.mask_id is None else 'LM head'
            raise ValueError(
                f'{self.name} has no {lacks}, so it can fill nothing: load it with '
                "adapt=dict(), which gives a decoder what it lacks, or head='new'."
            )
        if '<mask>' not in text:
            raise ValueError(f'{text!r} has no <mask> to fill.')
        ids = np.array([*begin, *tokenizer.encode_masked(text), *end], np.int32)
        if len(ids) > self.length:
            raise ValueError(f'{len(ids)} tokens, but the model reads {self.length}.')
        probabilities_BLV = self._probabilities(self.params, *self.pad([ids], 1))
        answers = []
        for position in np.flatnonzero(ids == tokenizer.mask_id):
            probabilities_V = np.asarray(probabilities_BLV)[0, position - self.shift]
            best = np.argsort(-probabilities_V, kind='stable')[:top]
            answers.append(
                [(tokenizer.decode([i]), float(probabilities_V[i])) for i in best]
            )
        return answers

    def predict(self, first, second=None, max_length=None):
        """What a fine-tuned model answers to each text, or pair of texts: a label, a
        score, tags or a span, with probabilities; each kind says what (kinds/).

        For tags a text is a list of words. Raises ValueError for a model that was not
        fine-tuned, and for a text without tokens.
        """
        if self.kind is None:
            raise ValueError(
                f'{self.name or "The model"} was fine-tuned to answer nothing: '
                'jepa-text finetune makes such a model.'
            )
        asked = base.Asked(list(first), None if second is None else list(second))
        return predicting.answers(self, self.kind, asked, max_length)

    def ends(self):
        """The ids before and after a text, each a tuple."""
        begin = (self.tokenizer.bos_id,) if self.begin is None else self.begin
        end = (self.tokenizer.eos_id,) if self.end is None else self.end
        return tuple(begin), tuple(end)

    def row(self, text):
        """int32 ids of a text with its specials, cut at `length`; ValueError if empty."""
        begin, end = self.ends()
        ids = self.tokenizer.encode(text)[: self.length - len(begin) - len(end)]
        if not len(ids):
            raise ValueError(f'the text {text!r} has no tokens to encode.')
        return np.concatenate([begin, ids, end]).astype(np.int32)

    def cut_at(self, text):
        """How many characters of a text its row holds; None if it holds all tokens."""
        maximum = self.length - sum(map(len, self.ends()))
        return as_read.stop(self.tokenizer, text, maximum)

    def pad(self, rows, batch_size):
        """tokens, segment_ids, positions [B, L]; segment 1 is a row, 0 its filling."""
        longest = max(map(len, rows))
        length = max(min(self.length, -(-longest // 32) * 32), longest)
        tokens_BL = np.full((batch_size, length), self.tokenizer.pad_id, np.int32)
        segments_BL = np.zeros((batch_size, length), np.int32)
        for index, row in enumerate(rows):
            tokens_BL[index, : len(row)] = row
            segments_BL[index, : len(row)] = 1
        positions_BL = np.broadcast_to(np.arange(length, dtype=np.int32), tokens_BL.shape)
        return tokens_BL, segments_BL, positions_BL

    @functools.cached_property
    def _encode(self):
        """(layer, pool) -> a compiled function, kept with this model and gone with it."""
        reading = self.network, self.causal, tuple(self.tokenizer.special_ids)
        return functools.cache(functools.partial(_encoding, *reading))

    @functools.cached_property
    def _probabilities(self):
        return _naming(self.network, self.causal)


def _encoding(network, causal, special_ids, layer, pool):
    """(params, *batch) -> vectors; without the model, whose parameters would stay."""
    last = layer == network.encoder.depth

    def encode(params, *batch):
        given = dict(causal=causal, every_layer=not last)
        hidden = network.apply('encoder', params, *batch, **given)
        hidden_BLD = hidden if last else hidden[1][layer]
        valid_BL = pooling.counted(pool, batch[1] > 0, batch[0], special_ids)
        return pooling.POOLINGS[pooling.base(pool)](hidden_BLD, valid_BL)

    return jax.jit(encode)


def _naming(network, causal):
    def probabilities(params, *batch):
        hidden_BLD = network.apply('encoder', params, *batch, causal=causal)
        embedding_VD = params['encoder']['embedding']
        logits_BLV = network.apply('lm_head', params, hidden_BLD, embedding_VD)
        return jax.nn.softmax(logits_BLV.astype(jnp.float32))

    return jax.jit(probabilities)


def load(workdir, step=None, **options):
    """The model of a workdir's newest good checkpoint, or of the one at `step`.

    It reads as the objective of that step did: causally after CLM. To make it
    bidirectional, take `dataclasses.replace(model, causal=False)`.
    A folder of `jepa-text finetune` gives a model that can `predict`.
    With 'hf:' before it, `workdir` is a folder of Hugging Face's format or a name on
    their hub, and `options` are those of hf/load.load: revision, adapt, family, mesh.
    Raises FileNotFoundError when the folder holds no run or no good checkpoint.
    """
    xla_flags.mend()
    if paths.local('The model', workdir, model=True).startswith('hf:'):
        if step is not None:
            raise ValueError(
                f'{workdir} has no steps, so step={step} means nothing: leave it out. '
                'For another state of a model on the hub, give revision.'
            )
        return _foreign(str(workdir), options)
    if options:
        raise ValueError(
            f'{", ".join(options)}: only for models of others, whose names begin with '
            f"'hf:'; {workdir} is a workdir."
        )
    if (Path(workdir) / kept.FILE).is_file() and step is None:
        return _finetuned(workdir)
    step, model = abstract(workdir, step)
    names = ('encoder', 'lm_head')
    wanted = {name: shapes for name, shapes in model.params.items() if name in names}
    folder = Path(workdir) / 'checkpoints'
    params = restore.part(folder, step, {'params': wanted})['params']
    return dataclasses.replace(model, params=params)


def abstract(workdir, step=None):
    """(step, the model at it), whose parameters, of all modules, are shapes only.

    Raises FileNotFoundError as `load` does.
    """
    config, tokenizer = _read(workdir)
    folder = Path(workdir) / 'checkpoints'
    if step is None:
        step = restore.newest_good_step(folder)
    if step is None:
        raise FileNotFoundError(f'{folder} holds no good checkpoint: train first.')
    meta = restore.meta(folder, step)
    identity.check(workdir, config, tokenizer, meta)
    phase = meta['phase']
    return step, _model(config, tokenizer, phase, f'{workdir} at step {step}')


def _foreign(name, options):
    found = hf_load.load(name.removeprefix('hf:'), **options)
    section = {'name': 'mlm', 'tied': found.tied, 'shift': found.shift}
    objective = resolve.build(
        'objectives', section, tokenizer=found.tokenizer, length=found.length, steps=1
    )
    pooling_of = found.pooling
    return Pretrained(
        Network(found.encoder, objective),
        found.params,
        found.tokenizer,
        found.length,
        name,
        causal=found.causal,
        begin=found.begin,
        end=found.end,
        pool=pooling_of.pool if pooling_of else 'mean',
        normalize=pooling_of is not None and pooling_of.normalize,
        shift=found.shift,
        record=found.record,
    )


def _finetuned(folder):
    kind, network, params, tokenizer, reading, _ = kept.read(folder)
    return Pretrained(network, params, tokenizer, name=str(folder), kind=kind, **reading)


def untrained(workdir):
    """The model that the run of a workdir started from: its seed, no step taken.

    It reads as what the run ends with does, beside which it is looked at.
    """
    config, tokenizer = _read(workdir)
    newest = restore.newest_good(Path(workdir) / 'checkpoints')
    identity.check(workdir, config, tokenizer, newest[1] if newest else {})
    model = _model(config, tokenizer, 0, f'{workdir} untrained')
    params = jax.jit(functools.partial(model.network.init, config['seed']))()
    last = _model(config, tokenizer, -1, model.name)
    return dataclasses.replace(model, params=params, causal=last.causal, shift=last.shift)


def _read(workdir):
    folder = Path(paths.local('The workdir', workdir))
    if not (folder / 'config.json').is_file():
        raise FileNotFoundError(
            f'{workdir} holds no config.json, so no run of jepa-text: give the --workdir '
            'of a training run.'
        )
    renamed.check_folder(folder)
    config = checksums.read_json(folder / 'config.json')
    renamed.check(config, str(folder / 'config.json'))
    return config, tokenizers.load(folder / 'tokenizer.json')


def _model(config, tokenizer, phase, name):
    """A model whose parameters are shapes only."""
    # Not the kernel of where it was trained: it may be read on another machine.
    encoder = {**config['model'], 'attention': 'auto'}
    encoder = resolve.build('models', encoder, vocab_size=tokenizer.vocab_size)
    length = config['data']['row_length']
    section = config['phases'][phase]['objective']
    objective = resolve.build(
        'objectives', section, tokenizer=tokenizer, length=length, steps=1
    )
    network, token = Network(encoder, objective), objective.token_objective
    params = jax.eval_shape(functools.partial(network.init, config['seed']))
    return Pretrained(
        network,
        params,
        tokenizer,
        length,
        name,
        causal=token is not None and token.attends == 'causal',
        shift=token.shift if token else 0,
    )
