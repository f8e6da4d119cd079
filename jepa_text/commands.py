"""The commands of the command line: what each calls, and the flags that it takes."""

import dataclasses
import importlib
import inspect

from jepa_text.settings import display, resolve

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
EXAMINED = {
    'model': ('models', "a run, or 'hf:' and a name or folder; several: A,B"),
    'task': ('tasks', 'a file of texts and labels, or NAME or NAME@PATH; several: A,B'),
}
TOKENIZER = 'bpe:8192'
TEXT = (
    'a file or folder of texts to train on: .txt, .jsonl, .csv or .parquet. The rows go '
    f'to WORKDIR-rows; without --tokenizer, one is trained on the text ({TOKENIZER})'
)
ENGINE = {'engine': 'engine.name', 'jobs': 'engine.jobs'}
DRY_RUN = {'dry-run': 'print what would be trained, and exit'}
COMMANDS = {
    'tokenizer': Command(
        'train a tokenizer on a corpus, or adapt an existing one',
        'jepa_text.training.tokenizer:run',
        'jepa_text.training.tokenizer',
        '--config=tokenizer:bpe,2048 --workdir=runs/tokenizer-2048',
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
    'train': Command(
        'pretrain a model, or resume from the newest valid checkpoint',
        'jepa_text.evaluation.train_command:run',
        TRAIN,
        'toy:clm_mlm --workdir=runs/clm_mlm',
        STEPS | {'seed': 'seed'},
        has_text=True,
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
    'analyze': Command(
        'analyze the representations of models layer by layer, beside controls',
        'jepa_text.analysis.analyze:analyze',
        'jepa_text.analysis.analyze',
        '--model=runs/clm_mlm --workdir=runs/clm_mlm-analysis',
        ENGINE,
        arguments=EXAMINED,
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
        arguments=EXAMINED,
    ),
    'plan': Command(
        'estimate the memory, time and price of a run; needs no accelerator',
        'jepa_text.planning.plan:plan',
        TRAIN,
        'pretrain:jepa_mlm,610m --hardware=h100:64',
        {key: f'plan.{key}' for key in ('hardware', 'mfu', 'price', 'compile')},
    ),
    'benchmark': Command(
        'time training steps against each other',
        'jepa_text.planning.benchmark:benchmark',
        'jepa_text.planning.benchmark',
        '--config=benchmark:objectives --workdir=runs/speed',
    ),
    'export': Command(
        'export the run or hf: model in the workdir for transformers',
        'jepa_text.pretrained.export:run',
        None,
        '--workdir=runs/clm_mlm --to=exports/clm_mlm',
        {
            'to': 'folder to write',
            'step': 'step of the checkpoint; default: the newest',
            'family': 'model family to write, such as llama',
            'license': 'license for the model card',
        },
    ),
}
# Parts of a config that are chosen by name: files of a folder, or functions of a table.
FOLDERS = {
    'objective': 'objectives',
    'model': 'models',
    'source': 'data/sources',
    'task': 'evaluation/tasks',
}
TABLES = {
    'optimizer': ('jepa_text.optim.optimizers', 'OPTIMIZERS'),
    'schedule': ('jepa_text.optim.schedules', 'SCHEDULES'),
}
SUPPLIED = ('tokenizer', 'length', 'steps', 'vocab_size', 'split')  # by the program
INIT = 'write a config file to start from: jepa-text init FILE.py [--preset=NAME[,SIZE]]'
USAGE = """jepa-text COMMAND CONFIG[:ARG] --workdir=DIR [--config.KEY=VALUE ...]

CONFIG is a file, or the name of a shipped config, such as toy; also as --config=CONFIG.

Commands:

{commands}

`jepa-text COMMAND --help` lists the flags of a command, and the keys of its config with
their defaults. `jepa-text help mlm` documents the keys of an objective, model, optimizer,
schedule, source or task; `jepa-text help objective` lists the objectives.

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
    'distributed': 'auto, on or off: whether this is one process of a multi-process job',
}


def root_of(command, config):
    """Returns the dataclass that a config of a command is checked against."""
    module = COMMANDS[command].config_module
    if command == 'train' and 'runs' in config and 'phases' not in config:
        raise ValueError(importlib.import_module(TRAIN).OF_A_STUDY)
    if command in ('prepare', 'plan') and 'runs' in config:
        module = STUDY
    return importlib.import_module(module).Config


def usage(arguments):
    """Returns the --help text of the first command in `arguments`, of the first part of a
    config that they name, as 'mlm' or 'optimizer', or else of all commands."""
    name = next((word for word in arguments if word in COMMANDS), None)
    words = [word for word in arguments if word != 'help' and word[:1] != '-']
    if name is None and words:
        return _part(words[0])
    if name is None:
        summaries = {name: c.summary for name, c in COMMANDS.items()} | {'init': INIT}
        examples = [f'  jepa-text {name} {c.example}' for name, c in COMMANDS.items()]
        lines = display.two_columns(summaries.items(), width=10)
        return USAGE.format(commands='\n'.join(lines), examples='\n'.join(examples))
    command = COMMANDS[name]
    has_config = command.config_module is not None
    keys = {}
    if has_config:
        keys = {key: doc for key, _, doc in display.fields(root_of(name, {}))}
    flags = {flag: keys.get(key, key) for flag, key in command.keys.items()}
    flags |= {'text': TEXT} if command.has_text else {}
    flags |= {flag: text for flag, (_, text) in command.arguments.items()}
    flags |= command.switches | SHARED_FLAGS
    lines = [f'jepa-text {name} {"CONFIG[:ARG] " * has_config}--workdir=DIR [FLAGS]']
    lines += ['', f'{command.summary.capitalize()}.', '', 'Flags:']
    lines += display.two_columns([(f'--{flag}', flags[flag]) for flag in flags], 16)
    if has_config:
        lines += ['', 'Config keys with their defaults; set them as --config.KEY=VALUE:']
        lines += display.help_lines(root_of(name, {}))
    return '\n'.join(
        [*lines, '', 'Example:', '', f'  jepa-text {name} {command.example}']
    )


def _part(word):
    """Returns the help of a part of a config by its name, as 'mlm', or of a kind of them,
    as 'objective'."""
    makes = {}
    for kind, folder in FOLDERS.items():
        package = f'jepa_text.{folder.replace("/", ".")}'
        for name in resolve.names(folder):
            module = importlib.import_module(f'{package}.{name}')
            makes[kind, name] = module.make, module.__doc__
    for kind, (module, table) in TABLES.items():
        for name, make in getattr(importlib.import_module(module), table).items():
            makes[kind, name] = make, make.__doc__
    if of_kind := {n: doc for (kind, n), (_, doc) in makes.items() if kind == word}:
        return _listed(word, of_kind)
    parts = [
        _documented(*key, make) for key, (make, _) in makes.items() if key[1] == word
    ]
    known = {name for key in makes for name in key} | {*COMMANDS}
    return '\n\n'.join(parts) or (
        f'There is no help on {word!r}.{resolve.nearest(word, known)}'
    )


def _listed(kind, docs):
    lines = display.two_columns([(n, doc.splitlines()[0]) for n, doc in docs.items()], 14)
    return '\n'.join(
        [f'{kind}: one of', '', *lines, '', '`jepa-text help NAME` has its keys.']
    )


def _documented(kind, name, make):
    """Returns the docstring of a function, and the defaults of its keywords."""
    text, *_ = inspect.getdoc(make).partition('>>>')
    lines = [f"{kind}: dict(name='{name}', ...)", '', text.rstrip(), '', 'Keys:']
    for parameter in inspect.signature(make).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            lines.append(f'  further keys: as above ({parameter.name})')
        elif parameter.name not in SUPPLIED:
            is_required = parameter.default is parameter.empty
            value = '(required)' if is_required else repr(parameter.default)
            lines.append(f'  {parameter.name} = {value}')
    return '\n'.join(lines)
