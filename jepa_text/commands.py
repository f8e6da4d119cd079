"""Definitions of the commands: summary, config dataclass, flags and --help text."""

import dataclasses
import importlib
import textwrap

from jepa_text.config import display
from jepa_text.files import addresses

TRAIN = 'jepa_text.training.config'
STUDY = 'jepa_text.study.study'

# Printed after an interrupt.
NOTHING_CHANGED = 'nothing was changed; the same command starts over.'
NOTHING_WRITTEN = 'nothing was written; the same command starts over.'


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the command line.

    summary          one line, in lower case, for the list of commands
    description      a paragraph for --help
    module           the module that implements it
    function         the function of that module, called as function(config, workdir)
    config_module    the module whose `Config` its config file is checked against, or None
    example          arguments of a working example
    on_interrupt     what is printed after Ctrl-C: what was kept, and how to continue
    flags            {name: (example value, help)} of its own flags
    """

    summary: str
    description: str
    module: str
    function: str
    config_module: str | None
    example: str
    on_interrupt: str
    flags: dict = dataclasses.field(default_factory=dict)


# Flags of the section `engine`, by its keys.
ENGINE = {
    'engine': ('ray', 'where tasks run: local, or ray for a cluster'),
    'jobs': (2, 'tasks at a time on this machine, each in a process of its own'),
}
COMMANDS = {
    'tokenizer': Command(
        'train a tokenizer, or adapt an existing one',
        'Trains a tokenizer on a sample of a corpus, or loads an existing one, and adds '
        'missing special tokens. Writes tokenizer.json and a report on held-out text: '
        'fertility, unknown tokens and vocabulary usage.',
        'jepa_text.training.tokenizer',
        'run',
        'jepa_text.training.tokenizer',
        '--config=configs/tokenizer.py:bpe,2048 --workdir=runs/tokenizer-2048',
        NOTHING_WRITTEN,
    ),
    'prepare': Command(
        'tokenize a corpus and pack it into rows',
        'Reads documents, tokenizes them, packs the tokens into rows of fixed length and '
        'writes the rows to the workdir. Only the config section `prepare` is used. '
        '`train` runs this step by itself if its rows do not exist yet.',
        'jepa_text.training.prepare',
        'run',
        TRAIN,
        '--config=configs/toy.py:mlm --workdir=runs/rows-64',
        'finished parts are kept; the same command prepares the remaining ones.',
        {
            'verify': (
                False,
                'verify the checksums of the rows in the workdir, and exit',
            ),
            **ENGINE,
        },
    ),
    'train': Command(
        'pretrain a model, or resume pretraining',
        'Trains the phases of the config on the rows in data.folder, which are prepared '
        'first if they do not exist. Running the same command again resumes exactly, '
        'from the newest valid checkpoint.',
        'jepa_text.evaluation.train_command',
        'run',
        TRAIN,
        '--config=configs/toy.py:clm_mlm --workdir=runs/clm_mlm',
        'the same command resumes from the newest checkpoint, or starts over if there is '
        'none.',
    ),
    'study': Command(
        'train several runs and compare them in a report',
        'Trains every run of the config on the same rows, evaluates the runs and writes '
        'a report. Running the same command again continues an unfinished study; if the '
        'study is complete, it says so.',
        STUDY,
        'study',
        STUDY,
        '--config=configs/quickstart.py --workdir=runs/quickstart',
        'finished results are kept; the same command continues, and an unfinished run '
        'resumes from its newest checkpoint.',
        {'dry-run': (True, 'print what would be trained, and exit'), **ENGINE},
    ),
    'analyze': Command(
        'analyze the representations of models',
        'Measures the hidden representations of models layer by layer, compares them '
        'with controls and writes analysis.html.',
        'jepa_text.analysis.analyze',
        'analyze',
        'jepa_text.analysis.analyze',
        '--config=configs/analyze.py:models=runs/clm_mlm --workdir=runs/clm_mlm-analysis',
        'vectors computed so far stay in the cache; the same command continues.',
        ENGINE,
    ),
    'evaluate': Command(
        'fine-tune models on tasks and compare them',
        'Fine-tunes each model on each task for every learning rate and seed, selects '
        'the learning rate on the validation set, and reports test scores with '
        'confidence intervals over seeds. Running the same command again continues.',
        'jepa_text.evaluation.evaluate',
        'evaluate',
        'jepa_text.evaluation.config',
        '--config=configs/evaluate.py:models=runs/clm_mlm,tasks=bundled '
        '--workdir=runs/exam',
        'finished results are kept; the same command computes the remaining ones.',
        {'dry-run': (True, 'print what would be trained, and exit'), **ENGINE},
    ),
    'finetune': Command(
        'fine-tune one model on one task and save it',
        'Fine-tunes a model on a task with one learning rate and seed, evaluates it and '
        'saves it to the workdir. `jepa_text.load` loads the saved model for prediction.',
        'jepa_text.evaluation.finetune_command',
        'finetune',
        'jepa_text.evaluation.finetune_command',
        '--config=configs/finetune.py:model=runs/clm_mlm,task=bundled '
        '--workdir=runs/tuned',
        'nothing was saved; the same command starts over.',
    ),
    'plan': Command(
        'estimate the memory, time and price of a run',
        'Prints an estimate of the parameters, FLOPs, memory, hours and price of a run '
        'before it is started. Needs no rows, no accelerator and no workdir, and writes '
        'nothing.',
        'jepa_text.planning.plan',
        'plan',
        TRAIN,
        '--config=configs/pretrain.py:jepa_mlm,610m --hardware=h100:64',
        NOTHING_CHANGED,
        # These set keys of the config section `plan`.
        {
            'hardware': ('h100:8', 'CHIP or CHIP:COUNT'),
            'mfu': (0.4, "fraction of the chips' peak FLOP/s"),
            'price': (2.5, 'US dollars per chip and hour'),
            'compile': ('h200:8', 'compile the steps for this hardware'),
        },
    ),
    'benchmark': Command(
        'time training steps against each other',
        'Times several kinds of training steps in alternating rounds and writes '
        'benchmark.json.',
        'jepa_text.planning.benchmark',
        'benchmark',
        'jepa_text.planning.benchmark',
        '--config=configs/benchmark.py:objectives --workdir=runs/speed',
        'benchmark.json contains what was timed so far; the same command starts over.',
    ),
    # Configured by flags alone, without a config file.
    'export': Command(
        'export a model for transformers',
        'Writes a run, or an hf: model, as a folder that transformers and '
        'sentence-transformers can load.',
        'jepa_text.pretrained.export',
        'run',
        None,
        '--workdir=runs/clm_mlm --to=exports/clm_mlm',
        NOTHING_WRITTEN,
        {
            'to': ('exports/first', 'folder to write'),
            'step': (500, 'step of the checkpoint; default: the newest'),
            'family': ('llama', 'model family to write'),
            'license': ('mit', 'license for the model card'),
        },
    ),
}
# Commands that have no workdir and no config of their own.
OTHERS = {'init': 'write a config file to start from'}

USAGE = """jepa-text COMMAND --config=FILE[:ARG] --workdir=DIR [--config.KEY=VALUE ...]
jepa-text init FILE.py [--preset=NAME[,SIZE]]
jepa-text plan --config=FILE[:ARG] [--hardware=h100:8 --mfu=0.4 --price=2.5 --compile]
jepa-text evaluate --config=FILE[:ARG] --workdir=DIR [--dry-run]
jepa-text study --config=FILE[:ARG] --workdir=DIR [--dry-run]
jepa-text export --workdir=DIR --to=FOLDER [--step=N --family=NAME --license=NAME]

Commands:

{commands}

`jepa-text COMMAND --help` lists the keys of the command's config with their defaults.
Every key can be set on the command line as --config.KEY=VALUE.

Common flags:

  --print-config             print the resolved config and the origin of each value
  --traceback                print the traceback of an error
  --distributed=auto|on|off  whether this is one process of a multi-process job

Exit codes:

   0  success
   1  failure; a retry may succeed
   2  wrong usage, an invalid config, or training that diverged or collapsed; a retry
      will not help
  75  stopped after saving its state; the same command resumes
  87  the run hung and was stopped by the watchdog; the same command resumes

Examples:

{examples}
  jepa-text train --config=configs/toy.py:mlm --config.steps=200 --workdir=runs/short
"""
# What --workdir means for commands that do not write to it.
OTHER_WORKDIRS = {'plan': 'not used', 'export': 'run, or hf: model, to export'}
SHARED_FLAGS = {
    'workdir': 'folder to write to',
    'print-config': 'print the resolved config and the origin of each value, and exit',
    'traceback': 'print the traceback of an error',
    'distributed': 'auto, on or off: whether this is one process of a multi-process job',
}


def usage(arguments):
    """Returns the --help text of the first command in `arguments`, or of all commands."""
    name = next((word for word in arguments if word in COMMANDS), None)
    if name is None:
        return _usage_of_all()
    command = COMMANDS[name]
    flags = {flag: line for flag, (_, line) in command.flags.items()} | SHARED_FLAGS
    flags['workdir'] = OTHER_WORKDIRS.get(name, flags['workdir'])
    config = '' if command.config_module is None else '--config=FILE[:ARG] '
    lines = [f'jepa-text {name} {config}--workdir=DIR [FLAGS]', '']
    lines += [command.summary.capitalize() + '.', '']
    description = textwrap.wrap(command.description, 80, break_on_hyphens=False)
    lines += [*description, '', 'Flags:']
    lines += display.two_columns([(f'--{flag}', flags[flag]) for flag in flags], 16)
    if command.config_module is not None:
        lines += ['', 'Config keys with their defaults; set them as --config.KEY=VALUE:']
        lines += display.help_lines(root(name, {}))
    lines += ['', 'Example:', '', f'  jepa-text {name} {command.example}']
    return '\n'.join(lines)


def _usage_of_all():
    summaries = {name: command.summary for name, command in COMMANDS.items()} | OTHERS
    width = max(map(len, summaries))
    listed = [f'  {name:{width}}  {text}' for name, text in summaries.items()]
    examples = [f'  jepa-text {name} {c.example}' for name, c in COMMANDS.items()]
    return USAGE.format(commands='\n'.join(listed), examples='\n'.join(examples))


def after_interrupt(command, workdir, config, switches):
    """Returns what to print after a command was interrupted.

    `switches` are its own boolean flags that are on.
    """
    if {'verify', 'dry_run'} & {*switches}:
        return NOTHING_CHANGED
    # These write a folder atomically on a local disk, but file by file at an address.
    target = {'prepare': workdir, 'export': config.get('to')}.get(command)
    if addresses.is_address(target):
        return (
            f'files at {target} may be incomplete: delete them. The same command starts '
            'over.'
        )
    return COMMANDS[command].on_interrupt


def root(command, config):
    """Returns the dataclass that a config of a command is checked against."""
    module = COMMANDS[command].config_module
    if command == 'train' and 'runs' in config and 'phases' not in config:
        raise ValueError(importlib.import_module(TRAIN).OF_A_STUDY)
    if command in ('prepare', 'plan') and 'runs' in config:
        module = STUDY
    return importlib.import_module(module).Config
