"""What a run begins with: parameters of another model, ours or any that hf/ reads.

    config.start = dict(path='hf:NAME_OR_FOLDER', revision=None, become=dict(mask='auto'))
    config.start = dict(path='runs/old', step=None, optimizer='kept')

What the config leaves out, the start decides: the model section (keys without a `name`
are changes to it, None being none: dtype, depth, rope_theta, ...), whether heads are
tied, and with prepare.tokenizer='start' the words. A run looks at its start once: what it
found is in start.json, and a resumed run asks only that. first_state.py moves the
parameters.
"""

import dataclasses
import json
from pathlib import Path

from jepa_text import load
from jepa_text.config import schema
from jepa_text.data import rows
from jepa_text.files import paths, seal
from jepa_text.hf import load as hf_load
from jepa_text.running import workdir
from jepa_text.training import convert, prepare

FILE = 'start.json'
# Options of a model that may be a list, one for each layer.
BY_LAYER = ('rope_theta', 'window')
TOKEN_OBJECTIVES = ('clm', 'mlm', 'mntp')


@dataclasses.dataclass(frozen=True)
class Start:
    """The section `start`."""

    path: str = schema.field(doc="'hf:' and a folder or name, or the workdir of a run")
    step: int | None = schema.field(None, 'of a run, its newest checkpoint', least=0)
    revision: str | None = schema.field(None, "of an 'hf:' model")
    family: str | None = schema.field(None, "of an 'hf:' model, told by its files")
    become: dict = schema.field({}, "what an 'hf:' model becomes: see hf/load.load")
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
        paths.local('start.path', self.path, model=True)
        if self.weights == 'new' and self.optimizer == 'kept':
            raise ValueError("start: moments of weights that are new: optimizer='fresh'.")
        if self.head == 'new' and self.optimizer == 'kept':
            raise ValueError(
                "start: head='new' has no moments to keep, and with optimizer='kept' all "
                "parameters stay: take optimizer='fresh', or head='keep'."
            )
        theirs = self.step is not None or self.optimizer == 'kept'
        if self.is_foreign and theirs:
            raise ValueError(
                f'start: {self.path} has neither steps nor moments; leave step out, and '
                "optimizer at 'fresh'."
            )
        if not self.is_foreign and (self.revision or self.family or self.become):
            raise ValueError(
                'start: revision, family and become are about models of others, whose '
                f"path begins with 'hf:'; {self.path} is a workdir."
            )

    @property
    def is_foreign(self):
        return self.path.startswith('hf:')

    @property
    def options(self):
        """What hf/load is told."""
        return {
            'revision': self.revision,
            'family': self.family,
            'become': self.become or {},
        }


def of(section):
    """The Start of a section; ValueError for an unknown key or value."""
    return schema.read(Start, section, 'start')


def complete(config, folder=None):
    """The config with the model section and the `tied` of heads that the start decides.

    Without a start, the same. What the run in `folder` has found out is not asked again.
    Raises ValueError for keys that a start does not take, and whatever reading it raises.
    """
    if not config.get('start'):
        return config
    start = of(config['start'])
    found = seal.read_json(Path(folder, FILE)) if asked(folder) else look(start)
    model = dict(config.get('model') or {})
    if 'name' not in model:
        changes = {key: value for key, value in model.items() if value is not None}
        model = _changed(found['model'], changes, start.layers)
    phases = [
        {**phase, 'objective': _with_tied(phase['objective'], found['tied'])}
        for phase in config['phases']
    ]
    return {**config, 'model': model, 'phases': phases}


def asked(folder):
    """Has the run in the folder begun, so that what it asked its start is in a file?"""
    saved = folder and Path(folder, FILE).is_file()
    return bool(saved) and workdir.has_step(Path(folder, 'checkpoints'))


def check_words(config, folder):
    """Raises ValueError if prepare.tokenizer='start', and a new run in the folder would
    read rows that lie there already, in the words of another start."""
    named = (config.get('prepare') or {}).get('tokenizer')
    place = (config.get('data') or {}).get('folder')
    if not config.get('start') or named != 'start' or asked(folder):
        return
    if not place or not Path(place, rows.MANIFEST).is_file():
        return
    theirs = rows.read_manifest(place)['tokenizer_fingerprint']
    words = prepare.tokenizer_of(config)
    if words.fingerprint != theirs:
        raise ValueError(
            f'The rows in {place} are not in the words of {config["start"]["path"]}: the '
            f'fingerprint of their tokenizer is {theirs[:16]}..., its own is '
            f'{words.fingerprint[:16]}... Name another data.folder, where rows are then '
            'prepared for this start.'
        )


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


def look(start):
    """{'model': section, 'tied': bool, 'family': str or None}, without any parameter."""
    if start.is_foreign:
        name = start.path.removeprefix('hf:')
        section, tied, family = hf_load.sketch(name, **start.options)
        return {'model': json.loads(json.dumps(section)), 'tied': tied, 'family': family}
    _, model = load.abstract(start.path, start.step)
    config = seal.read_json(Path(start.path, 'config.json'))
    before = Path(start.path, FILE)
    return {
        'model': config['model'],
        'tied': 'output' not in model.params['lm_head'],
        'family': seal.read_json(before)['family'] if before.is_file() else None,
    }


def _with_tied(section, tied):
    """An objective's section with `tied` wherever it scores words and does not say."""
    name = section.get('name')
    if name in TOKEN_OBJECTIVES:
        return {'tied': tied, **section}
    if name == 'mixture':
        return {**section, 'parts': [_with_tied(p, tied) for p in section['parts']]}
    return {**section, 'mlm': {'tied': tied, **(section.get('mlm') or {})}}
