"""Starts a run from another model: one of this package, or any that hf/ reads.

config.init_from = dict(path='hf:NAME', revision=None, adapt=dict(head='new'))
config.init_from = dict(path='runs/old', step=None, optimizer='kept')

The start is read once: a resumed run reads what init_from.json says of it. Settings that
follow from it are the model section (keys without a `name` are changes to it, and None
means no change), whether heads are tied, that a start without an LM head gets a new one,
and, with prepare.tokenizer='init_from', the tokens. Encoder and LM head are converted to
fit, other modules are new; with optimizer='kept', all modules and moments are taken, and
what the objectives of both have of the EMA target and the memory of the balance.

Conversion to fit:

tokens   rows of the embedding and columns of the head follow the text of the token;
         a token that the old tokenizer lacks starts at the mean of all (Hewitt 2021)
layers   scanned or unrolled, as in the new model
head     a kernel that was tied, and now is not, starts as the embedding
"""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import numpy as np
from flax import traverse_util

from jepa_text.data.rows import row_folder
from jepa_text.files import atomic, checksums
from jepa_text.hf import adapt as adapting
from jepa_text.hf import load as hf_load
from jepa_text.hf import named_tokenizer
from jepa_text.models import stack, transformer
from jepa_text.optim import optimizers
from jepa_text.parallel import processes, sharding
from jepa_text.pretrained import load
from jepa_text.running import checkpoint, metrics, places, restore
from jepa_text.settings import schema
from jepa_text.training import state as states
from jepa_text.training import switches
from jepa_text.training.config import InitFrom

FILE = 'init_from.json'
TOKEN_OBJECTIVES = ('clm', 'mlm', 'mntp')


def parse(section):
    """Returns the InitFrom of a section. Raises ValueError for an invalid one."""
    return schema.read(InitFrom, section, 'init_from')


def is_recorded(folder):
    """Whether the run in the folder has begun, so that init_from.json is final."""
    saved = folder and Path(folder, FILE).is_file()
    return bool(saved) and restore.steps(Path(folder, 'checkpoints'))


def describe(source):
    """Returns {'model', 'tied', 'family', 'has_head'} of the start, without reading
    parameters."""
    if source.is_foreign:
        name = source.path.removeprefix('hf:')
        return json.loads(json.dumps(hf_load.sketch(name, **source.options)))
    folder = _folder(source)
    step, model = load.abstract(folder, source.step)
    record = folder / FILE
    saved = checksums.read_json(folder / 'config.json')
    phase = restore.meta(folder / 'checkpoints', step)['phase']
    theta = saved['phases'][phase].get('rope_theta')
    return {
        'model': stack.changed(saved['model'], {'rope_theta': theta}),
        'tied': 'output' not in model.params.get('lm_head', {}),
        'family': checksums.read_json(record)['family'] if record.is_file() else None,
        'has_head': 'lm_head' in model.params,
    }


def inferred(source, model, phases, folder):
    """Returns {'model': section, 'phases': sections, 'init_from': section} that follow
    from the start. Prints that it gets a new LM head, if so.

    What the run in `folder` has recorded is not read from the start again.
    """
    recorded = is_recorded(folder)
    start = checksums.read_json(Path(folder, FILE)) if recorded else describe(source)
    if not start.get('has_head', True) and source.head == source.weights == 'keep':
        source = dataclasses.replace(source, head='new')
        if not recorded and jax.process_index() == 0:
            print(f'init_from: {source.path} has no LM head; a new one is trained.')
    if 'name' not in model:
        model = stack.changed(start['model'], model)
    tied = functools.partial(_with_tied, tied=start['tied'])
    phases = [{**phase, 'objective': tied(phase['objective'])} for phase in phases]
    return {'model': model, 'phases': phases, 'init_from': schema.as_dict(source)}


def _with_tied(section, tied):
    """Returns an objective's section with `tied` where it has logits and no `tied`."""
    name = section.get('name')
    if name in TOKEN_OBJECTIVES:
        return {'tied': tied, **section}
    if name == 'mixture':
        return {**section, 'parts': [_with_tied(p, tied) for p in section['parts']]}
    if '.' in str(name):  # a user's own, which may not take it
        return section
    return {**section, 'mlm': {'tied': tied, **(section.get('mlm') or {})}}


def check_rows(source, tokenizer, rows, folder):
    """Raises ValueError if a new run would read existing rows of another tokenizer.

    Only checked if `tokenizer`, the name in the section `prepare`, is 'init_from'. `rows`
    is the folder of rows, `folder` the workdir of the run.
    """
    if tokenizer != 'init_from' or is_recorded(folder) or not row_folder.exists(rows):
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
    state, lines = started(recipe, state)
    text = json.dumps({**describe(source), 'lines': lines}, indent=2) + '\n'
    processes.on_first(lambda: atomic.write(Path(folder, FILE), text), 'init_from.json')
    if jax.process_index() == 0:
        print('\n'.join(['init_from', *(f'  {line}' for line in lines)]))
    return state


def started(recipe, state):
    """Returns (the new `state` with the parameters of the start, lines that describe it);
    writes nothing. Raises ValueError as `initialize`."""
    source = recipe.settings.init_from
    if source.weights == 'new':
        lines = [f'from      {source.path}: only shape and tokenizer', 'weights   new']
        return state, lines
    if source.optimizer == 'kept':
        return _continued(source, recipe, state)
    return _fitted(source, recipe, state)


def _fitted(source, recipe, state):
    """Returns (state with the converted encoder and head of the start, lines)."""
    head = source.head if 'lm_head' in state.params else 'new'
    if source.is_foreign:
        name = source.path.removeprefix('hf:')
        start = hf_load.load(name, mesh=recipe.mesh, **source.options)
        params, tokenizer = start.params, start.tokenizer
        lines = adapting.lines(start.record)
    else:
        folder = _folder(source)
        step, model = load.abstract(folder, source.step)
        shapes = {'params': transferred(model.params, head)}
        params = _read(folder, step, recipe.mesh, shapes)['params']
        tokenizer, lines = model.tokenizer, _history(source, folder, step)
    ours = transferred(state.params)
    make, notes = _fit(params, tokenizer, ours, recipe.tokenizer, head=head)
    wanted = transferred(ours, head)
    _check_shapes(jax.eval_shape(make, params), wanted)
    params = jax.jit(make, out_shardings=_shardings(wanted))(params)
    target = state.target
    if target is not None:
        copied = jax.jit(states.copy, out_shardings=_shardings(target))
        target = copied(params['encoder'])
    state = state.replace(params={**state.params, **params}, target=target)
    return state, [*lines, *notes, 'moments   fresh']


def _continued(source, recipe, state):
    """Returns (state with all parameters and moments of a run of equal shapes, lines).

    The target and the memory are also that run's where both objectives have them.
    """
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
    _check_shapes(transferred(model.params), transferred(state.params))
    then, now = model.network.objective, recipe.phases[0].objective
    memory = {k: x for k, x in then.memory().items() if k not in now.forgotten(then)}
    target = model.params['encoder'] if then.has_target and now.has_target else None
    shapes = {'params': model.params, 'opt_state': opt_state, 'target': target}
    shapes['memory'] = jax.eval_shape(lambda: memory) or None
    restored = _read(folder, step, recipe.mesh, shapes)
    # `entered` leaves out what the objective has no use for.
    restored['memory'] = state.memory | (restored['memory'] or {})
    state = state.replace(**restored)
    state = switches.entered(recipe, recipe.phases[0], state)
    return state, [*_history(source, folder, step), f'moments   kept, {before["name"]}']


def _folder(source):
    """Returns the folder of a run; for one at an address, a copy with the step."""
    return places.model_folder('init_from.path', source.path, source.step)


def _read(folder, step, mesh, shapes):
    return restore.part(folder / 'checkpoints', step, sharding.sharded(shapes, mesh))


def _history(source, folder, step):
    """Returns a line with the objectives that the start was trained with."""
    meta = restore.meta(folder / 'checkpoints', step)
    names = ', then '.join(phase['objective']['name'] for phase in meta['history'])
    return [f'from      {source.path} at step {step:,}: {names}']


def _shardings(tree):
    return jax.tree.map(lambda leaf: leaf.sharding, tree)


def trunk(recipe, folder, source, step):
    """Returns (state of another run at a step, metadata of the run in the folder).

    The metrics up to the step become those of this run, and so does the record of the
    model that both started from, if any.
    """

    def copy():
        metrics.copy(source, folder, step)
        record = Path(source, FILE)
        if record.is_file():
            atomic.write(Path(folder, FILE), record.read_bytes())

    processes.on_first(copy, 'the trunk')
    state, meta = checkpoint.read(
        Path(source, 'checkpoints'),
        step,
        lambda _, meta: recipe.abstract_state(recipe.phases[meta['phase']]),
    )
    own = recipe.meta(recipe.phases[meta['phase']], step)
    return state, meta | own


def transferred(params, head='keep'):
    """Returns the modules that are taken from another model."""
    names = ('encoder', 'lm_head') if head == 'keep' else ('encoder',)
    return {name: params[name] for name in names if name in params}


def _fit(params, old, shapes, new, *, head):
    """Returns (function from params of another model to ours, lines that describe it).

    `old` and `new` are tokenizers; `shapes` are those of our encoder and head; `head` is
    'keep' or 'new'.
    """
    have, want = (len(tree['encoder']['embedding']) for tree in (params, shapes))
    same = old.fingerprint == new.fingerprint and have == want
    rows_V = np.arange(want) if same else token_rows(old, new, have, want)
    was_untied, is_untied = (
        'output' in tree.get('lm_head', {}) for tree in (params, shapes)
    )
    if head == 'keep' and was_untied and not is_untied:
        raise ValueError(
            'init_from: the head of the start has a kernel of its own, which tied=True '
            "would discard. Set tied=False in the objectives, or init_from.head='new'."
        )

    def make(params):
        params = transferred(params, head)
        if not np.array_equal(rows_V, np.arange(have)):
            leaves = traverse_util.flatten_dict(params, keep_empty_nodes=True, sep='/')
            known = min(old.vocab_size, have)
            leaves = adapting.with_token_rows(leaves, rows_V, known)
            params = traverse_util.unflatten_dict(leaves, sep='/')
        params['encoder'] = _with_scan(params['encoder'], 'layers' in shapes['encoder'])
        return switches.with_head(params, shapes) if head == 'keep' else params

    scores = 'the head of the start'
    if head == 'new':
        kernel = 'with a kernel of its own' if is_untied else 'tied to the embedding'
        scores = f'a new head, {kernel}'
    elif is_untied and not was_untied:
        scores = 'a kernel of its own, which starts as the embedding'
    return make, [
        f'tokens    {want:,} rows, {int((rows_V < 0).sum()):,} of them new, at the mean '
        'of all',
        f'head      {scores}',
    ]


def token_rows(old, new, have, want):
    """Returns the old row of each of `want` new rows, or -1 for the mean, int32 [want].

    Spare rows, which belong to no token, keep their index if it exists.
    """
    rows_V = np.full(want, -1, np.int32)
    spare = np.arange(old.vocab_size, have)
    rows_V[spare[spare < want]] = spare[spare < want]
    rows_V[: new.vocab_size] = -1
    for number in range(min(new.vocab_size, want)):
        token = new.backend.id_to_token(number)
        known = None if token is None else old.backend.token_to_id(token)
        if known is not None and known < have:
            rows_V[number] = known
    return rows_V


def _with_scan(encoder, scan):
    if scan == ('layers' in encoder):
        return encoder
    convert = transformer.stack_layers if scan else transformer.unstack_layers
    return convert(encoder)


def _check_shapes(have, wanted):
    have, wanted = restore.describe(have), restore.describe(wanted)
    if found := restore.mismatches(have, wanted, 'in the start'):
        raise ValueError(
            f'The model differs from the start: {found}. Remove sizes from the model '
            'section, or set those of the start.'
        )
