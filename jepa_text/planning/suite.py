"""Compile suite: compiles a matrix of training steps for absent devices and checks them.

    python -m jepa_text.planning.suite --workdir=runs/compiled

A cell takes 20 seconds to three minutes. Results are stored in cells.jsonl: the same
command resumes and skips finished cells. table.md has a row for each finished cell.
"""

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path

from jepa_text.files import atomic
from jepa_text.parallel import exits
from jepa_text.planning import aot, cells, checks, fit, roofline, targets
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

GIB, GB = 2**30, 1e9
COLUMNS = ('objective', 'size', 'attention', 'devices', 'GiB', 'plan', 'GB sent')
COLUMNS += ('of formula', 'hidden', 'ms', 'MFU at most', 'compile s', 'outside')


def main(argv=None):
    """Compiles the cells without a result and writes the table. The exit code is 1 if a
    cell did not compile; failed checks are listed in the table."""
    parser = argparse.ArgumentParser(
        prog='suite',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--workdir', default='runs/compiled', help='folder of the results'
    )
    parser.add_argument('--cells', type=int, help='compile only the first CELLS cells')
    parser.add_argument(
        '--only', default='', help='compile only cells whose name contains ONLY'
    )
    parser.add_argument('--text', action='store_true', help='save programs as text')
    options = parser.parse_args(argv)
    if options.cells is not None and options.cells < 1:
        parser.error(f'--cells={options.cells} must be at least 1.')
    folder = Path(options.workdir)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [cell for cell in cells.cover() if options.only in cell_name(cell)]
    results = read(folder)
    for cell in chosen[: options.cells]:
        name = cell_name(cell)
        if name in results:
            continue
        if reason := missing(cell):
            print(f'{name}: skipped: {reason}')
            continue
        began = time.monotonic()
        result = run_cell(cell, folder / 'text' if options.text else None)
        results[name] = result
        write(folder, results)
        outcome = result.get('error') or result['outside'] or 'passed'
        print(f'{name}: {outcome} ({time.monotonic() - began:.0f} s)', flush=True)
    atomic.write(folder / 'table.md', table(results))
    print(folder / 'table.md')
    is_failed = any('error' in result for result in results.values())
    return exits.FAILED if is_failed else exits.DONE


def missing(cell):
    """The missing package that a cell needs, with the remedy, or ''."""
    if reason := aot.missing(targets.topology(cells.config(*cell)[1])[0]):
        return reason
    if 'tokamax' in cell and importlib.util.find_spec('tokamax') is None:
        return "tokamax is not installed: pip install 'jepa-text[kernels]'"
    return ''


def cell_name(cell):
    """The name of a cell, such as 'mlm 210m cudnn fsdp 8'."""
    return ' '.join(cell)


def run_cell(cell, text_to=None):
    """Compiles and checks a cell; returns its figures or its `error`, as JSON."""
    config, hardware = cells.config(*cell)
    config = settings.plain(config)
    key = dict(zip(('objective', 'size', 'attention', 'devices'), cell, strict=True))
    try:
        sized = fit.size(config, hardware, cells.VOCABULARY)
        to = text_to and str(text_to / cell_name(cell).replace(' ', '_'))
        (program,) = aot.compile_phases(config, hardware, cells.VOCABULARY, text_to=to)
    except (ValueError, RuntimeError) as error:
        return key | {'error': str(error)}
    (phase,), planned = sized.made.phases, sized.peak_memory()
    flops = recipes.cost(sized.made, phase).model / sized.devices
    bound = roofline.of(program.kernels, sized.chip, flops)
    communication = bound.communication
    return key | {
        'peak': program.peak,
        'planned': planned,
        'sent': checks.bytes_sent(program.kernels),
        'must': checks.required_bytes_sent(sized.made, phase),
        'waited': bound.exposed / communication if communication else 0.0,
        'step': bound.step,
        'kinds': bound.seconds,
        'mfu': bound.mfu,
        'seconds': program.seconds,
        'outside': checks.failures(program, planned, sized.made, phase),
    }


def read(folder):
    """{name: result} of the finished cells."""
    path = folder / 'cells.jsonl'
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding='utf-8').splitlines())
    return {line.pop('name'): line for line in lines}


def write(folder, results):
    """Writes the results {name: result}, one per line."""
    lines = [json.dumps({'name': name, **one}) for name, one in results.items()]
    atomic.write(folder / 'cells.jsonl', '\n'.join(lines) + '\n')


def table(results):
    """A Markdown table with a row for each result."""
    lines = [COLUMNS, ['---'] * len(COLUMNS), *map(_row, results.values())]
    return ''.join(f'| {" | ".join(line)} |\n' for line in lines)


def _row(one):
    key = [one[name] for name in ('objective', 'size', 'attention', 'devices')]
    if 'error' in one:
        first = one['error'].splitlines()[0][:160]
        return [*key, *[''] * (len(COLUMNS) - 5), f'does not compile: {first}']
    failures = '; '.join(f'{check}: {text}' for check, text in one['outside'].items())
    return [
        *key,
        f'{one["peak"] / GIB:.2f}',
        f'{one["planned"] / GIB:.2f}',
        f'{one["sent"] / GB:.2f}' if one['step'] else '',
        f'{one["sent"] / one["must"]:.2f}' if one['must'] and one['step'] else '',
        f'{1 - one["waited"]:.0%}' if one['sent'] else '',
        f'{1e3 * one["step"]:.1f}' if one['step'] else '',
        f'{one["mfu"]:.3f}' if one['step'] else '',
        f'{one["seconds"]:.0f}',
        failures,
    ]


if __name__ == '__main__':
    sys.exit(main())
