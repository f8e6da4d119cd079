"""Starts a run from another model: one of this package, or any that hf/ reads.

config.init_from = dict(path='hf:NAME', revision=None, adapt=dict(mask='auto'))
config.init_from = dict(path='runs/old', step=None, optimizer='kept')

describe     reads the start once; the result is saved in init_from.json, which is all
             that a resumed run reads
inferred     settings that follow from the start: the model section (keys without a
             `name` are changes to it, and None means no change: dtype, depth,
             rope_theta, ...), whether heads are tied, and, with
             prepare.tokenizer='init_from', the tokens
initialize   the first state: encoder and LM head of the start, converted to fit
             (convert.py); other modules are new, and the target is a copy of the
             encoder. With optimizer='kept', all modules and moments of a run whose
             shapes are equal
"""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp

from jepa_text.config import schema
from jepa_text.data.rows import row_folder
from jepa_text.files import atomic, checksums
from jepa_text.hf import adapt as adapting
from jepa_text.hf import load as hf_load
from jepa_text.hf import named_tokenizer
from jepa_text.models import stack
from jepa_text.optim import optimizers
from jepa_text.parallel import processes, sharding
from jepa_text.pretrained import load
from jepa_text.running import places, restore
from jepa_text.training import convert
from jepa_text.training import state as states
from jepa_text.training.config import InitFrom

FILE = 'init_from.json'
# Options of a model that may be lists, with one value per layer.
BY_LAYER = ('rope_theta', 'window')
TOKEN_OBJECTIVES = ('clm', 'mlm', 'mntp')


def parse(section):
    """Returns the InitFrom of a section. Raises ValueError for an invalid one."""
    return schema.read(InitFrom, section, 'init_from')


def is_recorded(folder):
    """Whether the run in the folder has begun, so that init_from.json is final."""
    saved = folder and Path(folder, FILE).is_file()
    return bool(saved) and restore.steps(Path(folder, 'checkpoints'))


def describe(source):
    """Returns {'model', 'tied', 'family'} of the start, without reading parameters."""
    if source.is_foreign:
        name = source.path.removeprefix('hf:')
        section, tied, family = hf_load.sketch(name, **source.options)
        return {'model': json.loads(json.dumps(section)), 'tied': tied, 'family': family}
    folder = _folder(source)
    step, model = load.abstract(folder, source.step)
    record = folder / FILE
    saved = checksums.read_json(folder / 'config.json')
    phase = restore.meta(folder / 'checkpoints', step)['phase']
    theta = saved['phases'][phase].get('rope_theta')
    return {
        'model': stack.with_theta(saved['model'], theta),
        'tied': 'output' not in model.params['lm_head'],
        'family': checksums.read_json(record)['family'] if record.is_file() else None,
    }


def inferred(source, model, phases, folder):
    """Returns {'model': section, 'phases': sections} that follow from the start.

    What the run in `folder` has recorded is not read from the start again.
    """
    if is_recorded(folder):
        start = checksums.read_json(Path(folder, FILE))
    else:
        start = describe(source)
    if 'name' not in model:
        changes = {key: value for key, value in model.items() if value is not None}
        model = _changed(start['model'], changes)
    tied = functools.partial(_with_tied, tied=start['tied'])
    phases = [{**phase, 'objective': tied(phase['objective'])} for phase in phases]
    return {'model': model, 'phases': phases}


def _changed(section, changes):
    """Returns the model section with changes.

    Of a list with one value per layer, a single number changes all values except None,
    which stands for no position embedding or window.
    """
    changed = {**section, **changes}
    for key in BY_LAYER:
        listed, new = section.get(key), changes.get(key)
        if isinstance(listed, list | tuple) and isinstance(new, int | float):
            changed[key] = [value if value is None else new for value in listed]
    return changed


def _with_tied(section, tied):
    """Returns an objective's section with `tied` where it has logits and no `tied`."""
    name = section.get('name')
    if name in TOKEN_OBJECTIVES:
        return {'tied': tied, **section}
    if name == 'mixture':
        return {**section, 'parts': [_with_tied(p, tied) for p in section['parts']]}
    return {**section, 'mlm': {'tied': tied, **(section.get('mlm') or {})}}


def check_rows(source, tokenizer, rows, folder):
    """Raises ValueError if a new run would read existing rows of another tokenizer.

    Only checked if `tokenizer`, the name in the section `prepare`, is 'init_from'. `rows`
    is the folder of rows, `folder` the workdir of the run.
    """
    if not source or tokenizer != 'init_from' or not rows or is_recorded(folder):
        return
    if not row_folder.exists(rows):
        return
    manifest = row_folder.read_manifest(row_folder.fetch(rows, shards=False))
    fingerprint = manifest['tokenizer_fingerprint']
    wanted = named_tokenizer.opened(tokenizer, source).tokenizer.fingerprint
    if wanted != fingerprint:
        raise ValueError(
            f'The rows in {rows} were not made with the tokenizer of {source["path"]}: '
            f'their fingerprint is {fingerprint[:16]}..., that of the tokenizer is '
            f'{wanted[:16]}... Set another data.folder, where new rows will be prepared.'
        )


def initialize(recipe, state, folder):
    """Returns the new `state` of the first phase with the parameters of the start.

    Writes a description of the start and of its conversion to init_from.json in the
    folder, and prints it. Raises ValueError for a start that does not fit.
    """
    source = recipe.settings.init_from
    if source.weights == 'new':
        lines = [f'from      {source.path}: only shape and tokenizer', 'weights   new']
    elif source.optimizer == 'kept':
        state, lines = _continued(source, recipe, state)
    else:
        state, lines = _fitted(source, recipe, state)
    text = json.dumps({**describe(source), 'lines': lines}, indent=2) + '\n'
    processes.on_first(lambda: atomic.write(Path(folder, FILE), text), 'init_from.json')
    if jax.process_index() == 0:
        print('\n'.join(['init_from', *(f'  {line}' for line in lines)]))
    return state


def _fitted(source, recipe, state):
    """Returns (state with the converted encoder and head of the start, lines)."""
    if source.is_foreign:
        name = source.path.removeprefix('hf:')
        start = hf_load.load(name, mesh=recipe.mesh, **source.options)
        params, tokenizer = start.params, start.tokenizer
        lines = adapting.lines(start.record)
    else:
        folder = _folder(source)
        step, model = load.abstract(folder, source.step)
        shapes = {'params': convert.transferred(model.params)}
        params = _read(folder, step, recipe.mesh, shapes)['params']
        tokenizer, lines = model.tokenizer, _history(source, folder, step)
    if 'lm_head' not in params and source.head == 'keep':
        raise ValueError(
            f"init_from: {source.path} has no LM head. Set init_from.head='new' to "
            'create one.'
        )
    ours = convert.transferred(state.params)
    make, notes = convert.fit(params, tokenizer, ours, recipe.tokenizer, head=source.head)
    wanted = convert.transferred(ours, source.head)
    convert.check(jax.eval_shape(make, params), wanted)
    params = jax.jit(make, out_shardings=_shardings(wanted))(params)
    target = state.target
    if target is not None:
        copy = functools.partial(jax.tree.map, jnp.copy)
        target = jax.jit(copy, out_shardings=_shardings(target))(params['encoder'])
    state = state.replace(params={**state.params, **params}, target=target)
    return state, [*lines, *notes, 'moments   fresh']


def _continued(source, recipe, state):
    """Returns (state with all parameters and moments of a run of equal shapes, lines)."""
    folder = _folder(source)
    step, model = load.abstract(folder, source.step)
    if model.tokenizer.fingerprint != recipe.tokenizer.fingerprint:
        raise ValueError(
            f"init_from: optimizer='kept', but {source.path} has another tokenizer than "
            "these rows, so its moments do not fit. Use optimizer='fresh'."
        )
    before = checksums.read_json(folder / 'config.json')['optimizer']
    old = jax.eval_shape(optimizers.make(before).init, model.params)
    opt_state = jax.eval_shape(recipe.optimizer.init, model.params)
    if jax.tree.structure(old) != jax.tree.structure(opt_state):
        raise ValueError(
            f"init_from: optimizer='kept', but {source.path} was trained with {before}. "
            "Set the same optimizer, or use optimizer='fresh'."
        )
    convert.check(convert.transferred(model.params), convert.transferred(state.params))
    shapes = {'params': model.params, 'opt_state': opt_state}
    restored = _read(folder, step, recipe.mesh, shapes)
    state = state.replace(target=None, **restored)
    state = states.entered(recipe, recipe.phases[0], state)
    return state, [*_history(source, folder, step), f'moments   kept, {before["name"]}']


def _folder(source):
    """Returns the folder of a run; for one at an address, a copy with the step."""
    return places.model_folder('init_from.path', source.path, source.step)


def _read(folder, step, mesh, shapes):
    """Reads subtrees of a checkpoint onto the mesh."""
    return restore.part(folder / 'checkpoints', step, sharding.sharded(shapes, mesh))


def _history(source, folder, step):
    """Returns a line with the objectives that the start was trained with."""
    meta = restore.meta(folder / 'checkpoints', step)
    names = ', then '.join(phase['objective']['name'] for phase in meta['history'])
    return [f'from      {source.path} at step {step:,}: {names}']


def _shardings(tree):
    return jax.tree.map(lambda leaf: leaf.sharding, tree)
