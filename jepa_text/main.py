"""`jepa-text COMMAND --config=FILE --workdir=DIR`: flags, and one call.

All logic is in functions that a notebook can call too; only this file knows of flags.

Exit codes: 0 done; 1 the run failed, a restart may help; 2 wrong usage, a config that
cannot run, or training that diverged or collapsed: a restart never helps; 75 stopped by
SIGTERM or SIGINT with the state saved, the same command resumes; 87 the watchdog ended a
run that hung. See parallel/exits.py.
"""

import contextlib
import importlib
import os
import re
import sys
import traceback

from jepa_text.config import config_file
from jepa_text.files import paths
from jepa_text.parallel import exits
from jepa_text.running import xla_flags

# command: what it does, and the function(config, workdir) that does it.
COMMANDS = {
    'prepare': ('text to rows on disk', 'jepa_text.training.prepare', 'run'),
    'train': ('pretrain, or resume', 'jepa_text.training.train', 'run'),
    'study': ('several runs, one report', 'jepa_text.study.study', 'study'),
    'analyse': ('what vectors hold', 'jepa_text.analysis.analyse', 'analyse'),
    'plan': ('memory, hours and money of a run', 'jepa_text.planning.plan', 'plan'),
    'benchmark': ('steps in turns', 'jepa_text.planning.benchmark', 'benchmark'),
    'export': ('a run as a folder for transformers', 'jepa_text.export', 'run'),
}

# Those that all processes of a job run together.
TOGETHER = ('train',)
# Those with a training loop: they say themselves what comes before it.
LOOPING = ('train', 'study')
# How a flag is switched on; as absl reads it.
ON = ('true', 't', '1')
# Those that need no device.
TEXT_ONLY = ('prepare',)
# Those that write nothing.
READING = ('plan',)
# Flags of plan: keys of the section of that name.
PLANNING = {'hardware': 'h100:8', 'mfu': 0.4, 'price': 2.5, 'compile': True}
# Flags of train: its keywords.
TRAINING = {'restart': True}
# Flags of export, which has no config file: they are its config.
EXPORTING = {'to': 'exports/first', 'step': 500, 'family': 'llama', 'license': 'mit'}

USAGE = """jepa-text COMMAND --config=FILE[:ARG] --workdir=DIR [--config.KEY=VALUE ...]
jepa-text plan --config=FILE[:ARG] [--hardware=h100:8 --mfu=0.4 --price=2.5 --compile]
jepa-text export --workdir=DIR --to=FOLDER [--step=N --family=NAME --license=NAME]
jepa-text supervise [--restarts=5] COMMAND ...

{commands}
  supervise  the same, started again after a failure while it makes progress

train --restart begins anew where no checkpoint is good, and keeps the old files.
Every key of the config file can be set on the command line; --traceback shows where an
error arose; --distributed=auto|on|off says whether this is one process of several.
Exit codes: 0 done, 1 failed, 2 wrong usage or config, or training that diverged or
collapsed, 75 stopped with the state saved (the same command resumes), 87 hung. Examples
that run:

  jepa-text study --config=configs/quickstart.py --workdir=runs/quickstart
  jepa-text train --config=configs/desk.py:clm_mlm --workdir=runs/clm_mlm
  jepa-text train --config=configs/desk.py:mlm --config.steps=200 --workdir=runs/short
  jepa-text plan --config=configs/pretrain.py:jepa_mlm,610m --hardware=h100:64
  jepa-text benchmark --config=configs/benchmark.py:objectives --workdir=runs/speed
  jepa-text export --workdir=runs/clm_mlm --to=exports/clm_mlm
"""


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
    if len(argv) > 1 and argv[1] in ('-h', '--help', 'help'):
        print(usage())
        return exits.DONE
    xla_flags.mend()  # before anything imports jax
    is_traced = _is_set('traceback', argv)
    try:
        if argv[1:2] == ['supervise']:
            return _supervise(argv)
        command, config, workdir = parse(argv)
    except ValueError as error:
        return _fail(error, exits.USAGE, is_traced)
    _, module, function = COMMANDS[command]
    _quiet()
    try:
        if command in TOGETHER:
            _join(argv)
        if os.environ.get('JAX_PLATFORMS') and command not in TEXT_ONLY:
            importlib.import_module('jepa_text.running.arithmetic').check_platforms()
        own = command in LOOPING
        with contextlib.nullcontext() if own else exits.refusals():
            run = getattr(importlib.import_module(module), function)
            run(config, workdir, **_keywords(command, argv))
    except (ValueError, OSError, RuntimeError, FloatingPointError) as error:
        return _fail(error, exits.code_of(error), is_traced)
    except exits.Stopped as stopped:
        return _fail(stopped, exits.RESUME)
    except KeyboardInterrupt:
        return _fail(
            'interrupted; the same command goes on from the last checkpoint.',
            exits.FAILED,
        )
    return exits.DONE


def _supervise(argv):
    """`jepa-text supervise [--restarts=N] COMMAND ...`"""
    from jepa_text.running import supervise

    restarts, rest = 5, argv[2:]
    if rest and (given := re.fullmatch(r'--?restarts=(\d+)', rest[0])):
        restarts, rest = int(given[1]), rest[1:]
    _, _, workdir = parse([argv[0], *rest])
    return supervise.supervise(
        [sys.executable, '-m', f'{__package__}.main', *rest],
        restarts,
        lambda: supervise.sealed(workdir),
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
    names = TRAINING if command == 'train' else ()
    return {name: True for name in names if _is_set(name, argv)}


def _is_set(flag, argv):
    """Is a flag that is on or off on?"""
    said = [re.fullmatch(f'--?(no)?{flag}(?:=(.*))?', word) for word in argv]
    last = next((match for match in reversed(said) if match), None)
    return bool(last) and not last[1] and (last[2] or 'true').lower() in ON


def _is_one_of_several():
    # A command that never imported jax is alone.
    jax = sys.modules.get('jax')
    return jax is not None and jax.distributed.is_initialized()


def usage():
    """The text of --help."""
    width = max(map(len, COMMANDS))
    lines = [f'  {name:{width}}  {text}' for name, (text, _, _) in COMMANDS.items()]
    return USAGE.format(commands='\n'.join(lines))


def parse(argv):
    """(command, config, workdir) of a command line; ValueError says what is wrong."""
    command = argv[1] if len(argv) > 1 else ''
    if command not in COMMANDS:
        raise ValueError(
            f'{command!r} is not a command.{config_file.nearest(command, COMMANDS)}'
        )
    from absl import flags
    from ml_collections import config_flags

    values = flags.FlagValues()
    rest = [argv[0], *argv[2:]]
    if command != 'export':
        define = config_flags.DEFINE_config_file
        define('config', None, flag_values=values, sys_argv=rest)
    flags.DEFINE_string('workdir', None, 'folder of the run', flag_values=values)
    flags.DEFINE_bool('traceback', False, 'show where', flag_values=values)
    choices = ('auto', 'on', 'off')
    flags.DEFINE_enum('distributed', 'auto', choices, 'several', flag_values=values)
    own = {'plan': PLANNING, 'export': EXPORTING, 'train': TRAINING}.get(command, {})
    _define(own, values)
    if command != 'export':
        config_file.check(rest)
    try:
        left = values(rest)[1:]
        config = {} if command == 'export' else values.config
    except Exception as error:  # a config file is a program, and may raise anything
        raise ValueError(config_file.why_not(error, rest)) from error
    if not hasattr(config, 'keys'):
        raise ValueError(config_file.not_one(rest, config))
    if left:
        raise ValueError(f'{left[0]!r} is no flag; settings are --config.KEY=VALUE.')
    given = {key: values[key].value for key in own if values[key].present}
    if command == 'plan':
        with config.unlocked():
            config.plan = {**config.get('plan', {}), **given}
    elif command == 'export':
        config = given
    if not values.workdir and command not in READING:
        raise ValueError('--workdir is missing: the folder to write to, as runs/first.')
    if values.workdir:
        paths.local('--workdir', values.workdir, model=command == 'export')
    return command, config, values.workdir


def _define(own, values):
    """The flags of one command, of the type of their examples."""
    from absl import flags

    kinds = {
        str: flags.DEFINE_string,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        bool: flags.DEFINE_bool,
    }
    for name, example in own.items():
        kinds[type(example)](name, None, f'as {example}', flag_values=values)


def _fail(error, code, is_traced=False):
    if is_traced:
        traceback.print_exception(error)
    text = str(error) or type(error).__name__
    print(f'\njepa-text: {text}', file=sys.stderr)
    return code


def _quiet():
    # Libraries report progress of their own at INFO; errors still come through.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')


if __name__ == '__main__':
    run()
