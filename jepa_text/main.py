"""`jepa-text COMMAND --config=FILE --workdir=DIR`: flags, and one call.

All logic is in functions that a notebook can call too; only this file knows of flags.

Exit codes: 0 done; 1 the run failed, a restart may help; 2 wrong usage, a config that
cannot run, or training that diverged or collapsed: a restart never helps; 75 stopped by
SIGTERM or SIGINT with the state saved, the same command resumes; 87 the watchdog ended a
run that hung. See parallel/exits.py.
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
from jepa_text.files import addresses
from jepa_text.parallel import exits
from jepa_text.running import xla_flags

# Those that all processes of a job run together.
TOGETHER = ('train',)
# Those with a training loop: they say themselves what comes before it.
LOOPING = ('train', 'study')
# How a flag is switched on; as absl reads it.
ON = ('true', 't', '1')
HELP = ('-h', '--help', '-help', 'help')
# Those that need no device.
TEXT_ONLY = ('prepare', 'tokenizer')
# Those whose own flags are switches, which their function takes by name.
SWITCHED = ('prepare', 'train', 'study', 'evaluate')
# Those whose workdir is a model, which may have a name on the hub.
OF_MODELS = ('export',)
# Those that write nothing.
READING = ('plan',)


def run(argv=None):
    """The console command."""
    argv = sys.argv if argv is None else argv
    try:
        if argv[1:2] and argv[1] in LOOPING:
            _keep_memory()
        code = main(argv)
    except Exception:  # a fault of the program
        traceback.print_exc()
        code = exits.FAILED
    if code not in (exits.DONE, exits.RESUME) and _is_one_of_several():
        # The orderly way out would wait for processes that wait for this one.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(argv):
    """Runs one command line and returns its exit code."""
    xla_flags.mend()  # before anything imports jax
    if any(word in HELP for word in argv[1:]):
        print(commands.usage(argv[1:]))
        return exits.DONE
    is_traced = _is_set('traceback', argv)
    try:
        if argv[1:2] == ['supervise']:
            return _supervise(argv)
        if argv[1:2] == ['init']:
            return _init(argv)
        if _is_set('print-config', argv):
            print('\n'.join(config_lines(argv)))
            return exits.DONE
        command, config, workdir = parse(argv)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return _fail(error, exits.USAGE, is_traced)
    except KeyboardInterrupt:
        return _fail('interrupted before anything was begun.', exits.FAILED)
    _quiet()
    switches = _keywords(command, argv)
    try:
        if command in TOGETHER:
            _join(argv)
        if os.environ.get('JAX_PLATFORMS') and command not in TEXT_ONLY:
            importlib.import_module('jepa_text.running.self_test').check_platforms()
        own = command in LOOPING
        with contextlib.nullcontext() if own else exits.refusals():
            module = importlib.import_module(COMMANDS[command].module)
            run = getattr(module, COMMANDS[command].function)
            run(config, workdir, **switches)
    except (ValueError, OSError, RuntimeError, FloatingPointError) as error:
        return _fail(error, exits.code_of(error), is_traced)
    except exits.Stopped as stopped:
        return _fail(stopped, exits.RESUME)
    except KeyboardInterrupt:
        truth = commands.after_interrupt(command, workdir, config, switches)
        return _fail(f'interrupted; {truth}', exits.FAILED)
    return exits.DONE


def parse(argv):
    """(command, config, workdir) of a command line; ValueError says what is wrong."""
    command, config, _, workdir = _read(argv)
    _check_workdir(command, workdir)
    return command, config, workdir


def _check_workdir(command, workdir):
    if not workdir and command not in READING:
        raise ValueError('--workdir is missing: the folder to write to, as runs/first.')


def config_lines(argv):
    """What a command would run with, key by key, and where each value came from. Nothing
    is written, and no run begins."""
    command, config, file, workdir = _read(argv)
    if COMMANDS[command].root is None:
        raise ValueError(f'{command} has no config; its flags are all that it takes.')
    root = commands.root(command, config)
    made = before = schema.read(root, config)
    if getattr(made, 'init_from', None) is not None and 'phases' in config:
        settle = importlib.import_module('jepa_text.training.completion')
        whole = settle.completed(schema.as_dict(made), workdir)
        made = schema.read(root, whole)
    return display.lines(made, file, config, before)


def _read(argv):
    """(command, config, that of the file alone, workdir) of a command line."""
    command, words, settings, workdir, given = _split(argv)
    if COMMANDS[command].root is None:
        return command, given, {}, workdir
    file = config_file.read(words)
    root = commands.root(command, file)
    config = overrides.apply(root, file, settings)
    if command == 'plan' and given:
        config = config | {'plan': {**config.get('plan', {}), **given}}
    schema.read(root, config)
    return command, config, file, workdir


def _split(argv):
    """(command, its words but the settings, these, workdir, {own flag: value}) of a
    command line."""
    command = argv[1] if len(argv) > 1 else ''
    if command not in COMMANDS:
        known = resolve.nearest(command, [*COMMANDS, *commands.OTHERS])
        raise ValueError(f'{command!r} is not a command.{known}')
    words, settings = overrides.split([argv[0], *argv[2:]])
    values, given = _flags(COMMANDS[command], words)
    if values.workdir:
        addresses.place('--workdir', values.workdir, model=command in OF_MODELS)
    return command, words, settings, values.workdir, given


def _flags(about, words):
    """(values of flags, {own flag: value} of those that are given)."""
    from absl import flags

    values = flags.FlagValues()
    flags.DEFINE_string('workdir', None, 'folder of the run', flag_values=values)
    if about.root is not None:
        flags.DEFINE_string('config', None, 'FILE[:ARG]', flag_values=values)
    for name in ('traceback', 'print-config'):
        flags.DEFINE_bool(name, False, commands.SHARED_FLAGS[name], flag_values=values)
    choices = ('auto', 'on', 'off')
    flags.DEFINE_enum('distributed', 'auto', choices, 'several', flag_values=values)
    kinds = {
        str: flags.DEFINE_string,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        bool: flags.DEFINE_bool,
    }
    for name, (example, line) in about.flags.items():
        kinds[type(example)](name, None, line, flag_values=values)
    try:
        left = values(words)[1:]
    except flags.Error as error:
        raise ValueError(str(error).strip().splitlines()[-1]) from error
    if left:
        raise ValueError(f'{left[0]!r} is no flag; settings are --config.KEY=VALUE.')
    return values, {key: values[key].value for key in about.flags if values[key].present}


def _init(argv):
    """`jepa-text init FILE.py [--preset=NAME[,SIZE]]`"""
    files, preset = [], 'clm_mlm'
    for word in argv[2:]:
        given = re.fullmatch(r'--?preset=(.*)', word)
        if given is None and word.startswith('-'):
            raise ValueError(f'{word!r} is no flag of init; it takes --preset=NAME.')
        preset = given[1] if given else preset
        files += [] if given else [word]
    if len(files) != 1:
        raise ValueError(
            f'init takes the one file to write, not {files}: jepa-text init my.py'
        )
    command, text = new_file.text(preset, files[0], lambda name: commands.root(name, {}))
    new_file.write(files[0], text)
    workdir = f'--workdir=runs/{preset.split(",")[0]}'
    print(f'{files[0]}: written. Next: jepa-text {command} --config={files[0]} {workdir}')
    return exits.DONE


def _supervise(argv):
    """`jepa-text supervise [--restarts=N] COMMAND ...`"""
    from jepa_text.running import supervise

    restarts, rest = 5, argv[2:]
    if rest and (given := re.fullmatch(r'--?restarts=(\d+)', rest[0])):
        restarts, rest = int(given[1]), rest[1:]
    # The command itself reads its config, which takes all that it is checked against.
    command, _, _, workdir, _ = _split([argv[0], *rest])
    _check_workdir(command, workdir)
    if addresses.is_address(workdir):
        mirror = importlib.import_module('jepa_text.running.mirror')
        # Workers of one machine have a copy each.
        workdir = mirror.folder_of(workdir).parent
    return supervise.supervise(
        [sys.executable, '-m', f'{__package__}.main', *rest],
        restarts,
        lambda: supervise.complete(workdir),
    )


def _join(argv):
    """Finds the other processes of this job, as --distributed says."""
    from jepa_text.parallel import processes

    given = [re.fullmatch(r'--?distributed=(.*)', word) for word in argv]
    with exits.refusals():
        processes.start(next((word[1] for word in reversed(given) if word), 'auto'))


def _keep_memory():
    """This process is ours alone: what steps on a CPU free may stay with it."""
    xla_flags.mend()
    from jepa_text.running import allocator

    if allocator.computes_on_cpu():
        allocator.keep_freed_memory()


def _keywords(command, argv):
    """What flags say to the function of a command beside config and workdir."""
    names = COMMANDS[command].flags if command in SWITCHED else ()
    return {name.replace('-', '_'): True for name in names if _is_set(name, argv)}


def _is_set(flag, argv):
    """Is a flag that is on or off on?"""
    said = [re.fullmatch(f'--?(no)?{flag}(?:=(.*))?', word) for word in argv]
    last = next((match for match in reversed(said) if match), None)
    return bool(last) and not last[1] and (last[2] or 'true').lower() in ON


def _is_one_of_several():
    # A command that never imported jax is alone.
    jax = sys.modules.get('jax')
    return jax is not None and jax.distributed.is_initialized()


def _fail(error, code, is_traced=False):
    if is_traced:
        traceback.print_exception(error)
    text = str(error) or type(error).__name__
    print(f'\njepa-text: {text}', file=sys.stderr)
    return code


def _quiet():
    # Libraries report progress of their own at INFO; errors still come through.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    # It logs the trace of each request that failed, and raises it, too.
    logging.getLogger('gcsfs').setLevel(logging.CRITICAL)


if __name__ == '__main__':
    run()
