"""README.md of an exported folder: what was trained on what, and what was measured.

Nothing in it is a promise: what the given facts do not say is called unknown. It is made
to be passed on, so a path of this machine is only its last name.
"""

import dataclasses
from pathlib import PurePosixPath, PureWindowsPath

# How an architecture's name ends -> its task, and the class that loads it.
TASKS = {
    'ForMaskedLM': ('fill-mask', 'AutoModelForMaskedLM'),
    'ForCausalLM': ('text-generation', 'AutoModelForCausalLM'),
    'ForSequenceClassification': (
        'text-classification',
        'AutoModelForSequenceClassification',
    ),
    'ForTokenClassification': (
        'token-classification',
        'AutoModelForTokenClassification',
    ),
    'ForQuestionAnswering': ('question-answering', 'AutoModelForQuestionAnswering'),
}
VECTORS = ('feature-extraction', 'AutoModel')
GONE = 'Unknown: the rows are no longer where they were.'


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a run says of a step: its phases so far, {folder: the manifest of its rows, or
    None where it is no longer there}, the newest held-out measurements until then, their
    step, and what they say in sentences (all but the first are warnings), what it started
    from, and the result line of its fine-tuning."""

    step: int | None = None
    history: tuple = ()
    manifests: dict = dataclasses.field(default_factory=dict)
    measured: dict = dataclasses.field(default_factory=dict)
    measured_at: int | None = None
    sentences: tuple = ()
    init_from: dict | None = None
    tuned: dict | None = None


def text(model, architecture, parameters, facts=None, license_name=None):
    """The text of README.md: front matter, then what is known, in Markdown."""
    facts = facts or Facts()
    task, loader = _task(architecture, model.causal)
    front = [
        '---',
        'library_name: transformers',
        f'pipeline_tag: {task}',
        f'license: {license_name or "unknown"}',
        'tags: [jepa-text]',
        '---',
    ]
    said = license_name or 'unknown: ask who trained it before you pass it on'
    about = [
        f'# {named(model.name)}',
        '',
        f'{architecture}, {parameters:,} parameters in float32, texts of up to '
        f'{model.length:,} tokens. License: {said}.',
    ]
    # A model that learned nothing says so before all else.
    about += [line for warning in facts.sentences[1:] for line in ('', f'**{warning}**')]
    parts = [front, about, _training(facts), _tuning(facts.tuned)]
    parts += [_data(facts), _measurements(facts)]
    parts.append(_usage(model, architecture, loader))
    return '\n\n'.join('\n'.join(part) for part in parts if part) + '\n'


def named(value):
    """A path of this machine by its last name; anything else, as a name on the hub, as it
    is.

    >>> named('/books/my own/'), named('hf:~/models/small'), named('org/model'), named(3)
    ('my own', 'small', 'org/model', 3)
    """
    if isinstance(value, list | tuple):
        return [named(one) for one in value]
    if not isinstance(value, str):
        return value
    path = PureWindowsPath(value.removeprefix('hf:'))
    is_of_here = PurePosixPath(value.removeprefix('hf:')).is_absolute() or path.drive
    is_of_here = is_of_here or path.parts[:1] in (('~',), ('..',), ('\\',))
    return path.name if is_of_here else value


def _task(architecture, causal):
    """(the pipeline's name of the task, the class that loads the model)."""
    if architecture.endswith('ForCausalLM') and not causal:
        return VECTORS
    found = (task for end, task in TASKS.items() if architecture.endswith(end))
    return next(found, VECTORS)


def _training(facts):
    if not facts.history and not facts.init_from:
        return []
    lines = ['## Training', '']
    if facts.init_from:
        lines += ['Started from another model:', '', '```']
        lines += [*facts.init_from['lines'], '```', '']
    for phase in facts.history:
        objective = ', '.join(f'{k}={v}' for k, v in phase['objective'].items())
        lines.append(f'- steps {phase["start"]:,} to {phase["stop"]:,}: {objective}')
    return lines


def _tuning(tuned):
    if not tuned:
        return []
    lines = ['## Fine-tuning', '']
    if 'model' in tuned:
        lines.append(f'- from {named(tuned["model"])}')
    keys = 'task', 'kind', 'learning_rate', 'seed', 'steps', 'batch_size', 'max_length'
    keys += 'template', 'pooling', 'precision'
    said = ', '.join(f'{key}={tuned[key]!r}' for key in keys if tuned.get(key))
    lines += [f'- {said}', '']
    for definition, values in (tuned.get('test') or {}).items():
        lines += [f'Test set, {definition} definitions:', '']
        lines += ['| metric | value |', '|---|---|']
        lines += [f'| {name} | {value:.4f} |' for name, value in values.items()]
        lines.append('')
    return lines[:-1]


def _data(facts):
    if facts.tuned:
        return ['## Data', '', 'Of the fine-tuning above; before it, of the model named.']
    if not facts.history:
        return ['## Data', '', 'Unknown: not trained here.']
    lines = []
    for manifest in facts.manifests.values():
        lines += ['', *_of_folder(manifest)]
    return ['## Data', *(lines or ['', GONE])]


def _of_folder(manifest):
    if manifest is None:
        return [GONE]
    settings = manifest['settings']
    source = ', '.join(f'{k}={named(value)}' for k, value in settings['source'].items())
    lines = [f'Source: {source}; rows of {settings["row_length"]} tokens.', '']
    for split, counts in manifest['splits'].items():
        lines.append(
            f'- {split}: {counts["documents"]:,} documents, {counts["tokens"]:,} tokens'
        )
    return lines


def _measurements(facts):
    if not facts.measured:
        return []
    rows = [f'| {name} | {value:.4f} |' for name, value in sorted(facts.measured.items())]
    at = f'On held-out rows, at step {facts.measured_at:,}.'
    if facts.measured_at != facts.step:
        at += f' The weights are those of step {facts.step:,}.'
    head = ['## Measured', '', ' '.join([at, *facts.sentences[:1]]), '']
    return [*head, '| metric | value |', '|---|---|', *rows]


def _usage(model, architecture, loader):
    lines = ['## Use', '']
    if architecture.startswith('EuroBert'):
        lines += ['Needs transformers 5.3 or later.', '']
    lines += [
        '```python',
        f'from transformers import AutoTokenizer, {loader}',
        '',
        "tokenizer = AutoTokenizer.from_pretrained('FOLDER')",
        f"model = {loader}.from_pretrained('FOLDER')",
        '```',
    ]
    if architecture.endswith('ForCausalLM') and not model.causal:
        lines += [
            '',
            'It attends bidirectionally, so AutoModelForCausalLM gives logits, but '
            'cannot generate.',
        ]
    lines += [
        '',
        f'In sentence-transformers, a text is its vectors pooled by {model.pool!r}, '
        'those of special tokens too.',
    ]
    if model.shift and not model.causal:
        lines += [
            '',
            'It names a masked token at the position before it (MNTP), so the fill-mask '
            'pipeline, which looks at the position itself, does not fit.',
        ]
    return lines
