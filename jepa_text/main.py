"""The `jepa-text` command line: parses flags and calls the command's function.

Only this file knows about flags. All logic is in functions that a notebook can call, too.

The exit codes are documented in parallel/exits.py.
"""

import contextlib
import dataclasses
import importlib
import logging
import os
import re
import sys
import traceback

from jepa_text.files import addresses, paths
from jepa_text.parallel import exits
from jepa_text.running import xla_flags
from jepa_text.settings import config_file, display, resolve, schema

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
INIT = 'write a config file to start from: jepa-text init FILE.py [--preset=NAME[,SIZE]]'
# Commands with a training loop. They convert errors before the loop to ConfigError.
WITH_TRAINING_LOOP = ('train', 'study')
# Commands that need no device.
WITHOUT_DEVICE = ('prepare', 'tokenizer')
HELP = ('-h', '--help', '-help', 'help')
# Flags of all commands that only change what is printed.
PRINT_CONFIG, TRACEBACK, VERBOSE = '--print-config', '--traceback', '--verbose'
AS_SETTINGS = 'Config keys are set as --config.KEY=VALUE.'
USAGE = """jepa-text COMMAND CONFIG[:ARG] --workdir=DIR [--config.KEY=VALUE ...]

CONFIG is a file, or the name of a shipped config, such as toy; also as --config=CONFIG.

Commands:

{commands}

`jepa-text COMMAND --help` lists the flags of a command, and the keys of its config with
their defaults.

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


@dataclasses.dataclass(frozen=True)
class Call:
    """A command line: the name of the command, the config with all settings, that of
    the file alone, the value of --workdir, the switches, and --distributed."""

    command: str
    config: dict
    file: dict
    workdir: str | None
    switches: dict
    distributed: str


def run(argv=None):
    """Entry point of the console script: runs a command line and exits."""
    argv = sys.argv if argv is None else argv
    try:
        if argv[1:2] and argv[1] in WITH_TRAINING_LOOP:
            _keep_memory()
        code = main(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe. Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.FAILED
    except KeyboardInterrupt:  # while modules are imported
        code = _fail('interrupted before the command was started.', exits.FAILED)
    except Exception:  # a bug
        traceback.print_exc()
        code = exits.FAILED
    if code not in (exits.DONE, exits.RESUME) and _is_distributed():
        # A regular exit would wait for processes that wait for this one.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(argv):
    """Runs one command line and returns its exit code."""
    xla_flags.apply()  # before anything imports jax
    if any(word in HELP for word in argv[1:]):
        print(usage(argv[1:]))
        return exits.DONE
    with_traceback = TRACEBACK in argv
    if VERBOSE in argv:
        logging.getLogger('jepa_text').setLevel(logging.INFO)
    try:
        if argv[1:2] == ['init']:
            return _init(argv)
        call = read(argv)
        if PRINT_CONFIG in argv:
            print('\n'.join(_config_lines(call)))
            return exits.DONE
        _check_workdir(call)
    except BrokenPipeError:
        raise  # not a fault: `run` ends quietly
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return _fail(error, exits.USAGE, with_traceback)
    except KeyboardInterrupt:
        return _fail('interrupted before the command was started.', exits.FAILED)
    try:
        _start(call)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, RuntimeError, FloatingPointError) as error:
        return _fail(error, exits.code_of(error), with_traceback)
    except exits.Stopped as stopped:
        return _fail(stopped, exits.RESUME)
    except KeyboardInterrupt:
        state = 'the same command continues from what was saved, or starts over.'
        if call.command in ('prepare', 'finetune', 'export'):  # which upload at the end
            state += ' At an address, delete the files of an unfinished upload first.'
        return _fail(f'interrupted; {state}', exits.FAILED)
    return exits.DONE


def _start(call):
    """Prepares the process and calls the command's function."""
    # Libraries log their progress at INFO; their errors are still shown.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    # gcsfs logs the traceback of each failed request in addition to raising it.
    logging.getLogger('gcsfs').setLevel(logging.CRITICAL)
    if call.command == 'train':
        # All processes of a multi-process job run it together.
        from jepa_text.parallel import processes

        with exits.config_errors():
            processes.start(call.distributed)
    if call.command not in WITHOUT_DEVICE:
        # Raises ConfigError for variables of jax with which no command runs.
        from jepa_text.running import numerics

        numerics.check()
        if os.environ.get('JAX_PLATFORMS'):
            numerics.check_platforms()
    converts_itself = call.command in WITH_TRAINING_LOOP
    with contextlib.nullcontext() if converts_itself else exits.config_errors():
        module, _, function = COMMANDS[call.command].function.partition(':')
        function = getattr(importlib.import_module(module), function)
        function(call.config, call.workdir, **call.switches)


def _check_workdir(call):
    if not call.workdir and call.command != 'plan':  # which writes nothing
        raise ValueError(
            '--workdir is missing: give the folder to write to, such as runs/first.'
        )
    paths.check_folder('--workdir', call.workdir or '.')


def _config_lines(call):
    """Returns the lines of --print-config: each resolved key, its value and its origin.

    Starts no run and writes nothing.
    """
    if COMMANDS[call.command].config_module is None:
        raise ValueError(
            f'{call.command} has no config; it is configured by flags alone.'
        )
    root = root_of(call.command, call.config)
    resolved = schema.read(root, call.config)
    origins = {'file': call.file, 'command line': call.config, 'default': resolved}
    if getattr(resolved, 'init_from', None) is not None and 'phases' in call.config:
        completion = importlib.import_module('jepa_text.training.completion')
        completed = completion.with_init_from(schema.as_dict(resolved), call.workdir)
        resolved = origins['init_from'] = schema.read(root, completed)
    return display.origin_lines(resolved, origins)


def read(argv):
    """Returns the Call of a command line.

    Raises ValueError if the command line or the config is invalid.
    """
    name = argv[1] if len(argv) > 1 else ''
    if name not in COMMANDS:
        raise ValueError(
            f'{name!r} is not a command.{resolve.nearest(name, [*COMMANDS, "init"])}'
        )
    command = COMMANDS[name]
    words, settings = config_file.split_settings([argv[0], *argv[2:]])
    words = [word for word in words if word not in (PRINT_CONFIG, TRACEBACK, VERBOSE)]
    # The first word after the command may be the config.
    if command.config_module and len(words) > 1 and not words[1].startswith('-'):
        if any(word.startswith('--config') for word in words):
            raise ValueError(f'{words[1]!r} and --config are two configs: give only one.')
        words[1] = f'--config={words[1]}'
    flags = _flags(command, words)
    workdir, place = _of_arguments(name, flags)
    if workdir:
        addresses.location('--workdir', workdir, model=name == 'export')
    switches = {x.replace('-', '_'): True for x in command.switches if flags[x]}
    given = {flag: flags[flag] for flag in command.keys if flags[flag] is not None}
    file, config = {}, given
    if command.config_module is not None:
        file = config_file.read(place)
        root = root_of(name, file)
        settings += [(command.keys[flag], text) for flag, text in given.items()]
        if text := flags.get('text'):
            settings = [*_of_text(name, text, workdir, file), *settings]
        config = config_file.with_settings(root, file, settings)
        schema.read(root, config)
    return Call(name, config, file, workdir, switches, flags['distributed'])


def _of_text(name, text, workdir, file):
    """Returns the settings that --text implies: the source; for training also a folder of
    rows of the run's own, and a tokenizer of the text unless the config names one."""
    from jepa_text.data import sources

    settings = [('prepare.source', sources.section_of(text))]
    if name != 'prepare':
        settings.append(('data.folder', f'{workdir}-rows'))
    if file['prepare'].get('tokenizer') in (None, 'bundled'):
        settings.append(('prepare.tokenizer', TOKENIZER))
    return settings


def _of_arguments(name, flags):
    """Returns (workdir, place of the config), which flags such as --model may imply."""
    workdir, place = flags['workdir'], flags.get('config')
    given = {flag: flags[flag] for flag in COMMANDS[name].arguments if flags[flag]}
    if not given:
        return workdir, place
    if place:
        flag = next(iter(given))
        raise ValueError(
            f'--{flag}={given[flag]} and the config {place!r} are both given. Leave out '
            f'one: --{flag} is a part of --config={name}:ARGUMENT.'
        )
    words = [f'{COMMANDS[name].arguments[flag][0]}={given[flag]}' for flag in given]
    if not workdir:
        parts = re.findall(r'[\w.-]+(?=,|$)', ','.join(given.values()))
        workdir = f'runs/{"-".join([name, *parts])}'
        print(f'--workdir={workdir}')
    return workdir, f'{name}:{",".join(words)}'


def _flags(command, words):
    """Returns {flag: value} of the words of a command line; {flag: None} if not given."""
    from absl import flags

    values = flags.FlagValues()
    # Without help texts: `usage` prints them.
    names = ['workdir', *command.keys, *command.arguments, *['text'] * command.has_text]
    for name in names if command.config_module is None else [*names, 'config']:
        define = flags.DEFINE_integer if name == 'step' else flags.DEFINE_string
        define(name, None, '', flag_values=values)
    for name in command.switches:
        flags.DEFINE_bool(name, False, '', flag_values=values)
    choices = ('auto', 'on', 'off')
    flags.DEFINE_enum('distributed', 'auto', choices, '', flag_values=values)
    try:
        unparsed = values(words)[1:]
    except flags.Error as error:
        message = str(error).strip().splitlines()[-1].rstrip('.') + '.'
        is_setting = 'config.' in message
        raise ValueError(f'{message} {AS_SETTINGS * is_setting}'.strip()) from error
    if unparsed:
        raise ValueError(f'{unparsed[0]!r} is not a flag. {AS_SETTINGS}')
    return {name: values[name].value for name in values}


def _init(argv):
    """Runs `jepa-text init FILE.py [--preset=NAME[,SIZE]]`."""
    from absl import flags

    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    flags.DEFINE_string('preset', 'clm_mlm', '', flag_values=values)
    try:
        files = values(argv[1:])[1:]
    except flags.Error as error:
        raise ValueError(f'The only flag of init is --preset=clm_mlm: {error}') from error
    if len(files) != 1:
        raise ValueError(
            f'init takes one file to write, not {files}: jepa-text init my.py'
        )
    command, *_ = display.preset_of(values.preset)
    display.write_preset(values.preset, files[0], root_of(command, {}))
    workdir = f'--workdir=runs/{values.preset.split(",")[0]}'
    print(f'Wrote {files[0]}. Next: jepa-text {command} --config={files[0]} {workdir}')
    return exits.DONE


def usage(arguments):
    """Returns the --help text of the first command in `arguments`, or of all commands."""
    name = next((word for word in arguments if word in COMMANDS), None)
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


def root_of(command, config):
    """Returns the dataclass that a config of a command is checked against."""
    module = COMMANDS[command].config_module
    if command == 'train' and 'runs' in config and 'phases' not in config:
        raise ValueError(importlib.import_module(TRAIN).OF_A_STUDY)
    if command in ('prepare', 'plan') and 'runs' in config:
        module = STUDY
    return importlib.import_module(module).Config


def _keep_memory():
    """Lets this process keep the memory that training steps on a CPU free."""
    xla_flags.apply()
    if xla_flags.computes_on_cpu():
        xla_flags.keep_freed_memory()


def _is_distributed():
    # A process that never imported jax cannot have joined a job.
    jax = sys.modules.get('jax')
    return jax is not None and jax.distributed.is_initialized()


def _fail(error, code, with_traceback=False):
    if with_traceback:
        traceback.print_exception(error)
    text = str(error) or type(error).__name__
    if isinstance(error, Exception) and not with_traceback and exits.origin(error):
        text = f'{text}\n({exits.origin(error)}; --traceback shows all calls.)'
    print(f'\njepa-text: {text}', file=sys.stderr)
    return code


if __name__ == '__main__':
    run()
