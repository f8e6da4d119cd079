"""Model card (README.md) of an exported folder: training, measurements and usage.

As the folder is meant to be shared, a path on this machine is reduced to its last
component.
"""

import dataclasses
import functools
import re
from pathlib import Path, PurePosixPath, PureWindowsPath

from jepa_text.hf.families import FAMILIES

# Suffix of an architecture's name, and of the class that loads it -> pipeline tag.
TASKS = {
    'ForMaskedLM': 'fill-mask',
    'ForCausalLM': 'text-generation',
    'ForSequenceClassification': 'text-classification',
    'ForTokenClassification': 'token-classification',
    'ForQuestionAnswering': 'question-answering',
}
# How the classes of decoders begin.
_DECODERS = tuple(family.stem for family in FAMILIES.values() if family.causal)


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known about a run at a step.

    name          title of the card; '' for the model's own
    history       its phases so far
    measured      the newest held-out measurements up to the step, taken at `measured_at`
    sentences     their interpretation; all but the first are warnings
    init_from     the model that it started from
    tuned         the result line of its fine-tuning
    """

    name: str = ''
    step: int | None = None
    history: tuple = ()
    measured: dict = dataclasses.field(default_factory=dict)
    measured_at: int | None = None
    sentences: tuple = ()
    init_from: dict | None = None
    tuned: dict | None = None


def text(model, architecture, parameters, facts=None, license_name=None, published=None):
    """The text of README.md: front matter, then the known facts, in Markdown.

    `published` is the name of the model on the hub, if it is there. Without
    `license_name`, a model that was loaded from a folder keeps the license of its card.
    """
    facts, record = facts or Facts(), model.record or {}
    start = ''
    if known := record.get('license'):
        start = f' Started from {public_name(record["source"])} ({known}).'
    license_name = license_name or known
    task, loader = _task(architecture, model.causal)
    license_text = license_name or 'unknown: ask its author before you share it'
    parts = [
        f'---\nlibrary_name: transformers\npipeline_tag: {task}\n'
        f'license: {license_name or "unknown"}\ntags: [jepa-text]\n---',
        f'# {published or facts.name or public_name(model.name).removeprefix("hf:")}',
        f'{architecture}, {parameters:,} parameters, texts of up to '
        f'{model.length:,} tokens. License: {license_text}.{start}',
        # Warnings, such as that a model learned nothing, come first.
        *(f'**{warning}**' for warning in facts.sentences[1:]),
        *_training(facts),
        *_tuning(facts.tuned),
        *_measurements(facts),
        *_usage(model, architecture, loader, published or 'FOLDER'),
    ]
    return '\n\n'.join(parts) + '\n'


def license_of(folder):
    """The license in the front matter of a folder's README.md; None if there is none."""
    path = Path(folder, 'README.md')
    text = path.read_text(encoding='utf-8', errors='replace') if path.is_file() else ''
    front = text.partition('\n---')[0] if text.startswith('---') else ''
    found = re.search(r'^license: *(\S+)', front, re.MULTILINE)
    return found[1] if found and found[1] != 'unknown' else None


def public_name(value):
    """The last component of a path on this machine; other values, such as hub names,
    unchanged.

    >>> [public_name(x) for x in ('/books/my own/', 'hf:~/models/small', 'org/model')]
    ['my own', 'small', 'org/model']
    """
    path = PureWindowsPath(value.removeprefix('hf:'))
    is_local = PurePosixPath(value.removeprefix('hf:')).is_absolute() or path.drive
    is_local = is_local or path.parts[:1] in (('~',), ('..',), ('\\',))
    return path.name if is_local else value


def _task(architecture, causal):
    """(pipeline tag, class that loads the model)."""
    for end, task in TASKS.items():
        if architecture.endswith(end) and (causal or end != 'ForCausalLM'):
            return task, f'AutoModel{end}'
    return 'feature-extraction', 'AutoModel'


def _training(facts):
    """Yields paragraphs, as the functions below."""
    if facts.history or facts.init_from:
        yield '## Training'
    if facts.init_from:
        yield 'Started from another model:'
        yield '\n'.join(['```', *facts.init_from['lines'], '```'])
    lines = []
    for phase in facts.history:
        objective = ', '.join(f'{k}={v}' for k, v in phase['objective'].items())
        lines.append(f'- steps {phase["start"]:,} to {phase["stop"]:,}: {objective}')
    if lines:
        yield '\n'.join(lines)


def _tuning(tuned):
    if not tuned:
        return
    yield '## Fine-tuning'
    keys = 'task', 'kind', 'learning_rate', 'seed', 'steps', 'batch_size', 'max_length'
    keys += 'template', 'pooling', 'precision'
    settings = ', '.join(
        f'{key}={tuned[key]!r}' for key in keys if tuned.get(key, '') != ''
    )
    start = f'- from {public_name(tuned["model"])}\n' if 'model' in tuned else ''
    yield f'{start}- {settings}'
    for definition, values in (tuned.get('test') or {}).items():
        yield f'Test set, {definition} definitions:'
        yield _table(values)


def _measurements(facts):
    if not facts.measured:
        return
    at = f'On held-out rows, at step {facts.measured_at:,}.'
    if facts.measured_at != facts.step:
        at += f' The weights are those of step {facts.step:,}.'
    yield '## Measured'
    yield ' '.join([at, *facts.sentences[:1]])
    yield _table(dict(sorted(facts.measured.items())))


def _table(values):
    rows = (f'\n| {name} | {value:.4f} |' for name, value in values.items())
    return f'| metric | value |\n|---|---|{"".join(rows)}'


def _usage(model, architecture, loader, name):
    yield '## Use'
    if architecture.startswith('EuroBert'):
        yield 'Needs transformers 5.3 or later.'
    elif not model.causal and architecture.startswith(_DECODERS):
        needs = 'Needs transformers 5.2 or later: earlier ones ignore `is_causal=false`, '
        yield f'{needs}and give other vectors without an error.'
    yield f'```python\nfrom transformers import AutoTokenizer, {loader}'
    yield (
        f"tokenizer = AutoTokenizer.from_pretrained('{name}')\n"
        f"model = {loader}.from_pretrained('{name}')\n```"
    )
    yield f"In jepa-text: `jepa_text.load('hf:{name}')`."
    if architecture.endswith('ForCausalLM') and not model.causal:
        yield (
            'It attends bidirectionally, so AutoModelForCausalLM returns logits, but '
            'cannot generate.'
        )
    read = functools.partial(model.tokenizer.backend.encode, add_special_tokens=False)
    is_other = read(['a', 'b'], is_pretokenized=True).ids != read('a b').ids
    if loader.endswith('TokenClassification') and is_other:
        yield (
            'With `is_split_into_words=True`, give each word but the first with the '
            'space before it: the tokenizer adds none.'
        )
    if center := getattr(model.kind, 'center', 0):
        yield f'The score of a text is its logit + {center!r}: the class has no bias.'
    yield (
        'In sentence-transformers, the vector of a text is its hidden states, including '
        f'those of special tokens, pooled by {model.pool!r}.'
    )
    if model.shift and not model.causal:
        yield (
            'It predicts a masked token at the position before it (MNTP), so the '
            'fill-mask pipeline, which reads the position itself, does not apply.'
        )
