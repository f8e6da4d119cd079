"""An encoder for the `mteb` package (version 2), which needs no export of the model.

    encoder = mteb_adapter.Encoder(load.load('runs/a'), query='Query: ')
    mteb.evaluate(encoder, mteb.get_tasks(tasks=['STSBenchmark']))

Needs mteb and torch, which computes mteb's scores: pip install mteb.
"""

import re

import jax
import numpy as np

from jepa_text.evaluation import identity, search

# Options of mteb that change no vector; batch sizes here are in tokens.
IGNORED = ('batch_size', 'show_progress_bar')


class Encoder:
    """Implements mteb.models.EncoderProtocol for a load.Pretrained.

    query, document    prompts for texts that mteb marks as such
    other              prompt for texts of other tasks
    revision           stored with results and used by mteb to find cached ones; None: a
                       checksum of parameters, tokenizer and pooling
    """

    def __init__(
        self, model, revision=None, *, name=None, query='', document='', other=''
    ):
        self.model = model
        self.name = name or 'jepa-text/' + (_plain(model.name) or 'model')
        checksum = f'{identity.of(model)[:16]}-{model.pool}' + '-unit' * model.normalize
        self.revision = revision or checksum
        self.prompts = {'query': query, 'document': document, None: other}

    def encode(
        self, inputs, *, task_metadata, hf_split, hf_subset, prompt_type=None, **options
    ):
        """Returns [N, D] float32 for the texts of mteb's batches, each {'text': [...]}.

        Raises ValueError for batches without text, for a `precision` other than float32,
        and for a text without tokens; TypeError for an unknown option.
        """
        del hf_split, hf_subset
        if options.pop('precision', 'float32') != 'float32':
            raise ValueError('precision must be float32: other types are unsupported.')
        if unknown := sorted(set(options) - set(IGNORED)):
            raise TypeError(f'encode has no options {", ".join(unknown)}.')
        prompt = self.prompts[None if prompt_type is None else str(prompt_type.value)]
        texts = []
        for batch in inputs:
            if 'text' not in batch:
                raise ValueError(
                    f'{task_metadata.name} has {", ".join(batch)} but no text, the only '
                    'input that this model supports.'
                )
            texts += [prompt + text for text in batch['text']]
        return self.model.encode(texts)

    def similarity(self, embeddings1, embeddings2):
        """Returns the cosines of all pairs, [N, M], as a torch tensor."""
        import torch

        return torch.from_numpy(_units(embeddings1) @ _units(embeddings2).T)

    def similarity_pairwise(self, embeddings1, embeddings2):
        """Returns the cosines of corresponding vectors, [N], as a torch tensor."""
        import torch

        return torch.from_numpy(np.sum(_units(embeddings1) * _units(embeddings2), axis=1))

    @property
    def mteb_model_meta(self):
        """The metadata that mteb stores with results; unknown fields are None."""
        import mteb

        params = self.model.params['encoder']
        prompts = {kind or 'other': text for kind, text in self.prompts.items() if text}
        meta = mteb.models.ModelMeta
        required = {
            key: None for key, field in meta.model_fields.items() if field.is_required()
        }
        return meta(
            **required
            | dict(
                name=self.name,
                revision=self.revision,
                n_parameters=sum(leaf.size for leaf in jax.tree.leaves(params)),
                n_embedding_parameters=params['embedding'].size,
                max_tokens=self.model.length,
                embed_dim=self.model.network.encoder.width,
                framework=['JAX'],
                similarity_fn_name='cosine',
                use_instructions=bool(prompts),
                experiment_kwargs=prompts or None,
            )
        )


def _units(vectors_ND):
    return search.unit(np.atleast_2d(np.asarray(vectors_ND, np.float32)))


def _plain(name):
    """Replaces characters of a name that mteb cannot use in a folder name."""
    return re.sub(r'[^\w.-]+', '_', name.removeprefix('hf:')).strip('_.')
