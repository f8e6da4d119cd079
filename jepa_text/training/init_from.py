"""What a run begins with: parameters of another model, ours or any that hf/ reads.

config.init_from = dict(path='hf:NAME', revision=None, adapt=dict(mask='auto'))
config.init_from = dict(path='runs/old', step=None, optimizer='kept')

describe  the start is read, once: what was found stands in init_from.json, and a
          resumed run asks only that
decided   what the config leaves out: the model section (keys without a `name` are
          changes to it, None being none: dtype, depth, rope_theta, ...), whether
          heads are tied, and with prepare.tokenizer='init_from' the tokens
begin     the first state: encoder and LM head of the start, made to fit (convert.py);
          other modules are new, the target is a copy of the encoder. With
          optimizer='kept', all modules and moments of a run of the same shapes
"""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp

from jepa_text import load
from jepa_text.config import schema
from jepa_text.data.rows import downloaded, row_folder
from jepa_text.files import addresses, atomic, checksums
from jepa_text.hf import adapt as adapting
from jepa_text.hf import load as hf_load
from jepa_text.models import stack
from jepa_text.optim import optimizers
from jepa_text.parallel import processes, sharding
from jepa_text.running import download, restore, workdir
from jepa_text.training import convert, named_tokenizer
from jepa_text.training import recipe as recipes

FILE = 'init_from.json'
# Options of a model that may be a list, one for each layer.
BY_LAYER = ('rope_theta', 'window')
TOKEN_OBJECTIVES = ('clm', 'mlm', 'mntp')


@dataclasses.dataclass(frozen=True)
class InitFrom:
    """The section `init_from`."""

    path: str = schema.field(doc="'hf:' and a folder or name, or the workdir of a run")
    step: int | None = schema.field(None, 'of a run, its newest checkpoint', minimum=0)
    revision: str | None = schema.field(None, "of an 'hf:' model")
    family: str | None = schema.field(None, "of an 'hf:' model, told by its files")
    adapt: dict = schema.field({}, "what an 'hf:' model becomes: see hf/load.load")
    weights: str = schema.field(
        'keep', "'new': its shape and tokenizer alone", choices=('keep', 'new')
    )
    head: str = schema.field(
        'keep', "'new': the LM head starts afresh", choices=('keep', 'new')
    )
    layers: str | None = schema.field(
        None, 'how a model of another depth is made', choices=(None, *convert.LAYERS)
    )
    optimizer: str = schema.field(
        'fresh',
        "'kept': moments of a run with the same optimizer",
        choices=('fresh', 'kept'),
    )

    def __post_init__(self):
        addresses.place('init_from.path', self.path, model=True)
        kept = self.optimizer == 'kept'
        if self.weights == 'new' and kept:
            raise ValueError(
                "init_from: moments of weights that are new: optimizer='fresh'."
            )
        if self.head == 'new' and kept:
            raise ValueError(
                "init_from: head='new' has no moments to keep, and with "
                "optimizer='kept' all parameters stay: take optimizer='fresh', or "
                "head='keep'."
            )
        if self.is_foreign and (self.step is not None or kept):
            raise ValueError(
                f'init_from: {self.path} has neither steps nor moments; leave step '
                "out, and optimizer at 'fresh'."
            )
        if not self.is_foreign and any(self.options.values()):
            raise ValueError(
                'init_from: revision, family and adapt are about models of others, whose '
                f"path begins with 'hf:'; {self.path} is a workdir."
            )

    @property
    def is_foreign(self):
        return self.path.startswith('hf:')

    @property
    def options(self):
        """What hf/load is told beside the name."""
        return {
            'revision': self.revision,
            'family': self.family,
            'adapt': self.adapt or {},
        }


def of(section):
    """The Start of a section; ValueError for an unknown key or value."""
    return schema.read(InitFrom, section, 'init_from')


def asked(folder):
    """Has the run in the folder begun, so that what it asked its start is in a file?"""
    saved = folder and Path(folder, FILE).is_file()
    return bool(saved) and workdir.has_step(Path(folder, 'checkpoints'))


def describe(source):
    """{'model': section, 'tied': bool, 'family': str or None}, without any parameter."""
    if source.is_foreign:
        name = source.path.removeprefix('hf:')
        section, tied, family = hf_load.sketch(name, **source.options)
        return {'model': json.loads(json.dumps(section)), 'tied': tied, 'family': family}
    folder = _folder(source)
    step, model = load.abstract(folder, source.step)
    before = folder / FILE
    saved = checksums.read_json(folder / 'config.json')
    phase = restore.meta(folder / 'checkpoints', step)['phase']
    theta = saved['phases'][phase].get('rope_theta')
    return {
        'model': stack.with_theta(saved['model'], theta),
        'tied': 'output' not in model.params['lm_head'],
        'family': checksums.read_json(before)['family'] if before.is_file() else None,
    }


def decided(source, model, phases, folder=None):
    """{'model': section, 'phases': sections} with what the start decides.

    What the run in `folder` has found out is not asked again.
    """
    found = checksums.read_json(Path(folder, FILE)) if asked(folder) else describe(source)
    if 'name' not in model:
        changes = {key: value for key, value in model.items() if value is not None}
        model = _changed(found['model'], changes, source.layers)
    tied = functools.partial(_with_tied, tied=found['tied'])
    phases = [{**phase, 'objective': tied(phase['objective'])} for phase in phases]
    return {'model': model, 'phases': phases}


def _changed(section, changes, how):
    """The section with the changes. What it lists by layer goes with the layers, and
    one number for all changes no layer that has none, as those without positions."""
    found = {**section, **changes}
    for key in BY_LAYER:
        listed, new = section.get(key), changes.get(key)
        if not isinstance(listed, list | tuple) or isinstance(new, list | tuple):
            continue
        if new is not None:
            listed = [one if one is None else new for one in listed]
        depth = changes.get('depth', len(listed))
        rows_N, _ = convert.layer_rows(len(listed), depth, how)
        found[key] = [listed[row] for row in rows_N]
    return found


def _with_tied(section, tied):
    """An objective's section with `tied` wherever it has logits and does not say."""
    name = section.get('name')
    if name in TOKEN_OBJECTIVES:
        return {'tied': tied, **section}
    if name == 'mixture':
        return {**section, 'parts': [_with_tied(p, tied) for p in section['parts']]}
    return {**section, 'mlm': {'tied': tied, **(section.get('mlm') or {})}}


def check_rows(source, wanted, place, folder):
    """Raises ValueError if prepare.tokenizer is 'init_from', as `wanted`, and a new run
    in the folder would read rows that lie in `place` already, in the tokens of another.
    """
    if not source or wanted != 'init_from' or not place or asked(folder):
        return
    if not downloaded.is_there(place):
        return
    theirs = row_folder.read_manifest(downloaded.here(place, shards=False))[
        'tokenizer_fingerprint'
    ]
    own = named_tokenizer.opened(wanted, source).tokenizer.fingerprint
    if own != theirs:
        raise ValueError(
            f'The rows in {place} are not in the tokens of {source["path"]}: the '
            f'fingerprint of their tokenizer is {theirs[:16]}..., its own is '
            f'{own[:16]}... Name another data.folder, where rows are then prepared for '
            'this start.'
        )


def begin(recipe, state, folder):
    """The fresh `state` of a recipe's first phase with the parameters of the start.

    Writes what was found and done to init_from.json in the folder, and prints it. Raises
    ValueError for a start that does not fit.
    """
    source = recipe.init_from
    if source.weights == 'new':
        lines = [f'from      {source.path}: shape and tokenizer alone', 'weights   new']
    elif source.optimizer == 'kept':
        state, lines = _kept(source, recipe, state)
    else:
        state, lines = _fitted(source, recipe, state)
    text = json.dumps({**describe(source), 'lines': lines}, indent=2) + '\n'
    processes.first(lambda: atomic.write(Path(folder, FILE), text), 'what it starts from')
    if jax.process_index() == 0:
        print('\n'.join(['init_from', *(f'  {line}' for line in lines)]))
    return state


def _fitted(source, recipe, state):
    """The state with encoder and head of the start made to fit, and what was done."""
    if source.is_foreign:
        name = source.path.removeprefix('hf:')
        found = hf_load.load(name, mesh=recipe.mesh, **source.options)
        params, tokenizer = found.params, found.tokenizer
        lines = adapting.lines(found.record)
    else:
        folder = _folder(source)
        step, model = load.abstract(folder, source.step)
        shapes = {'params': convert.kept(model.params)}
        params = _read(folder, step, recipe.mesh, shapes)['params']
        tokenizer, lines = model.tokenizer, _history(source, folder, step)
    if 'lm_head' not in params and source.head == 'keep':
        raise ValueError(
            f"init_from: {source.path} has no LM head; take init_from.head='new', "
            'which makes '
            'one.'
        )
    ours = convert.kept(state.params)
    make, done = convert.fit(
        params, tokenizer, ours, recipe.tokenizer, head=source.head, how=source.layers
    )
    wanted = convert.kept(ours, source.head)
    convert.check(jax.eval_shape(make, params), wanted)
    params = jax.jit(make, out_shardings=_shardings(wanted))(params)
    target = state.target
    if target is not None:
        copy = functools.partial(jax.tree.map, jnp.copy)
        target = jax.jit(copy, out_shardings=_shardings(target))(params['encoder'])
    state = state.replace(params={**state.params, **params}, target=target)
    return state, [*lines, *done, 'moments   fresh']


def _kept(source, recipe, state):
    """The state with all parameters and moments of a run of the same shapes."""
    folder = _folder(source)
    step, model = load.abstract(folder, source.step)
    if model.tokenizer.fingerprint != recipe.tokenizer.fingerprint:
        raise ValueError(
            f"init_from: optimizer='kept', but {source.path} reads other tokens than "
            "these rows, so its moments do not fit: take optimizer='fresh'."
        )
    before = checksums.read_json(folder / 'config.json')['optimizer']
    opt_state = jax.eval_shape(optimizers.make(before).init, model.params)
    now = jax.eval_shape(recipe.optimizer.init, model.params)
    if jax.tree.structure(opt_state) != jax.tree.structure(now):
        raise ValueError(
            f"init_from: optimizer='kept', but {source.path} was trained by {before}: "
            "name the same optimizer, or take optimizer='fresh'."
        )
    relaid = functools.partial(
        convert.with_scan,
        scan='layers' in state.params['encoder'],
        depth=model.network.encoder.depth,
    )
    laid = jax.eval_shape(relaid, model.params)
    convert.check(convert.kept(laid), convert.kept(state.params))
    shapes = {'params': model.params, 'opt_state': now}
    found = relaid(_read(folder, step, recipe.mesh, shapes))
    enter = recipes.entering(recipe, recipe.phases[0])
    state = jax.jit(enter, out_shardings=_shardings(state))(
        state.replace(target=None, **found)
    )
    return state, [*_history(source, folder, step), f'moments   kept, {before["name"]}']


def _folder(source):
    """The folder of a run, or the copy of one at an address, with the step."""
    return download.folder('init_from.path', source.path, source.step)


def _read(folder, step, mesh, shapes):
    """Subtrees of a checkpoint, on the mesh."""
    return restore.part(folder / 'checkpoints', step, sharding.placed(shapes, mesh))


def _history(source, folder, step):
    meta = restore.meta(folder / 'checkpoints', step)
    names = ', then '.join(phase['objective']['name'] for phase in meta['history'])
    return [f'from      {source.path} at step {step:,}: {names}']


def _shardings(tree):
    return jax.tree.map(lambda leaf: leaf.sharding, tree)
