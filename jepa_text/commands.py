"""The commands of the command line: what each calls, and the flags that it takes."""

import dataclasses
import functools
import importlib
import inspect
import re
import typing
from pathlib import Path

from jepa_text.settings import config_file, display, ranges, resolve

TRAIN = 'jepa_text.training.config'
STUDY = 'jepa_text.study.study'


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the command line.

    summary          one sentence, without a capital and a period
    function         MODULE:FUNCTION, called as function(config, workdir)
    config_module    the module whose `Config` its config file is checked against, or None
    example          arguments of a working example
    keys             {flag: config key} of flags that are short for --config.KEY;
                     {flag: help} of flags that are the config, if there is no file
    switches         {flag: help} of flags passed to the function as `flag=True`
    has_text         whether it has the flag --text, the texts that it reads
    arguments        {flag: (key, help)} of flags that are keys of the argument of the
                     shipped config with the name of the command; with them, the workdir
                     may be left out
    """

    summary: str
    function: str
    config_module: str | None
    example: str
    keys: dict = dataclasses.field(default_factory=dict)
    switches: dict = dataclasses.field(default_factory=dict)
    arguments: dict = dataclasses.field(default_factory=dict)
    has_text: bool = False


STEPS = {'steps': 'steps', 'tokenizer': 'prepare.tokenizer'}
FINETUNING = {'steps': 'finetuning.steps'}
MODEL = "'small', a run, a folder of finetune or save, or 'hf:' and a name or folder"
TASK = 'a file of texts and labels, or NAME or NAME@PATH'
EXAMINED = {
    'model': ('models', f'{MODEL}; several: A,B'),
    'task': ('tasks', f'{TASK}; several: A,B'),
}
TOKENIZER = 'bpe:8192'
TEXT = (
    'a file or folder of texts to train on: .txt, .jsonl, .csv or .parquet. The rows go '
    'to WORKDIR-rows, of `study` to WORKDIR/rows, of `prepare` to WORKDIR; without '
    f'--tokenizer, one is trained on the text ({TOKENIZER})'
)
ENGINE = {'engine': 'engine.name', 'jobs': 'engine.jobs'}
DRY_RUN = {'dry-run': 'print what would be trained, and exit'}
COMMANDS = {
    'train': Command(
        'pretrain a model, or resume from the newest valid checkpoint',
        'jepa_text.evaluation.train_command:run',
        TRAIN,
        'toy:clm_mlm --workdir=runs/clm_mlm',
        STEPS | {'seed': 'seed'},
        has_text=True,
    ),
    'evaluate': Command(
        'fine-tune models on tasks, for all rates and seeds, and compare them',
        'jepa_text.evaluation.evaluate:evaluate',
        'jepa_text.evaluation.config',
        '--model=runs/clm_mlm --task=bundled --workdir=runs/exam',
        FINETUNING | ENGINE,
        DRY_RUN,
        arguments=EXAMINED,
    ),
    'finetune': Command(
        'fine-tune one model on one task and save it for prediction',
        'jepa_text.evaluation.finetune_command:finetune',
        'jepa_text.evaluation.finetune_command',
        '--model=runs/clm_mlm --task=bundled --workdir=runs/tuned',
        FINETUNING,
        arguments={'model': ('model', MODEL), 'task': ('task', TASK)},
    ),
    'analyze': Command(
        'analyze the representations of models layer by layer, beside controls',
        'jepa_text.analysis.analyze:analyze',
        'jepa_text.analysis.analyze',
        '--model=runs/clm_mlm --workdir=runs/clm_mlm-analysis',
        ENGINE,
        arguments=EXAMINED,
    ),
    'export': Command(
        'export a model as a folder of transformers',
        'jepa_text.pretrained.export_command:run',
        None,
        '--workdir=runs/clm_mlm --to=exports/clm_mlm',
        {
            'to': 'folder to write',
            'step': 'step of the checkpoint; default: the newest',
            'family': 'model family to write, such as llama',
            'license': 'license for the model card',
            'dtype': 'float16 halves the file; default: float32',
        },
    ),
    'study': Command(
        'train several runs on the same rows and compare them in a report',
        f'{STUDY}:study',
        STUDY,
        'quickstart --workdir=runs/quickstart',
        STEPS | ENGINE,
        DRY_RUN,
        has_text=True,
    ),
    'plan': Command(
        'estimate the memory, time and price of a run; needs no accelerator',
        'jepa_text.planning.plan:plan',
        TRAIN,
        'pretrain:jepa_mlm,size=610m --hardware=h100:64',
        {key: f'plan.{key}' for key in ('hardware', 'mfu', 'compile')}
        | {'price': 'plan.dollars_per_chip_hour'},
    ),
    'prepare': Command(
        'tokenize a corpus and pack it into rows; `train` does so by itself',
        'jepa_text.training.prepare:run',
        TRAIN,
        'toy:mlm --workdir=runs/rows-64',
        {'tokenizer': 'prepare.tokenizer'}
        | {flag: f'prepare.{key}' for flag, key in ENGINE.items()},
        {'verify': 'verify the checksums of the rows in the workdir, and exit'},
        has_text=True,
    ),
    'tokenizer': Command(
        'train a tokenizer on a corpus, or adapt one; `train --text` makes its own',
        'jepa_text.training.tokenizer:run',
        'jepa_text.training.tokenizer',
        'tokenizer:vocab_size=2048 --workdir=runs/tokenizer-2048',
    ),
    'benchmark': Command(
        'time training steps against each other',
        'jepa_text.planning.benchmark:benchmark',
        'jepa_text.planning.benchmark',
        'benchmark:objectives --workdir=runs/speed',
    ),
}
# {key of a config: the commands that it is for}; the first key that a config has decides.
KEYS = {'runs': ('study', 'prepare', 'plan'), 'phases': ('train', 'prepare', 'plan')}
KEYS |= {'cases': ('benchmark',), 'task': ('finetune',)}
KEYS |= dict.fromkeys(('source', 'sample', 'compare'), ('tokenizer',))
EXAMINES = ('analyze', 'evaluate')
KEYS |= dict.fromkeys(('layers', 'poolings', 'half_samples', 'max_length'), EXAMINES)
KEYS |= {'tasks': EXAMINES[::-1]}
# Parts of a config that a name chooses: files of a folder, or functions of a table; those
# with one function; and the functions that take the further keywords of some.
FOLDERS = {
    'objective': 'objectives',
    'model': 'models',
    'source': 'data/sources',
    'task': 'evaluation/tasks',
}
TABLES = {
    'optimizer': 'optim.optimizers:OPTIMIZERS',
    'schedule': 'optim.schedules:SCHEDULES',
    'balance': 'objectives.latent.balance:RULES',
}
NOTES = {
    'optimizer': 'Each also takes lr_multipliers=(("PATTERN", FACTOR), ...).',
    'schedule': 'A number is a constant schedule; a dotted name is a module of yours.',
    'balance': 'A number is a fixed lambda; a dotted name is a module of yours.',
}
SECTIONS = {
    'latent': 'objectives.latent.targets:Latent',
    'regularizer': 'objectives.latent.targets:Regularizer',
    'adapt': 'hf.adapt:Choices',
}
FURTHER = {
    'transformer': 'models.transformer:Transformer',
    'bert': 'models.bert:Bert',
    'modernbert': 'models.modernbert:ModernBert',
    'mntp': 'objectives.mlm:make',
}
# {key of a config: kind of its section}, where they differ.
KINDS = {'tasks': 'task', 'parts': 'objective', 'mlm': 'objective'}
KINDS |= dict.fromkeys(('momentum', 'rate', 'of'), 'schedule')
SUPPLIED = ('tokenizer', 'length', 'steps', 'vocab_size', 'split')  # by the program
INIT = 'write a config file to edit, from a shipped one: jepa-text init CONFIG FILE.py'
START = """jepa-text init [CONFIG[:PRESET,KEY=VALUE,...]] FILE.py

Writes a config file to edit, by default from toy. `jepa-text help CONFIG` has the keys;
size=toy, where there is one, takes minutes on two cores. CONFIG is one of

{configs}

PRESET of toy, small and pretrain is one of

{presets}"""
USAGE = """jepa-text COMMAND CONFIG[:ARGUMENTS] --workdir=DIR [--config.KEY=VALUE ...]

CONFIG is a file, or the name of a shipped config, such as toy; also as --config=CONFIG.
ARGUMENTS are a preset and then KEY=VALUE, as in pretrain:clm_mlm,size=210m;
`jepa-text init --help` lists the configs, and `jepa-text help pretrain` their arguments.

Commands:

{commands}

`jepa-text COMMAND --help` lists the flags of a command, and the keys of its config with
their defaults. `jepa-text help mlm` documents the keys of an objective, model, optimizer,
schedule, source or task; `jepa-text help objective` lists the objectives.
`jepa-text --version` prints the version.

Exit codes:

   0  success
   1  failure; a retry may succeed
   2  wrong usage, an invalid config, or training that diverged; a retry will not help
  75  stopped after saving its state; the same command resumes
  87  the run hung and was stopped by the watchdog; the same command resumes

Examples:

{examples}"""
SHARED_FLAGS = {
    'workdir': 'folder to write to',
    'print-config': 'print the resolved config and the origin of each value, and exit',
    'traceback': 'print the traceback of an error',
    'verbose': 'print more, such as a table of all parameters',
}
DISTRIBUTED = 'auto, on or off: whether this is one process of a multi-process job'


def command_of(place, config):
    """Returns the command that a config is for: by its name, or by its keys."""
    stem = Path(place.partition(':')[0]).stem
    if stem in COMMANDS and COMMANDS[stem].config_module:
        return stem
    return next((names[0] for key, names in KEYS.items() if key in config), 'train')


def root_of(command, config):
    """Returns the dataclass that a config of a command is checked against. Raises
    ValueError for a config of another command."""
    key = next((key for key in KEYS if key in config), '')
    if key and command not in KEYS[key]:
        model = ' A model is --model=MODEL.' * ('model' in COMMANDS[command].arguments)
        raise ValueError(
            f'The config has `{key}`, so use `jepa-text {KEYS[key][0]}`.{model}'
        )
    module = STUDY if key == 'runs' else COMMANDS[command].config_module
    return importlib.import_module(module).Config


def usage(arguments):
    """Returns the --help text of the first command in `arguments`, of the first part of a
    config that they name, as 'mlm', or of all. Raises ValueError for other words."""
    name = next((word for word in arguments if word in COMMANDS), None)
    words = [word for word in arguments if word != 'help' and word[:1] != '-']
    if name is None and words:
        return starts() if words[0] == 'init' else _part(words[0])
    if name is None:
        summaries = {'init': INIT} | {name: c.summary for name, c in COMMANDS.items()}
        examples = [f'  jepa-text {name} {c.example}' for name, c in COMMANDS.items()]
        lines = display.two_columns(summaries.items(), width=10)
        return USAGE.format(commands='\n'.join(lines), examples='\n'.join(examples))
    command, is_shipped = COMMANDS[name], name in config_file.shipped()
    has_config = command.config_module is not None
    flags = command.keys
    if has_config:
        fields = [*display.fields(root_of(name, {}))]
        keys = {key: doc for key, _, doc in fields}
        flags = {flag: f'{keys[key]} ({key})' for flag, key in flags.items()}
    flags = flags | ({'text': TEXT} if command.has_text else {})
    flags |= {flag: text for flag, (_, text) in command.arguments.items()}
    flags |= command.switches | SHARED_FLAGS
    flags |= {'distributed': DISTRIBUTED} if name == 'train' else {}
    if name == 'plan':  # which writes nothing
        del flags['workdir']
    if not has_config:
        flags['workdir'] = MODEL
        del flags['print-config']
    words = ['CONFIG[:ARGUMENTS]'] * has_config + ['--workdir=DIR'] * (name != 'plan')
    words = [f'[{word}]' if command.arguments else word for word in words]
    lines = [f'jepa-text {name} {" ".join(words)} [FLAGS]', '']
    lines += [f'{command.summary.capitalize()}.', '', 'Flags:']
    lines += display.two_columns([(f'--{flag}', flags[flag]) for flag in flags], 16)
    if has_config:
        own = f', some of which configs/{name}.py changes' * is_shipped
        lines += ['', f'Config keys with their defaults{own}; set as --config.KEY=VALUE:']
        lines += display.two_columns(
            (f'{k} = {x}' if x else k, doc) for k, x, doc in fields
        )
    if is_shipped:
        lines += ['', _of_shipped(name)]
    return '\n'.join(
        [*lines, '', 'Example:', '', f'  jepa-text {name} {command.example}']
    )


def starts():
    """Returns the help of `init`, with the shipped configs and their presets."""
    presets = config_file.shared('presets').SUMMARIES
    tables = {'configs': config_file.shipped(), 'presets': presets}
    lines = {name: display.two_columns(x.items(), 26) for name, x in tables.items()}
    return START.format(**{name: '\n'.join(x) for name, x in lines.items()})


def _imported(place):
    module, _, name = place.partition(':')
    return getattr(importlib.import_module(f'jepa_text.{module}'), name)


@functools.cache
def _parts():
    """Returns {(kind, name): (function, documentation)} of the parts of a config."""
    places = [
        (kind, name, f'{folder.replace("/", ".")}.{name}:make')
        for kind, folder in FOLDERS.items()
        for name in resolve.names(folder)
    ]
    places += [(name, name, place) for name, place in SECTIONS.items()]
    parts = {
        (kind, name): (_imported(place), _imported(f'{place.partition(":")[0]}:__doc__'))
        for kind, name, place in places
    }
    for kind, place in TABLES.items():
        parts |= {(kind, name): (x, x.__doc__) for name, x in _imported(place).items()}
    return parts


def _part(word):
    """Returns the help of a part of a config by its name, as 'mlm', or of a kind of them,
    as 'objective'."""
    parts, shipped = _parts(), config_file.shipped()
    named = _imported('evaluation.tasks:NAMED')
    word = next((file for file, sets in named.items() if word in sets), word)
    if word in (*FOLDERS, *TABLES):
        docs = (
            (n, doc.splitlines()[0]) for (k, n), (_, doc) in parts.items() if k == word
        )
        lines = [f'{word}: one of', '', *display.two_columns(docs, 14), '']
        lines += [NOTES[word], ''] if word in NOTES else []
        if word == 'task':
            sets = ((file, ', '.join(sets)) for file, sets in named.items())
            lines += ['Sets by name:', '', *display.two_columns(sets, 14), '']
        return '\n'.join([*lines, '`jepa-text help NAME` has its keys.'])
    found = [
        _documented(f'{kind}: dict({f"name={name!r}, " * (kind != name)}...)', name, *of)
        for (kind, name), of in parts.items()
        if name == word
    ]
    if word in shipped:
        found.append(_of_shipped(word))
    if not found:
        known = {name for key in parts for name in key} | {*COMMANDS, *shipped}
        raise ValueError(f'There is no help on {word!r}.{resolve.nearest(word, known)}')
    return '\n\n'.join(found)


def _of_shipped(name):
    """Returns the documentation of a shipped config and of its arguments."""
    module = config_file.shared(name)
    keys = _parameters(name, module.get_config, ())
    words = ('KEY=VALUE,...' if x.kind is x.KEYWORD_ONLY else 'WORD' for x in keys)
    head = f'{name}:{",".join(dict.fromkeys(words))}'.removesuffix(':')
    return _documented(head, name, module.get_config, module.__doc__, supplied=())


def _parameters(name, make, supplied=SUPPLIED):
    """Returns the parameters of a part that a config sets, also those it passes on."""
    found = dict(inspect.signature(make).parameters)
    if name in FURTHER:
        found = {**inspect.signature(_imported(FURTHER[name])).parameters, **found}
        supplied = (*supplied, 'name', 'parent')  # of a module of Flax
    if name == 'latent':
        default = _imported('objectives.latent.targets:PAPER_MOMENTUM')
        found['momentum'] = found['momentum'].replace(default=default)
    is_rest = inspect.Parameter.VAR_KEYWORD
    return [x for key, x in found.items() if key not in supplied and x.kind != is_rest]


def defaults_of(path, section):
    """Returns {key: default} of the part of a config that a section at a path names."""
    key = re.sub(r'\[\d+\]$', '', path).rpartition('.')[2]
    kind, name = KINDS.get(key, key), str(section.get('name', key))
    name = key if key in SECTIONS else name
    if kind in FOLDERS and '.' in name:
        make = resolve.make_of(kind, name)
    else:
        make, _ = _parts().get((kind, name), (dict, ''))
    parameters = _parameters(name, make) if make is not dict else ()
    defaults = {x.name: x.default for x in parameters if x.default is not x.empty}
    if kind == 'model' and section.get('preset'):
        defaults |= make.__globals__.get('PRESETS', {}).get(section['preset'], {})
    return defaults | {x: {} for x in ('mlm', 'latent') if defaults.get(x, 0) is None}


def _documented(head, name, make, text, supplied=SUPPLIED):
    """Returns the documentation of a function, and its keywords with their defaults and
    choices."""
    texts = [head, text, make.__doc__]
    if name in FURTHER:
        further = _imported(FURTHER[name])  # a function, or a class and its base
        texts += [x.__doc__ for x in getattr(further, '__mro__', [further])[:2]]
    texts = (inspect.cleandoc(x.partition('>>>')[0]).strip() for x in texts)
    parameters = _parameters(name, make, supplied)
    lines = ['\n\n'.join(dict.fromkeys(texts)), *['', 'Keys:'] * bool(parameters)]
    for parameter in parameters:
        is_required = parameter.default is parameter.empty
        value = '(required)' if is_required else repr(parameter.default)
        if is_required and parameter.name.endswith('_steps'):  # of a schedule
            value = f'(required), or {ranges.other_length(parameter.name)}'
        choices = typing.get_args(parameter.annotation)
        if parameter.name == 'preset':
            choices = make.__globals__['PRESETS']
        if all(isinstance(choice, str) for choice in choices):
            value += f'  one of: {", ".join(choices)}' * bool(choices)
        lines.append(f'  {parameter.name} = {value}')
    return '\n'.join(lines)
