"""Checks and measures this machine's devices, and writes one JSON and one page.

In this order, each by itself, whatever becomes of the others: what is here; small
programs against numpy; every backend of attention against the reference, forward and
backward, packed, with windows and with ids that come again; the losses of a short run
against the CPU's; tokens/s and MFU of a step, by size, objective, backend,
rematerialization and batch, beside transformers with torch.compile and flash attention;
a trace; and the training loop. It stops when the time is up and says what was left. The
exit code is 1 if a check failed.
"""

import argparse
import datetime
import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from jepa_text.files import atomic
from jepa_text.parallel import exits
from jepa_text.planning.accelerator import page, settings, tasks

# Seconds to find a device, and to write what was found; and of the time as a whole, in
# how many parts no check may take more than one.
START, PAGE, PARTS = 150, 5, 4
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(argv=None):
    """Runs the checks, writes what they found, and returns the exit code."""
    options = read(argv)
    began = time.monotonic()
    results = {}
    found = dict(
        date=datetime.datetime.now(datetime.UTC).strftime('%Y-%m-%d'),
        commit=commit(),
        results=results,
    )
    to = options.to

    def told(name, result):
        why = f': {result["why"]}' if result['why'] else ''
        line = f'{result["status"]:7}{result["seconds"]:6.0f} s  {name}{why}'
        print(line, file=sys.stderr, flush=True)
        atomic.write(to, json.dumps(found, indent=1))

    before = {one: signal.signal(one, stop) for one in SIGNALS}
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        try:
            run(options, found, folder, began, told)
        except KeyboardInterrupt:
            found['stopped'] = 'a signal stopped it'
            for started in psutil.Process().children():
                started.kill()
        finally:
            found['seconds'] = time.monotonic() - began
            keep_trace(Path(folder, 'trace'), to.with_suffix('.trace'))
            found |= page.summary(found)
            atomic.write(to, json.dumps(found, indent=1))
            page.write(to.with_suffix('.html'), found)
            for one, handler in before.items():
                signal.signal(one, handler)
    print(found['paragraph'])
    for line in found['failed']:
        print(f'FAILED  {line}')
    print(f'{to}\n{to.with_suffix(".html")}')
    bad = found['failed'] or 'stopped' in found
    return exits.FAILED if bad else exits.DONE


def stop(*_):
    """Ends the checks. A second signal, as `timeout` sends, does not end the writing of
    what was found."""
    for one in SIGNALS:
        signal.signal(one, lambda *_: None)
    raise KeyboardInterrupt


def read(argv):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog='accelerator',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--to',
        type=Path,
        default='runs/accelerator.json',
        help='the JSON file; the page is beside it',
    )
    parser.add_argument(
        '--minutes', type=float, help='in all; 10, or 3 on a CPU, if not given'
    )
    parser.add_argument(
        '--sizes', help='of models, as 210m,610m: the first is looked at from all sides'
    )
    parser.add_argument(
        '--cells',
        type=int,
        help='of the speeds, so many at most; all that there is time for',
    )
    parser.add_argument(
        '--peer-python', help='an interpreter that has torch and transformers, too'
    )
    options = parser.parse_args(argv)
    if options.minutes is not None and not 0 < options.minutes < math.inf:
        parser.error(f'--minutes={options.minutes} is not a time above 0.')
    if options.cells is not None and options.cells < 1:
        parser.error(f'--cells={options.cells} is not a number of at least 1.')
    python = options.peer_python
    if python is not None and not shutil.which(python):
        parser.error(f'--peer-python={python} is no program.')
    options.sizes = tuple(dict.fromkeys(filter(None, (options.sizes or '').split(','))))
    try:
        for size in options.sizes:
            settings.shapes(size)
    except ValueError as error:
        parser.error(f'--sizes: {error}')
    if options.to.suffix != '.json' or options.to.is_dir():
        parser.error(f'--to={options.to} is no file that ends in .json.')
    try:
        options.to.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f'--to={options.to}: its folder cannot be made ({error}).')
    return options


def run(options, found, folder, began, told):
    """Does all checks; of a machine whose environment is not found, no more than that."""
    results = found['results']
    tasks.perform([tasks.environment()], math.inf, START, results, told)
    about = results['environment']['found']
    if not about:
        return
    usual = settings.ON_CPU if about['platform'] == 'cpu' else settings.ON_ACCELERATOR
    found['minutes'] = options.minutes or usual[0]
    sizes = options.sizes or usual[1]
    seconds = 60 * found['minutes']
    times = began + seconds - PAGE, seconds / PARTS
    planned, at_once = tasks.checks(about, folder)
    tasks.perform(planned, *times, results, told, at_once)
    planned = tasks.speeds(about, sizes, folder, options.peer_python, options.cells)
    tasks.perform(planned, *times, results, told)


def keep_trace(made, to):
    """Moves a trace to where it stays."""
    if made.exists():
        shutil.rmtree(to, ignore_errors=True)
        shutil.move(made, to)


def commit():
    """That of this clone, '' outside one; with + where files differ from it."""
    command = ['git', 'describe', '--always', '--dirty=+']
    root = Path(__file__).parents[3]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:
        return ''
    return done.stdout.strip()


if __name__ == '__main__':
    sys.exit(main())
