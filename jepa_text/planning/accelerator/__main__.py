"""Checks and benchmarks this machine's accelerators; writes a JSON file and an HTML page.

Runs these checks in order; each is independent of the success of the others:

- the environment: devices, driver, versions
- small programs, compared with numpy
- every attention backend, compared with the reference: forward and backward, with packed
  rows, windows and repeated document ids
- the losses of a short run, compared with the CPU
- tokens/s and MFU of a step, by size, objective, attention backend, rematerialization and
  batch size, and of transformers with torch.compile and flash attention
- a profiler trace
- the training loop

Stops when the time is up and lists the checks that did not run. The exit code is 1 if a
check failed.
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

# Seconds for the environment check, and reserved for writing the results. No check may
# take more than 1 / PARTS of the total time.
START, PAGE, PARTS = 150, 5, 4
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(argv=None):
    """Runs the checks, writes their results, and returns the exit code."""
    options = read_options(argv)
    began = time.monotonic()
    results = {}
    report = dict(
        date=datetime.datetime.now(datetime.UTC).strftime('%Y-%m-%d'),
        commit=commit(),
        results=results,
    )
    path = options.to

    def on_result(name, result):
        why = f': {result["why"]}' if result['why'] else ''
        line = f'{result["status"]:7}{result["seconds"]:6.0f} s  {name}{why}'
        print(line, file=sys.stderr, flush=True)
        atomic.write(path, json.dumps(report, indent=1))

    handlers = {number: signal.signal(number, stop) for number in SIGNALS}
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        try:
            run(options, report, folder, began, on_result)
        except KeyboardInterrupt:
            report['stopped'] = 'stopped by a signal'
            for process in psutil.Process().children():
                process.kill()
        finally:
            report['seconds'] = time.monotonic() - began
            save_trace(Path(folder, 'trace'), path.with_suffix('.trace'))
            report |= page.summary(report)
            atomic.write(path, json.dumps(report, indent=1))
            page.write(path.with_suffix('.html'), report)
            for number, handler in handlers.items():
                signal.signal(number, handler)
    print(report['paragraph'])
    for line in report['failed']:
        print(f'FAILED  {line}')
    print(f'{path}\n{path.with_suffix(".html")}')
    is_failed = report['failed'] or 'stopped' in report
    return exits.FAILED if is_failed else exits.DONE


def stop(*_):
    """Signal handler that ends the checks. Further signals, such as a second one from
    `timeout`, are ignored, so that the results are written."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def read_options(argv):
    """Parses and validates the command line."""
    parser = argparse.ArgumentParser(
        prog='accelerator',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--to',
        type=Path,
        default='runs/accelerator.json',
        help='JSON file to write; the page is written next to it',
    )
    parser.add_argument(
        '--minutes', type=float, help='total time; by default 10, or 3 on a CPU'
    )
    parser.add_argument(
        '--sizes',
        help='model sizes, such as 210m,610m; the first is measured in all variants',
    )
    parser.add_argument(
        '--cells',
        type=int,
        help='maximum number of speed measurements; by default as many as time permits',
    )
    parser.add_argument(
        '--peer-python', help='Python interpreter with torch and transformers installed'
    )
    options = parser.parse_args(argv)
    if options.minutes is not None and not 0 < options.minutes < math.inf:
        parser.error(f'--minutes={options.minutes} must be above 0.')
    if options.cells is not None and options.cells < 1:
        parser.error(f'--cells={options.cells} must be at least 1.')
    python = options.peer_python
    if python is not None and not shutil.which(python):
        parser.error(f'--peer-python={python} is not an executable.')
    options.sizes = tuple(dict.fromkeys(filter(None, (options.sizes or '').split(','))))
    try:
        for size in options.sizes:
            settings.shapes(size)
    except ValueError as error:
        parser.error(f'--sizes: {error}')
    if options.to.suffix != '.json' or options.to.is_dir():
        parser.error(f'--to={options.to} must be a file name that ends in .json.')
    try:
        options.to.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f'--to={options.to}: its folder cannot be created ({error}).')
    return options


def run(options, report, folder, began, on_result):
    """Runs all checks; only the environment check if that fails."""
    results = report['results']
    tasks.run([tasks.environment()], math.inf, START, results, on_result)
    environment = results['environment']['found']
    if not environment:
        return
    is_cpu = environment['platform'] == 'cpu'
    minutes, sizes = settings.ON_CPU if is_cpu else settings.ON_ACCELERATOR
    report['minutes'] = options.minutes or minutes
    seconds = 60 * report['minutes']
    limits = began + seconds - PAGE, seconds / PARTS
    checks, at_once = tasks.checks(environment, folder)
    tasks.run(checks, *limits, results, on_result, at_once)
    speeds = tasks.speeds(
        environment, options.sizes or sizes, folder, options.peer_python, options.cells
    )
    tasks.run(speeds, *limits, results, on_result)


def save_trace(source, target):
    """Moves a trace out of the temporary folder, if there is one."""
    if source.exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(source, target)


def commit():
    """The commit of this clone, followed by + if files are modified; '' outside a
    clone."""
    command = ['git', 'describe', '--always', '--dirty=+']
    root = Path(__file__).parents[3]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:
        return ''
    return done.stdout.strip()


if __name__ == '__main__':
    sys.exit(main())
