"""Parameters of the start -> the first state of a run, made to fit (convert.py).

Encoder and word head come from the start; other modules, and what the objective carries,
are new; the target is a copy of the encoder. With `optimizer='kept'`, all modules and the
moments of a run of the same shapes.
"""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import load
from jepa_text.files import atomic, seal
from jepa_text.hf import adapt as becoming
from jepa_text.hf import load as hf_load
from jepa_text.optim import optimizers
from jepa_text.parallel import processes, sharding
from jepa_text.running import restore
from jepa_text.training import convert
from jepa_text.training import init_from as starts
from jepa_text.training import state as states


def begin(section, recipe, state, folder):
    """The fresh `state` of a recipe's first phase with the parameters of the start.

    Writes what was found and done to start.json in the folder, and prints it. Raises
    ValueError for a start that does not fit.
    """
    start = starts.of(section)
    phase = recipe.phases[0]
    if start.weights == 'new':
        lines = [f'from      {start.path}: shape and words alone', 'weights   new']
    elif start.optimizer == 'kept':
        state, lines = _resumed(start, recipe, phase, state)
    else:
        state, lines = _transplanted(start, recipe, phase, state)
    record = {**starts.look(start), 'lines': lines}
    text = json.dumps(record, indent=2) + '\n'
    processes.first(
        lambda: atomic.write(Path(folder, starts.FILE), text), 'what it starts from'
    )
    if jax.process_index() == 0:
        print('\n'.join(['start', *(f'  {line}' for line in lines)]))
    return state


def _read(start, mesh):
    """(params, tokenizer, lines) of the start."""
    if start.is_foreign:
        name = start.path.removeprefix('hf:')
        found = hf_load.load(name, mesh=mesh, **start.options)
        return found.params, found.tokenizer, becoming.lines(found.record)
    step, model = load.abstract(start.path, start.step)
    params = _part(start, step, mesh, {'params': _words(model.params)})['params']
    return params, model.tokenizer, _history(start, step)


def _words(params):
    return {name: params[name] for name in ('encoder', 'lm_head')}


def _part(start, step, mesh, shapes):
    """Subtrees of a checkpoint, on the mesh."""
    places = sharding.shardings(shapes, mesh)
    wanted = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        shapes,
        places,
    )
    return restore.part(Path(start.path, 'checkpoints'), step, wanted)


def _history(start, step):
    meta = restore.meta(Path(start.path, 'checkpoints'), step)
    names = ', then '.join(phase['objective']['name'] for phase in meta['history'])
    return [f'from      {start.path} at step {step:,}: {names}']


def _transplanted(start, recipe, phase, state):
    """The state with encoder and head of the start made to fit, and what was done."""
    params, tokenizer, lines = _read(start, recipe.mesh)
    if 'lm_head' not in params and start.head == 'keep':
        raise ValueError(
            f"start: {start.path} has no word head; take start.head='new', which makes "
            'one.'
        )
    shapes = jax.eval_shape(lambda: _words(state.params))
    make, done = fit(params, tokenizer, shapes, recipe.tokenizer, start)
    convert.check(jax.eval_shape(make, params), _kept(shapes, start))
    places = jax.tree.map(lambda leaf: leaf.sharding, _kept(state.params, start))
    made = jax.jit(make, out_shardings=places)(params)
    target = state.target
    if target is not None:
        target = jax.jit(
            functools.partial(jax.tree.map, jnp.copy),
            out_shardings=jax.tree.map(lambda leaf: leaf.sharding, target),
        )(made['encoder'])
    state = state.replace(params={**state.params, **made}, target=target)
    return state, [*lines, *done, 'moments   fresh']


def fit(params, old, shapes, new, start):
    """(a function from the start's params to ours, lines that say what it does).

    `old` and `new` are tokenizers, `shapes` those of our encoder and head. Raises
    ValueError where a head would be lost, and as transplant.layer_rows does.
    """
    have = len(params['encoder']['embedding'])
    want = len(shapes['encoder']['embedding'])
    same = old.fingerprint == new.fingerprint and have == want
    rows_V = np.arange(want) if same else convert.word_rows(old, new, have, want)
    depths = _depth(params['encoder']), _depth(shapes['encoder'])
    if depths[0] != depths[1] and 'first' in params['encoder']:
        raise ValueError(
            f'start: a modernbert of {depths[0] + 1} layers cannot become one of '
            f'{depths[1] + 1}, as layers that see all come at regular intervals: leave '
            'depth out of the model section.'
        )
    rows_N, is_copy_N = convert.layer_rows(*depths, start.layers)
    # A norm after the last layer: the others stand before what they feed.
    if is_copy_N.any() and start.layers == 'identity' and 'norm' not in params['encoder']:
        raise ValueError(
            "start: layers='identity' would change what a BERT computes, as it norms "
            "after each sum: take 'stack' or 'interleave'."
        )
    keeps = start.head == 'keep'
    if keeps and 'output' in params['lm_head'] and 'output' not in shapes['lm_head']:
        raise ValueError(
            'start: its head has a kernel of its own, which tied=True would throw away. '
            "Set tied=False in the objectives, or start.head='new' if that is meant."
        )

    def make(params):
        params = _kept({'lm_head': {}, **params}, start)
        params = convert.with_words(params, rows_V, min(old.vocab_size, have))
        params['encoder'] = convert.with_layers(
            params['encoder'],
            rows_N,
            is_copy_N,
            silent=start.layers == 'identity',
            scan='layers' in shapes['encoder'],
        )
        return states.with_head(params, shapes) if keeps else params

    new_rows = int((rows_V < 0).sum())
    how = 'as they are' if depths[0] == depths[1] else f'{start.layers} of {depths[0]}'
    return make, [
        f'words     {want:,} rows, {new_rows:,} of them new, at the mean of all',
        f'layers    {depths[1]}, {how}',
        f'scores    {_scores(params, shapes, start)}',
    ]


def _kept(params, start):
    names = ('encoder', 'lm_head') if start.head == 'keep' else ('encoder',)
    return {name: params[name] for name in names}


def _depth(encoder):
    if 'layers' in encoder:
        return jax.tree.leaves(encoder['layers'])[0].shape[0]
    return sum(name.startswith('layer_') for name in encoder)


def _scores(params, shapes, start):
    own = 'output' in shapes['lm_head']
    if start.head == 'new':
        return f'a new head, {"its own kernel" if own else "tied to the embedding"}'
    if own and 'output' not in params['lm_head']:
        return 'a kernel of its own, which starts as the embedding'
    return 'the head of the start'


def _resumed(start, recipe, phase, state):
    """The state with all parameters and moments of a run of the same shapes."""
    step, model = load.abstract(start.path, start.step)
    if model.tokenizer.fingerprint != recipe.tokenizer.fingerprint:
        raise ValueError(
            f"start: optimizer='kept', but {start.path} reads other words than these "
            "rows, so its moments do not fit: take optimizer='fresh'."
        )
    before = seal.read_json(Path(start.path, 'config.json'))['optimizer']
    opt_state = jax.eval_shape(optimizers.make(before).init, model.params)
    now = jax.eval_shape(recipe.optimizer.init, model.params)
    if jax.tree.structure(opt_state) != jax.tree.structure(now):
        raise ValueError(
            f"start: optimizer='kept', but {start.path} was trained by {before}: name "
            "the same optimizer, or take optimizer='fresh'."
        )
    relaid = functools.partial(
        convert.with_scan,
        scan='layers' in state.params['encoder'],
        depth=model.network.encoder.depth,
    )
    laid = jax.eval_shape(relaid, model.params)
    convert.check(_words(laid), _words(state.params))
    shapes = {'params': model.params, 'opt_state': now}
    found = relaid(_part(start, step, recipe.mesh, shapes))
    enter = functools.partial(
        states.enter_phase,
        network=phase.network,
        objective=phase.objective,
        optimizer=recipe.optimizer,
        seed=recipe.seed,
    )
    places = jax.tree.map(lambda leaf: leaf.sharding, state)
    state = jax.jit(enter, out_shardings=places)(state.replace(target=None, **found))
    return state, [*_history(start, step), f'moments   kept, {before["name"]}']
