"""A model as the `mteb` package (version 2) wants an encoder, without an export:

    encoder = mteb_adapter.Encoder(load.load('runs/a'), query='Query: ')
    mteb.evaluate(encoder, mteb.get_tasks(tasks=['STSBenchmark']))

Needs mteb and torch, in which its scores are computed: pip install mteb.
"""

import re

import jax
import numpy as np

from jepa_text.evaluation import identity, search

# What mteb may say that changes no vector: batches here go by tokens.
IGNORED = ('batch_size', 'show_progress_bar')


class Encoder:
    """mteb.models.EncoderProtocol of a load.Pretrained.

    `query` and `document` come before the texts that mteb says are such, `other` before
    those of tasks that know neither. `revision` is told with the results, and what mteb
    keeps of them is found by it; None: a checksum of parameters, tokenizer and pooling.
    """

    def __init__(
        self, model, revision=None, *, name=None, query='', document='', other=''
    ):
        self.model = model
        self.name = name or 'jepa-text/' + (_plain(model.name) or 'model')
        made = f'{identity.of(model)[:16]}-{model.pool}' + '-unit' * model.normalize
        self.revision = revision or made
        self.prompts = {'query': query, 'document': document, None: other}

    def encode(
        self, inputs, *, task_metadata, hf_split, hf_subset, prompt_type=None, **options
    ):
        """[N, D] float32 of the texts of mteb's batches, {'text': [...]} each.

        Raises ValueError for what has no text, for a `precision` that is not float32, and
        for a text without tokens; TypeError for an option that is not known.
        """
        del hf_split, hf_subset
        if options.pop('precision', 'float32') != 'float32':
            raise ValueError('precision: these vectors are float32; leave it out.')
        if unknown := sorted(set(options) - set(IGNORED)):
            raise TypeError(f'encode does not take {", ".join(unknown)}.')
        prompt = self.prompts[None if prompt_type is None else str(prompt_type.value)]
        texts = []
        for batch in inputs:
            if 'text' not in batch:
                raise ValueError(
                    f'{task_metadata.name} gives {", ".join(batch)} and no text, which '
                    'is all that this model reads.'
                )
            texts += [prompt + text for text in batch['text']]
        return self.model.encode(texts)

    def similarity(self, embeddings1, embeddings2):
        """Cosines of all with all, [N, M], a tensor of torch."""
        import torch

        return torch.from_numpy(_units(embeddings1) @ _units(embeddings2).T)

    def similarity_pairwise(self, embeddings1, embeddings2):
        """Cosines of each with its own, [N], a tensor of torch."""
        import torch

        return torch.from_numpy(np.sum(_units(embeddings1) * _units(embeddings2), axis=1))

    @property
    def mteb_model_meta(self):
        """What mteb writes beside the results; what nobody here knows is None."""
        import mteb

        params = self.model.params['encoder']
        given = {kind or 'other': text for kind, text in self.prompts.items() if text}
        meta = mteb.models.ModelMeta
        none = {
            key: None for key, field in meta.model_fields.items() if field.is_required()
        }
        return meta(
            **none
            | dict(
                name=self.name,
                revision=self.revision,
                n_parameters=sum(leaf.size for leaf in jax.tree.leaves(params)),
                n_embedding_parameters=params['embedding'].size,
                max_tokens=self.model.length,
                embed_dim=self.model.network.encoder.width,
                framework=['JAX'],
                similarity_fn_name='cosine',
                use_instructions=bool(given),
                experiment_kwargs=given or None,
            )
        )


def _units(vectors_ND):
    return search.unit(np.atleast_2d(np.asarray(vectors_ND, np.float32)))


def _plain(name):
    """The part of a name that mteb can call a folder."""
    return re.sub(r'[^\w.-]+', '_', name.removeprefix('hf:')).strip('_.')
