"""The `jepa-text` command line: parses flags and calls the command's function.

Only this file knows about flags. All logic is in functions that a notebook can call, too.

The exit codes are documented in parallel/exits.py.
"""

import contextlib
import importlib
import logging
import os
import re
import sys
import traceback

from jepa_text import commands
from jepa_text.commands import COMMANDS
from jepa_text.config import config_file, display, new_file, overrides, resolve, schema
from jepa_text.files import addresses, paths
from jepa_text.parallel import exits
from jepa_text.running import xla_flags

# Commands that all processes of a multi-process job run together.
MULTI_PROCESS = ('train',)
# Commands with a training loop. They convert errors before the loop to ConfigError.
WITH_TRAINING_LOOP = ('train', 'study')
HELP = ('-h', '--help', '-help', 'help')
# Commands that need no device.
WITHOUT_DEVICE = ('prepare', 'tokenizer')
# Commands whose own flags are booleans, passed to their function as keyword arguments.
WITH_SWITCHES = ('prepare', 'study', 'evaluate')
# Commands whose workdir may also be the name of a model on the Hugging Face Hub.
OF_MODELS = ('export',)
# Commands that write nothing.
READ_ONLY = ('plan',)


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
        print(commands.usage(argv[1:]))
        return exits.DONE
    with_traceback = _is_set('traceback', argv)
    try:
        if argv[1:2] == ['init']:
            return _init(argv)
        if _is_set('print-config', argv):
            print('\n'.join(config_lines(argv)))
            return exits.DONE
        command, config, workdir = parse(argv)
    except BrokenPipeError:
        raise  # not a fault: `run` ends quietly
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return _fail(error, exits.USAGE, with_traceback)
    except KeyboardInterrupt:
        return _fail('interrupted before the command was started.', exits.FAILED)
    _silence_libraries()
    *_, flags, own_flags = _split(argv)
    switches = {}
    if command in WITH_SWITCHES:
        switches = {n.replace('-', '_'): True for n in own_flags if own_flags[n] is True}
    try:
        if command in MULTI_PROCESS:
            _join(flags.distributed)
        if command not in WITHOUT_DEVICE:
            _check_device()
        converts_itself = command in WITH_TRAINING_LOOP
        with contextlib.nullcontext() if converts_itself else exits.config_errors():
            module = importlib.import_module(COMMANDS[command].module)
            function = getattr(module, COMMANDS[command].function)
            function(config, workdir, **switches)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, RuntimeError, FloatingPointError) as error:
        return _fail(error, exits.code_of(error), with_traceback)
    except exits.Stopped as stopped:
        return _fail(stopped, exits.RESUME)
    except KeyboardInterrupt:
        state = commands.after_interrupt(command, workdir, config, switches)
        return _fail(f'interrupted; {state}', exits.FAILED)
    return exits.DONE


def parse(argv):
    """Returns (command, config, workdir) of a command line.

    Raises ValueError if the command line or the config is invalid.
    """
    command, config, _, workdir = _read(argv)
    _check_workdir(command, workdir)
    return command, config, workdir


def _check_workdir(command, workdir):
    if not workdir and command not in READ_ONLY:
        raise ValueError(
            '--workdir is missing: give the folder to write to, such as runs/first.'
        )
    paths.check_folder('--workdir', workdir or '.')


def config_lines(argv):
    """Returns the lines of --print-config: each resolved key, its value and its origin.

    Starts no run and writes nothing.
    """
    command, config, file, workdir = _read(argv)
    if COMMANDS[command].config_module is None:
        raise ValueError(f'{command} has no config; it is configured by flags alone.')
    root = commands.root(command, config)
    resolved = before = schema.read(root, config)
    if getattr(resolved, 'init_from', None) is not None and 'phases' in config:
        completion = importlib.import_module('jepa_text.training.completion')
        completed = completion.with_init_from(schema.as_dict(resolved), workdir)
        resolved = schema.read(root, completed)
    return display.lines(resolved, file, config, before)


def _read(argv):
    """Returns (command, config, config of the file alone, workdir) of a command line."""
    command, settings, flags, own_flags = _split(argv)
    if COMMANDS[command].config_module is None:
        return command, own_flags, {}, flags.workdir
    file = config_file.read(flags.config)
    root = commands.root(command, file)
    config = overrides.apply(root, file, settings)
    if command == 'plan' and own_flags:
        config = config | {'plan': {**config.get('plan', {}), **own_flags}}
    names = {'engine': 'name', 'jobs': 'jobs'}
    # As in commands.ENGINE.
    if given := {names[flag]: x for flag, x in own_flags.items() if flag in names}:
        of = dict(config.get('prepare') or {}) if command == 'prepare' else config
        of = of | {'engine': {**of.get('engine', {}), **given}}
        config = config | {'prepare': of} if command == 'prepare' else of
    schema.read(root, config)
    return command, config, file, flags.workdir


def _split(argv):
    """Returns (command, settings, absl flag values, {name: value} of its own flags).

    The settings are the --config.KEY=VALUE flags.
    """
    command = argv[1] if len(argv) > 1 else ''
    if command not in COMMANDS:
        known = resolve.nearest(command, [*COMMANDS, *commands.OTHERS])
        raise ValueError(f'{command!r} is not a command.{known}')
    words, settings = overrides.split([argv[0], *argv[2:]])
    values, own_flags = _parse_flags(COMMANDS[command], words)
    if values.workdir:
        addresses.location('--workdir', values.workdir, model=command in OF_MODELS)
    return command, settings, values, own_flags


def _parse_flags(command, words):
    """Returns (absl flag values, {name: value} of its own flags that are set)."""
    from absl import flags

    values = flags.FlagValues()
    # Without help texts: commands.usage prints them.
    flags.DEFINE_string('workdir', None, '', flag_values=values)
    if command.config_module is not None:
        flags.DEFINE_string('config', None, '', flag_values=values)
    for name in ('traceback', 'print-config'):
        flags.DEFINE_bool(name, False, '', flag_values=values)
    choices = ('auto', 'on', 'off')
    flags.DEFINE_enum('distributed', 'auto', choices, '', flag_values=values)
    kinds = {str: 'string', int: 'integer', float: 'float', bool: 'bool'}
    for name, (example, _) in command.flags.items():
        define = getattr(flags, f'DEFINE_{kinds[type(example)]}')
        define(name, None, '', flag_values=values)
    try:
        unparsed = values(words)[1:]
    except flags.Error as error:
        raise ValueError(str(error).strip().splitlines()[-1]) from error
    if unparsed:
        raise ValueError(
            f'{unparsed[0]!r} is not a flag; config keys are set as --config.KEY=VALUE.'
        )
    own = {name: values[name].value for name in command.flags if values[name].present}
    return values, own


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
    preset = values.preset
    command, text = new_file.text(preset, files[0], lambda name: commands.root(name, {}))
    new_file.write(files[0], text)
    workdir = f'--workdir=runs/{preset.split(",")[0]}'
    print(f'Wrote {files[0]}. Next: jepa-text {command} --config={files[0]} {workdir}')
    return exits.DONE


def _join(choice):
    """Joins the other processes of the job, according to --distributed."""
    from jepa_text.parallel import processes

    with exits.config_errors():
        processes.start(choice)


def _check_device():
    """Raises ConfigError for variables of jax with which no command runs."""
    from jepa_text.running import numerics

    numerics.check()
    if os.environ.get('JAX_PLATFORMS'):
        numerics.check_platforms()


def _keep_memory():
    """Lets this process keep the memory that training steps on a CPU free."""
    xla_flags.apply()
    if xla_flags.computes_on_cpu():
        xla_flags.keep_freed_memory()


def _is_set(flag, argv):
    """Returns whether a boolean flag is on: the last occurrence counts."""
    matches = [re.fullmatch(f'--?(no)?{flag}(?:=(.*))?', word) for word in argv]
    last = next((match for match in reversed(matches) if match), None)
    return (
        bool(last) and not last[1] and (last[2] or 'true').lower() in ('true', 't', '1')
    )


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


def _silence_libraries():
    # Libraries log their progress at INFO; their errors are still shown.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    # gcsfs logs the traceback of each failed request in addition to raising it.
    logging.getLogger('gcsfs').setLevel(logging.CRITICAL)


if __name__ == '__main__':
    run()
