"""Steps of every objective, size, backend and layout compiled for devices elsewhere, and
checked: `python -m jepa_text.planning.suite --workdir=runs/compiled`.

A cell takes 20 seconds to three minutes. What was compiled is in cells.jsonl and is not
compiled again: the same command goes on. table.md is the table of all that is there.
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
    """Compiles what is not compiled yet, and writes the table. The exit code is 1 if a
    cell did not compile; what is outside of the checks is in the table."""
    parser = argparse.ArgumentParser(prog='suite', description=__doc__)
    parser.add_argument('--workdir', default='runs/compiled', help='of the answers')
    parser.add_argument('--cells', type=int, help='only so many, the first of the cover')
    parser.add_argument('--only', default='', help='those whose name has this in it')
    parser.add_argument('--text', action='store_true', help='keep programs as text')
    options = parser.parse_args(argv)
    if options.cells is not None and options.cells < 1:
        parser.error(f'--cells={options.cells} is not a number of at least 1.')
    folder = Path(options.workdir)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [cell for cell in cells.cover() if options.only in name(cell)]
    found = read(folder)
    for cell in chosen[: options.cells]:
        if name(cell) in found:
            continue
        if reason := missing(cell):
            print(f'{name(cell)}: not run: {reason}')
            continue
        began = time.monotonic()
        found[name(cell)] = one = run(cell, folder / 'text' if options.text else None)
        write(folder, found)
        told = one.get('error') or one['outside'] or 'as it should be'
        print(f'{name(cell)}: {told} ({time.monotonic() - began:.0f} s)', flush=True)
    atomic.write(folder / 'table.md', table(found))
    print(folder / 'table.md')
    return exits.FAILED if any('error' in one for one in found.values()) else exits.DONE


def missing(cell):
    """What is not installed without which a cell says nothing, and the remedy; ''."""
    if reason := aot.missing(targets.topology(cells.config(*cell)[1])[0]):
        return reason
    if 'tokamax' in cell and importlib.util.find_spec('tokamax') is None:
        return "tokamax is not installed: pip install 'jepa-text[kernels]'"
    return ''


def name(cell):
    """'mlm 210m cudnn fsdp 8'."""
    return ' '.join(cell)


def run(cell, text_to=None):
    """What became of a cell, as JSON has it: its figures, or its `error`."""
    config, hardware = cells.config(*cell)
    config = settings.plain(config)
    about = dict(zip(('objective', 'size', 'attention', 'devices'), cell, strict=True))
    try:
        sized = fit.size(config, hardware, cells.VOCABULARY)
        to = text_to and str(text_to / name(cell).replace(' ', '_'))
        (made,) = aot.compile_phases(config, hardware, cells.VOCABULARY, text_to=to)
    except (ValueError, RuntimeError) as error:
        return about | {'error': str(error)}
    (phase,), planned = sized.made.phases, sized.need()
    flops = recipes.cost(sized.made, phase).model / sized.devices
    bound = roofline.of(made.kernels, sized.chip, flops)
    sent, must = checks.sending(made.kernels), checks.must_send(sized.made, phase)
    return about | {
        'peak': made.peak,
        'planned': planned,
        'sent': sent,
        'must': must,
        'waited': bound.waited / bound.sending if bound.sending else 0.0,
        'step': bound.step,
        'kinds': bound.seconds,
        'mfu': bound.mfu,
        'seconds': made.seconds,
        'outside': checks.failures(made, planned, sized.made, phase),
    }


def read(folder):
    """{name: what became of the cell} of those that were compiled."""
    path = folder / 'cells.jsonl'
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding='utf-8').splitlines())
    return {line.pop('name'): line for line in lines}


def write(folder, found):
    """Keeps what became of the cells, one a line."""
    lines = [json.dumps({'name': key, **one}) for key, one in found.items()]
    atomic.write(folder / 'cells.jsonl', '\n'.join(lines) + '\n')


def table(found):
    """The table of cells, in Markdown."""
    lines = [COLUMNS, ['---'] * len(COLUMNS), *map(_row, found.values())]
    return ''.join(f'| {" | ".join(line)} |\n' for line in lines)


def _row(one):
    about = [one[key] for key in ('objective', 'size', 'attention', 'devices')]
    if 'error' in one:
        first = one['error'].splitlines()[0][:160]
        return [*about, *[''] * (len(COLUMNS) - 5), f'does not compile: {first}']
    outside = '; '.join(f'{key}: {said}' for key, said in one['outside'].items())
    return [
        *about,
        f'{one["peak"] / GIB:.2f}',
        f'{one["planned"] / GIB:.2f}',
        f'{one["sent"] / GB:.2f}' if one['step'] else '',
        f'{one["sent"] / one["must"]:.2f}' if one['must'] and one['step'] else '',
        f'{1 - one["waited"]:.0%}' if one['sent'] else '',
        f'{1e3 * one["step"]:.1f}' if one['step'] else '',
        f'{one["mfu"]:.3f}' if one['step'] else '',
        f'{one["seconds"]:.0f}',
        outside,
    ]


if __name__ == '__main__':
    sys.exit(main())
