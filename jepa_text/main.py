"""The `jepa-text` command line: parses flags and calls the command's function.

Only this file knows about flags. All logic is in functions that a notebook can call, too.

The exit codes are documented in parallel/exits.py.
"""

import collections
import contextlib
import dataclasses
import importlib
import logging
import os
import re
import shutil
import sys
import traceback
import warnings
import zlib
from importlib import metadata
from pathlib import Path

from jepa_text import commands
from jepa_text.commands import COMMANDS
from jepa_text.files import addresses, paths
from jepa_text.parallel import exits
from jepa_text.running import xla_flags
from jepa_text.settings import config_file, display, resolve, schema

# Commands with a training loop. They convert errors before the loop to ConfigError.
WITH_TRAINING_LOOP = ('train', 'study')
# Commands that need no device.
WITHOUT_DEVICE = ('prepare', 'tokenizer')
LONGEST = 200  # bytes of the name of a workdir, of 255 that a name may have
HELP, VERSION = ('-h', '--help', '-help', 'help'), '--version'
# Flags of all commands that only change what is printed.
PRINT_CONFIG, TRACEBACK, VERBOSE = '--print-config', '--traceback', '--verbose'
AS_SETTINGS = 'Config keys are set as --config.KEY=VALUE.'


@dataclasses.dataclass(frozen=True)
class Call:
    """A command line: the name of the command, the config with all settings, that of
    the file alone, the value of --workdir, the switches, and --distributed of `train`."""

    command: str
    config: dict
    file: dict
    workdir: str | None
    switches: dict
    distributed: str | None


def run(argv=None):
    """Entry point of the console script: runs a command line and exits."""
    argv = sys.argv if argv is None else argv
    try:
        if argv[1:2] and argv[1] in WITH_TRAINING_LOOP:
            xla_flags.apply()
            if xla_flags.computes_on_cpu():
                xla_flags.keep_freed_memory()
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
    with_traceback = TRACEBACK in argv
    if VERBOSE in argv:
        logging.getLogger('jepa_text').setLevel(logging.INFO)
    try:
        if len(argv) == 1 or any(word in HELP for word in argv[1:]):
            return _help(argv[1:])
        if argv[1:] == [VERSION]:
            print(f'jepa_text {metadata.version("jepa_text")}')
            return exits.DONE
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


def _help(words):
    """Prints the help on the words of a command line; without words, as an error."""
    text, out = commands.usage(words), sys.stdout if words else sys.stderr
    if out.isatty():
        text = display.fit(text, shutil.get_terminal_size().columns)
    print(text, file=out)
    return exits.DONE if words else exits.USAGE


def _start(call):
    """Prepares the process and calls the command's function."""
    # Libraries log their progress at INFO; their errors are still shown.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    # gcsfs logs the traceback of each failed request in addition to raising it.
    logging.getLogger('gcsfs').setLevel(logging.CRITICAL)
    # Of a warning, a line of source tells a user nothing.
    warnings.formatwarning = lambda message, *_, **__: f'Note: {message}\n'
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
        raise ValueError('--workdir is missing: give a folder, such as runs/first.')
    paths.check_folder('--workdir', call.workdir or '.')


def _config_lines(call):
    """Returns the lines of --print-config: each resolved key, its value and its origin.

    Starts no run and writes nothing.
    """
    root = commands.root_of(call.command, call.config)
    resolved = schema.read(root, call.config)
    origins = {'file': call.file, 'command line': call.config, 'default': resolved}
    if getattr(resolved, 'init_from', None) is not None and 'phases' in call.config:
        completion = importlib.import_module('jepa_text.training.completion')
        completed = completion.with_init_from(schema.as_dict(resolved), call.workdir)
        resolved = origins['init_from'] = schema.read(root, completed)
    return display.origin_lines(resolved, origins, commands.defaults_of)


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
    of_config = [f'--config.{path}' for path, _ in settings]
    of_config += [word for word in words if word == PRINT_CONFIG]
    if of_config and command.config_module is None:
        raise ValueError(f'{of_config[0]}: {name} has no config, only flags.')
    words = [word for word in words if word not in (PRINT_CONFIG, TRACEBACK, VERBOSE)]
    # The first word after the command may be the config.
    if command.config_module and len(words) > 1 and not words[1].startswith('-'):
        if any(re.fullmatch('--config(=.*)?', word, re.DOTALL) for word in words):
            raise ValueError(f'{words[1]!r} and --config are two configs: give only one.')
        words[1] = f'--config={words[1]}'
    flags = _flags(command, words)
    workdir, place, implied = _of_arguments(name, flags)
    if workdir:
        addresses.location('--workdir', workdir, model=name == 'export')
    switches = {x.replace('-', '_'): True for x in command.switches if flags[x]}
    given = {flag: flags[flag] for flag in command.keys if flags[flag] is not None}
    file, config = {}, given
    if command.config_module is not None:
        if not place:
            raise ValueError(
                f'The config is missing, as in `jepa-text {name} {command.example}`. '
                '`jepa-text init --help` lists the shipped ones.'
            )
        try:
            file = config_file.read(place)
        except config_file.UnknownConfig as error:
            raise ValueError(f'{error}{_meant(command, place)}') from error
        root = commands.root_of(name, file)
        _check_once(command, settings, flags)
        settings = [*implied, *settings]
        settings += [(command.keys[flag], text) for flag, text in given.items()]
        if text := flags.get('text'):
            settings = [*_of_text(name, text, workdir, file), *settings]
        config = config_file.with_settings(root, file, settings)
        schema.read(root, config)
    return Call(name, config, file, workdir, switches, flags.get('distributed'))


def _meant(command, word):
    """Returns the flags that a word which is no config may be for."""
    if command.config_module is None:
        return ' A model is --workdir=MODEL.'
    if command.arguments:
        return ' A model is --model=MODEL, a task --task=TASK.'
    return f' A text is --text={word}.' * (command.has_text and os.path.exists(word))


def _check_once(command, settings, flags):
    """Raises ValueError for a key that two settings have, or a setting and its flag."""
    keys = command.keys | {flag: key for flag, (key, _) in command.arguments.items()}
    paths = [path for path, _ in settings]
    paths += [keys[flag] for flag in keys if flags[flag] is not None]
    for path, count in collections.Counter(paths).items():
        if count > 1:
            short = ''.join(f' (--{x} is short for it)' for x in keys if keys[x] == path)
            raise ValueError(f'--config.{path} is given more than once{short}. Keep one.')


def _of_text(name, text, workdir, file):
    """Returns the settings that --text implies: the source; for training also a folder of
    rows of the run's own, and a tokenizer of the text unless the config names one."""
    from jepa_text.data import sources

    settings = [('prepare.source', sources.section_of(text))]
    if name not in ('prepare', 'study'):
        if os.path.basename(workdir) in ('', '.', '..'):
            raise ValueError(
                f'--workdir={workdir}: with --text, give a folder with a name, runs/a: '
                'the rows are in a folder beside it, runs/a-rows.'
            )
        settings.append(('data.folder', f'{workdir}-rows'))
    prepare, data = file.get('prepare') or {}, file.get('data') or {}
    if prepare.get('tokenizer') in (None, '', 'bundled'):
        settings.append(('prepare.tokenizer', commands.TOKENIZER))
    if 'row_length' in data and 'row_length' not in prepare:
        settings.append(('prepare.row_length', data['row_length']))
    return settings


def _of_arguments(name, flags):
    """Returns (workdir, place of the config, settings): flags such as --model imply them.
    They are arguments of the config, or settings of one that takes no such argument."""
    workdir, place = flags['workdir'], flags.get('config')
    given = {flag: flags[flag] for flag in COMMANDS[name].arguments if flags[flag]}
    if not given:
        return workdir, place, []
    keys = {COMMANDS[name].arguments[flag][0]: given[flag] for flag in given}
    if not workdir:
        workdir = _inferred(name, [*given.values()])
        print(f'--workdir={workdir}')
    place = place or name
    taken = [key for key in keys if config_file.takes(place, key)]
    settings = [(key, _value(key, keys[key])) for key in keys if key not in taken]
    for key in taken:
        place += f'{"," if ":" in place else ":"}{key}={keys[key]}'
    return workdir, place, settings


def _value(key, text):
    """Returns the value of a key of models or tasks that a flag gives as text."""
    from jepa_text.evaluation import tasks

    parse = tasks.section_of if key in ('task', 'tasks') else str
    return parse(text) if key in ('task', 'model') else [*map(parse, text.split(','))]


def _inferred(name, values):
    """Returns the workdir of a command that is given only models and tasks.

    Their last parts name it; two of one name, as runs/a/seed_0 and runs/b/seed_0, differ
    in a checksum, which only a run in runs/ and the name of a task go without.
    """
    values = [re.sub('/+(?=,|$)', '', value) for value in values]
    parts = re.findall(r'([\w-]+)[\w.-]*(?:,|$)', ','.join(values))
    folder = '-'.join([name, *parts])
    short = folder.encode()[:LONGEST].decode(errors='ignore')
    if short == folder and ' '.join(values) == 'runs/' + ' '.join(parts):
        return f'runs/{folder}'
    return f'runs/{short}-{zlib.crc32(" ".join(values).encode()):08x}'


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
    if command is COMMANDS['train']:
        choices = ('auto', 'on', 'off')
        flags.DEFINE_enum('distributed', 'auto', choices, '', flag_values=values)
    try:
        unparsed = values(words)[1:]
    except flags.UnrecognizedFlagError as error:
        name, known = error.flagname, {*values, *commands.SHARED_FLAGS}
        remedy = '' if 'config.' in name else resolve.nearest(name, known)
        if command.config_module and 'Did you mean' not in remedy:
            remedy += f' {AS_SETTINGS}'
        raise ValueError(f'There is no flag {name!r}.{remedy}') from error
    except flags.Error as error:
        raise ValueError(str(error).strip().splitlines()[-1].rstrip('.') + '.') from error
    if unparsed:
        remedy = f' {AS_SETTINGS}' if command.config_module else ''
        if command.config_module and not values['config'].present:
            remedy = ' A config is the first word after the command.'
        remedy += _meant(command, unparsed[0])
        raise ValueError(f'{unparsed[0]!r} is not a flag.{remedy}')
    given = {name: values[name].value for name in values}
    if twice := [name for name in values if values[name].present > 1]:
        flag, about = twice[0], commands.EXAMINED
        takes_several = flag in about and command.arguments == about
        several = f' Several: --{flag}=A,B.' * takes_several
        raise ValueError(f'--{flag} is given more than once.{several or " Keep one."}')
    if empty := [name for name, value in given.items() if value == '']:
        raise ValueError(
            f'--{empty[0]} is empty: give a value, or leave the flag out. Is a variable '
            'of the shell unset?'
        )
    # A shell expands ~ only at the beginning of a word.
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    given |= {name: os.path.expanduser(text) for name, text in texts.items()}
    # Other folders are named after the workdir.
    return given | {'workdir': re.sub('(?<=[^/])/+$', '', given['workdir'] or '')}


def _init(argv):
    """Runs `jepa-text init [CONFIG] FILE.py`."""
    if len(argv) not in (3, 4) or any(word.startswith('-') for word in argv):
        raise ValueError(
            f'init takes a config and the file to write.\n\n{commands.starts()}'
        )
    place, path = ('toy', *argv[2:])[-2:]
    try:
        config = config_file.read(place)
    except ValueError as error:
        raise ValueError(f'{error}\n\n{commands.starts()}') from error
    command = commands.command_of(place, config)
    display.write_file(place, command, config, path, commands.root_of(command, config))
    flags = COMMANDS[command].arguments.items()
    missing = [f'--{flag}=...' for flag, (key, _) in flags if not config.get(key)]
    words = ' '.join([path, *missing, f'--workdir=runs/{Path(path).stem}'])
    print(f'Wrote {path}. Next: jepa-text {command} {words}')
    return exits.DONE


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
