"""Fine-tuning against transformers, with the same rows, order, head and no dropout."""

import dataclasses

import examined
import jax
import numpy as np
import pytest

from jepa_text.evaluation.members import grid
from jepa_text.pretrained import labels, load, prediction

pytestmark = pytest.mark.peer


@pytest.fixture(scope='module')
def theirs(tmp_path_factory):
    """A random BERT with three classes, and its folder."""
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp('bert')
    # No dropout, so that results are deterministic.
    still = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = examined.bert_of_others(
        transformers, folder, 'SequenceClassification', num_labels=2, **still
    )
    return torch, transformers, model, folder


def test_losses_of_fifty_steps_equal_transformers(theirs):
    torch, transformers, model, folder = theirs
    ours = load.load(f'hf:{folder}')
    tokenizer = ours.tokenizer
    ends = dict(begin=(tokenizer.bos_id,), end=(tokenizer.eos_id,))
    ours = dataclasses.replace(ours, **ends)
    kind = labels.Labels(labels=('land', 'sea'), pool='cls', act='tanh')
    examples = examined.sea_or_land(120)
    rows = kind.rows(prediction.reader(ours), examples)
    recipe = grid.Recipe(steps=50, batch_size=8)
    made = grid.Grid(ours, kind, recipe)
    member = grid.Member(3e-3, 0)
    head = jax.tree.map(np.asarray, made.head(member.seed))
    head_kernel = head['dense']['kernel']
    with torch.no_grad():
        for name, part in (
            ('dense', model.bert.pooler.dense),
            ('classifier', model.classifier),
        ):
            part.weight.copy_(torch.tensor(head[name]['kernel'].T))
            part.bias.copy_(torch.tensor(head[name]['bias']))
    ((_, params, losses_T),) = made.train(rows, [member])
    wanted = _trained(torch, transformers, model, rows, recipe, member, ours)
    np.testing.assert_allclose(losses_T, wanted, atol=1e-3)
    # The parameters did change.
    moved = np.abs(np.asarray(params['task_head']['dense']['kernel']) - head_kernel)
    theirs = model.bert.pooler.dense.weight.detach().numpy().T
    np.testing.assert_allclose(params['task_head']['dense']['kernel'], theirs, atol=1e-3)
    assert moved.mean() > 5e-3 and np.ptp(wanted) > 0.1


def _trained(torch, transformers, model, rows, recipe, member, ours):
    """Losses in torch, with the parameter groups and schedule of its Trainer."""
    plain = [p for n, p in model.named_parameters() if 'bias' in n or 'LayerNorm' in n]
    ids = set(map(id, plain))
    decayed = [p for p in model.parameters() if id(p) not in ids]
    groups = [{'params': decayed}, {'params': plain, 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(
        groups,
        lr=member.learning_rate,
        betas=(recipe.b1, recipe.b2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
    )
    warm = round(recipe.warmup * recipe.steps)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warm, recipe.steps)
    losses = []
    for index_B in grid.orders(len(rows), member.seed, recipe.steps, recipe.batch_size):
        chosen = [rows[i] for i in index_B if i >= 0]
        length = max(len(row.tokens) for row in chosen)
        pad = ours.tokenizer.pad_id
        tokens = [[*row.tokens, *[pad] * (length - len(row.tokens))] for row in chosen]
        mask = [[int(i < len(row.tokens)) for i in range(length)] for row in chosen]
        target = [int(row.targets['label']) for row in chosen]
        found = model(
            input_ids=torch.tensor(tokens),
            attention_mask=torch.tensor(mask),
            labels=torch.tensor(target),
        )
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(found.loss.item())
    return losses
