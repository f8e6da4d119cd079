"""Benchmark baseline: the same training step with transformers and PyTorch.

EuroBERT (masked) or Llama (causal) of the trunk's sizes, configured as commonly used:
scaled-dot-product attention, torch.compile, fused AdamW, gradient clipping; bfloat16 by
autocast on a GPU, float32 on a CPU. The head scores every position, as in that library,
or with `masked_head` masked positions only, which users of it would have to write.
Rows are full, so attention gets no mask: with the causal one that torch.compile would
create, flash kernels do not run.
"""

import inspect
import itertools
import resource

import numpy as np

from jepa_text.models.transformer import Transformer
from jepa_text.optim import adam

# {a size of our encoder: its name in a config of transformers}
_SIZES = {
    'vocab_size': 'vocab_size',
    'width': 'hidden_size',
    'ffn_width': 'intermediate_size',
    'depth': 'num_hidden_layers',
    'heads': 'num_attention_heads',
    'kv_heads': 'num_key_value_heads',
    'norm_eps': 'rms_norm_eps',
}
# Options of an encoder that determine how it is computed, but not what.
_HOW = ('scan', 'remat', 'attention', 'dtype')


class Peer:
    """A transformers model and its optimizer on the batches of a case."""

    def __init__(self, case, encoder, made):
        _check(case, encoder)
        torch, transformers = _libraries()
        transformers.AttentionInterface.register('unmasked', _unmasked)
        causal = case['objective']['name'] == 'clm'
        sizes = dict(
            **{theirs: getattr(encoder, ours) for ours, theirs in _SIZES.items()},
            max_position_embeddings=case['row_length'],
            tie_word_embeddings=case['objective'].get('tied', False),
            attn_implementation='unmasked',
            pad_token_id=0,
        )
        torch.manual_seed(case['seed'])
        if causal:
            config = transformers.LlamaConfig(**sizes, use_cache=False)
            model = transformers.LlamaForCausalLM(config)
        else:
            config = transformers.EuroBertConfig(**sizes)
            model = transformers.EuroBertForMaskedLM(config)
        self._device = 'cuda' if torch.cuda.is_available() else 'cpu'
        self._torch, self._model = torch, model.to(self._device).train()
        self._is_sparse = case['masked_head']
        run = self._masked_loss if self._is_sparse else self._loss
        self._run = torch.compile(run) if case['compile'] else run
        parameters = inspect.signature(adam.adamw).parameters.values()
        rules = {one.name: one.default for one in parameters} | case['optimizer']
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(),
            lr=1e-4,
            betas=(rules['b1'], rules['b2']),
            weight_decay=rules['weight_decay'],
            fused=True,
        )
        self._clip = case['clip_norm']
        self._batches = itertools.cycle([self._tensors(b, causal) for b in made])
        name = torch.cuda.get_device_name() if self._device == 'cuda' else 'cpu'
        self.about = {
            'library': f'torch {torch.__version__}, transformers '
            f'{transformers.__version__}',
            'device': name,
            'parameters': sum(p.numel() for p in self._model.parameters()),
        }

    def steps(self, count):
        """Runs `count` steps and waits until the device has finished."""
        torch = self._torch
        bfloat16 = torch.autocast(
            self._device, dtype=torch.bfloat16, enabled=self._device == 'cuda'
        )
        for _ in range(count):
            with bfloat16:
                loss = self._run(**next(self._batches))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._clip)
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        if self._device == 'cuda':
            torch.cuda.synchronize()

    def _loss(self, **batch):
        return self._model(**batch).loss

    def _masked_loss(self, input_ids, labels, places):
        hidden = self._model.model(input_ids=input_ids).last_hidden_state
        logits = self._model.lm_head(hidden.flatten(0, 1)[places])
        return self._torch.nn.functional.cross_entropy(logits.float(), labels)

    def memory(self):
        """Peak memory in bytes of the GPU, or of the process on a CPU."""
        if self._device == 'cuda':
            return self._torch.cuda.max_memory_allocated()
        return process_memory()

    def _tensors(self, batch, causal):
        # transformers shifts causal labels itself and ignores labels of -100.
        masked = np.where(batch['loss_mask'], batch['labels'], -100)
        arrays = {
            'input_ids': batch['inputs'],
            'labels': batch['tokens'] if causal else masked,
        }
        if self._is_sparse:
            places = np.flatnonzero(masked >= 0)
            arrays |= {'labels': masked.ravel()[places], 'places': places}
        return {
            key: self._torch.tensor(array, dtype=self._torch.long, device=self._device)
            for key, array in arrays.items()
        }


def _check(case, encoder):
    """Raises ValueError for a case that this side would compute in another way."""
    objective, optimizer = case['objective']['name'], case['optimizer'].get('name')
    is_expressed = isinstance(encoder, Transformer) and encoder == Transformer(
        **{name: getattr(encoder, name) for name in (*_SIZES, *_HOW)}
    )
    is_plain = optimizer == 'adamw' and case['accumulate'] == 1
    if not (is_expressed and is_plain and objective in ('mlm', 'clm')):
        raise ValueError(
            f'objective={objective!r}, optimizer={optimizer!r}, accumulate='
            f'{case["accumulate"]}, model={case["model"]!r}: the side of transformers '
            'has mlm and clm, adamw, no microbatches and a transformer of the families '
            f'Llama and EuroBERT, of which it sets {", ".join(_SIZES)}. Use these.'
        )


def process_memory():
    """Peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _unmasked(module, q, k, v, attention_mask, scaling=None, **_):
    """Attention for transformers without a mask: each row is one unpadded document."""
    import torch

    del attention_mask
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, scale=scaling, is_causal=module.is_causal, enable_gqa=True
    )
    return out.transpose(1, 2).contiguous(), None


def _libraries():
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ImportError(
            f'side=transformers needs {error.name}, which is not installed: pip '
            "install torch 'transformers>=5.2', or run only our own cases "
            '(configs/benchmark.py:objectives).'
        ) from error
    return torch, transformers
