"""The commands: what each does, the config it takes, its flags, and its --help."""

import dataclasses
import importlib

from jepa_text.config import display
from jepa_text.files import addresses

TRAIN = 'jepa_text.training.config'
STUDY = 'jepa_text.study.study'


# After an interrupt, of what writes nothing.
UNTOUCHED = 'nothing was changed; the same command begins anew.'


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command does, in a line and in more; the function(config, workdir) that does
    it; the module with the `Config` that it takes; an example that runs; what is true
    after an interrupt; and flags of its own, {name: (example, line of --help)}."""

    text: str
    more: tuple
    module: str
    function: str
    root: str | None
    example: str
    after: str
    flags: dict = dataclasses.field(default_factory=dict)


COMMANDS = {
    'tokenizer': Command(
        'a tokenizer, trained or taken over',
        (
            'Trains a tokenizer on a sample of a corpus, or reads one that exists, and',
            'adds the special tokens that it lacks. Writes tokenizer.json, and how well',
            'it fits held-out text: fertility, unknowns, use of the vocabulary.',
        ),
        'jepa_text.training.tokenizer',
        'run',
        'jepa_text.training.tokenizer',
        '--config=configs/tokenizer.py:bpe,2048 --workdir=runs/tokenizer-2048',
        'nothing was written; the same command begins anew.',
    ),
    'prepare': Command(
        'text to rows on disk',
        (
            'Reads documents, tokenizes and packs them, and writes rows to the workdir.',
            'Only the section `prepare` counts. `train` does it where rows are missing.',
        ),
        'jepa_text.training.prepare',
        'run',
        TRAIN,
        '--config=configs/toy.py:mlm --workdir=runs/rows-64',
        'parts of the rows that are done stay; the same command makes the others.',
        {'verify': (False, 'read the rows of the workdir against their checksums')},
    ),
    'train': Command(
        'pretrain, or resume',
        (
            'Trains the phases of the config on the rows of data.folder, prepared where',
            'they are missing. The same command again resumes from the newest good',
            'checkpoint, exactly.',
        ),
        'jepa_text.evaluation.train_command',
        'run',
        TRAIN,
        '--config=configs/toy.py:clm_mlm --workdir=runs/clm_mlm',
        'the same command goes on from the newest checkpoint, or begins anew where there '
        'is none.',
        {
            'restart': (
                True,
                'begin anew where no checkpoint is good',
            )
        },
    ),
    'study': Command(
        'several runs, one report',
        (
            'Trains every run of the config on the same rows, evaluates them, and writes',
            'a report. The same command again goes on, or says that all is complete.',
        ),
        STUDY,
        'study',
        STUDY,
        '--config=configs/quickstart.py --workdir=runs/quickstart',
        'what is done stays; the same command goes on, a run at work from its newest '
        'checkpoint.',
        {'dry-run': (True, 'say what would be trained, and stop')},
    ),
    'analyze': Command(
        'what vectors hold',
        (
            'Measures the vectors of models, layer by layer, against controls, and',
            'writes analysis.html.',
        ),
        'jepa_text.analysis.analyze',
        'analyze',
        'jepa_text.analysis.analyze',
        '--config=configs/analyze.py:models=runs/clm_mlm --workdir=runs/clm_mlm-analysis',
        'vectors that were computed stay in its cache; the same command goes on.',
    ),
    'evaluate': Command(
        'fine-tune on tasks, and compare',
        (
            'Fine-tunes each model on each task for every learning rate and seed, takes',
            'the rate by validation, and reports the test set with intervals over seeds.',
            'The same command again goes on; several may share a workdir.',
        ),
        'jepa_text.evaluation.evaluate',
        'evaluate',
        'jepa_text.evaluation.config',
        '--config=configs/evaluate.py:models=runs/clm_mlm,tasks=bundled '
        '--workdir=runs/exam',
        'results that are there stay; the same command makes the others.',
        {'dry-run': (True, 'say what would be trained, and stop')},
    ),
    'finetune': Command(
        'one model for one task, kept',
        (
            'Fine-tunes a model on a task with one learning rate and seed, measures it,',
            'and writes it to the workdir, from where load.load gives what predicts.',
        ),
        'jepa_text.evaluation.finetune_command',
        'finetune',
        'jepa_text.evaluation.finetune_command',
        '--config=configs/finetune.py:model=runs/clm_mlm,task=bundled '
        '--workdir=runs/tuned',
        'nothing was kept; the same command begins anew.',
    ),
    'plan': Command(
        'memory, hours and money of a run',
        (
            'Prints parameters, arithmetic, memory, hours and price of a run, before it.',
            'Needs no rows, no accelerator and no workdir, and writes nothing.',
        ),
        'jepa_text.planning.plan',
        'plan',
        TRAIN,
        '--config=configs/pretrain.py:jepa_mlm,610m --hardware=h100:64',
        UNTOUCHED,
        # Keys of the section of that name.
        {
            'hardware': ('h100:8', 'CHIP or CHIP:COUNT'),
            'mfu': (0.4, "the share of the chips' peak"),
            'price': (2.5, 'US dollars a chip and hour'),
            'compile': (True, 'ask the compiler for the memory, too'),
        },
    ),
    'benchmark': Command(
        'steps in turns',
        (
            'Times training steps of several kinds against each other, round by round,',
            'and writes benchmark.json.',
        ),
        'jepa_text.planning.benchmark',
        'benchmark',
        'jepa_text.planning.benchmark',
        '--config=configs/benchmark.py:objectives --workdir=runs/speed',
        'benchmark.json has what was timed by then; the same command begins anew.',
    ),
    # It has no config file: its flags are its config.
    'export': Command(
        'a run as a folder for transformers',
        (
            'Writes a run, or an hf: model, as a folder that transformers and',
            'sentence-transformers read.',
        ),
        'jepa_text.export',
        'run',
        None,
        '--workdir=runs/clm_mlm --to=exports/clm_mlm',
        'nothing was written; the same command begins anew.',
        {
            'to': ('exports/first', 'the folder to write'),
            'step': (500, 'of the checkpoint; the newest'),
            'family': ('llama', 'of the model that is written'),
            'license': ('mit', 'of the model card'),
        },
    ),
}
# Beside them, without a workdir.
OTHERS = {
    'init': 'a config file to start from',
    'supervise': 'a command, started again after a failure while it makes progress',
}

USAGE = """jepa-text COMMAND --config=FILE[:ARG] --workdir=DIR [--config.KEY=VALUE ...]
jepa-text init FILE.py [--preset=NAME[,SIZE]]
jepa-text plan --config=FILE[:ARG] [--hardware=h100:8 --mfu=0.4 --price=2.5 --compile]
jepa-text evaluate --config=FILE[:ARG] --workdir=DIR [--dry-run]
jepa-text study --config=FILE[:ARG] --workdir=DIR [--dry-run]
jepa-text export --workdir=DIR --to=FOLDER [--step=N --family=NAME --license=NAME]
jepa-text supervise [--restarts=5] COMMAND ...

{commands}

`jepa-text COMMAND --help` shows the keys of its config, with their defaults; every one
can be set on the command line. --print-config shows what a command would run with, and
where each value came from; --traceback, where an error arose; --distributed=auto|on|off
says whether this is one process of several. Exit codes: 0 done, 1 failed, 2 wrong usage
or config, or training that diverged or collapsed, 75 stopped with the state saved (the
same command resumes), 87 hung. Examples that run:

{examples}
  jepa-text train --config=configs/toy.py:mlm --config.steps=200 --workdir=runs/short
"""
SHARED_FLAGS = {
    'workdir': 'the folder to write to',
    'print-config': 'show what it would run with, and where each value is from',
    'traceback': 'show where an error arose',
    'distributed': 'auto, on or off: is this one process of several?',
}


def usage(words=()):
    """The text of --help: of the first of the words that is a command, or of all."""
    command = next((word for word in words if word in COMMANDS), None)
    if command is None or words[0] == 'supervise':
        width = max(map(len, (*COMMANDS, *OTHERS)))
        texts = {name: one.text for name, one in COMMANDS.items()} | OTHERS
        examples = [f'  jepa-text {name} {c.example}' for name, c in COMMANDS.items()]
        return USAGE.format(
            commands='\n'.join(f'  {name:{width}}  {texts[name]}' for name in texts),
            examples='\n'.join(examples),
        )
    about = COMMANDS[command]
    flags = {name: line for name, (_, line) in about.flags.items()} | SHARED_FLAGS
    config = [] if about.root is None else ['--config=FILE[:ARG]']
    said = [f'jepa-text {command} {" ".join([*config, "--workdir=DIR [FLAGS]"])}', '']
    said += [about.text.capitalize() + '.', '', *about.more, '', 'Flags:']
    said += display.aligned([(f'--{name}', line) for name, line in flags.items()], 16)
    if about.root is not None:
        said += ['', 'Keys of the config, each with its default, as --config.KEY=VALUE:']
        said += display.help_lines(root(command, {}))
    said += ['', 'An example that runs:', '', f'  jepa-text {command} {about.example}']
    return '\n'.join(said)


def after_interrupt(command, workdir, config, switches):
    """What is true when a command was interrupted, with these of its own flags on."""
    if {'verify', 'dry_run'} & {*switches}:
        return UNTOUCHED
    # What is made whole here is copied to an address file by file.
    place = {'prepare': workdir, 'export': config.get('to')}.get(command)
    if addresses.is_address(place):
        return (
            f'if files lie at {place}, they are not whole: delete them. The same command '
            'begins anew.'
        )
    return COMMANDS[command].after


def root(command, config):
    """The dataclass that a config of a command is checked against."""
    module = COMMANDS[command].root
    if command == 'train' and 'runs' in config and 'phases' not in config:
        raise ValueError(importlib.import_module(TRAIN).OF_A_STUDY)
    if command in ('prepare', 'plan') and 'runs' in config:
        module = STUDY
    return importlib.import_module(module).Config
