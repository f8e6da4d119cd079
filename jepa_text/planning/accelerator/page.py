"""Report of the accelerator checks: a summary, a README paragraph, and an HTML page."""

import collections

import numpy as np

from jepa_text.planning.accelerator import settings, tasks
from jepa_text.report import page, plots

COLUMNS = (
    'step',
    'attention',
    'remat',
    'rows',
    'tokens/s',
    'MFU, %',
    'ms/step',
    'memory, GiB',
    'vs. transformers',
    'note',
)
NOT_TESTED = (
    'Several machines, NCCL between them, and runs of weeks. The loss curve is that of a '
    'small model, on which wrong attention has little effect: kernels are compared '
    'separately, on random rows. Speed is measured on random tokens with one document '
    'per row; only the training loop reads real data.'
)


def summary(report):
    """{'failed', 'left': lines; 'paragraph': for a README, in Markdown}."""
    results = report['results']
    lines = {
        status: [
            f'{name}: {result["why"]}'
            for name, result in results.items()
            if result['status'] == status
        ]
        for status in ('failed', 'left')
    }
    return lines | {'paragraph': paragraph(report, lines['failed'])}


def paragraph(report, failed):
    """A paragraph about this machine for a README, with the command."""
    results = report['results']
    environment = machine(results)
    if not environment:
        return f'No device was measured. {" ".join(failed)}'.strip()
    at_commit = f' at {report["commit"]}' if report['commit'] else ''
    sentences = [
        f'**{environment["devices"]} × {environment["device"]}** '
        f'({versions(environment)}), measured with `bash launch/accelerator.sh` on '
        f'{report["date"]}{at_commit}:'
    ]
    kernels = [one['status'] for one in results.values() if one['group'] == 'kernels']
    passed, wrong = (kernels.count(status) for status in ('passed', 'failed'))
    if arithmetic := _passed(results, 'arithmetic'):
        sentences.append(f'{len(arithmetic["programs"])} programs agree with numpy;')
    if supported := passed + wrong:
        sentences.append(
            f'{passed} of {supported} supported attention backends are correct;'
        )
    if curve := _passed(results, 'curve'):
        difference = curve['off']['a step']
        sentences.append(
            f'the losses of a short run are within {difference:.3f} nats of the CPU’s.'
        )
    sentences += [_speed_sentence(name, one) for name, one in plain(results).items()]
    sentences += [
        f'{name} has {ratio:.2f} × the speed of transformers.'
        for name, ratio in peers(results)
    ]
    if failed:
        sentences.append(f'**Failed**: {"; ".join(failed).rstrip(".")}.')
    return ' '.join(sentences)


def machine(results):
    """The findings of the environment check; {} if it failed."""
    return results.get('environment', {}).get('found', {})


def versions(environment):
    """Versions of jax, the driver and the runtime."""
    driver = environment['driver'].get('driver_version')
    driver = f', driver {driver}' if driver else ''
    return f'jax {environment["versions"]["jax"]}{driver}, {environment["runtime"]}'


def _passed(results, name):
    result = results.get(name)
    return result['found'] if result and result['status'] == 'passed' else None


def _speed_sentence(name, one):
    mfu = '' if one['mfu'] is None else f' (MFU {one["mfu"]:.1%})'
    return f'{name} trains at {one["tokens_per_second"]:,.0f} tokens/s{mfu}.'


def speeds(results):
    """{name: findings} of the measured steps."""
    return {
        name: one['found']
        for name, one in results.items()
        if one['group'] == 'speed' and one['status'] == 'passed'
    }


def plain(results):
    """The speeds of our steps with default settings, given by size and objective only."""
    return {
        name: one
        for name, one in speeds(results).items()
        if one['side'] == 'ours' and ',' not in name
    }


def peers(results):
    """[(name, speed relative to transformers)], per device."""
    found, devices = speeds(results), machine(results).get('devices', 1)
    return [
        (name, one['tokens_per_second'] / devices / other['tokens_per_second'])
        for name, one in plain(results).items()
        if (other := found.get(f'{name} by transformers'))
    ]


def write(path, report):
    """Writes the HTML page; its figures need matplotlib."""
    results = report['results']
    counts = collections.Counter(one['status'] for one in results.values())
    statuses = ', '.join(f'{n} {status}' for status, n in counts.items())
    stopped = f'; {report["stopped"]}' if 'stopped' in report else ''
    environment = machine(results)
    sections = [_overview(results), _lines('Failed', report['failed'])]
    sections += [_arithmetic(results), _kernels(results), _curve(results)]
    sections += [_speed(results), _loop(results), _trace(results)]
    sections += [
        _lines('Not run for lack of time', report['left']),
        {'heading': 'Not tested', 'text': NOT_TESTED},
        {'heading': 'For a README', 'details': {'Markdown': report['paragraph']}},
        {'heading': 'This machine', 'details': {'environment': environment}},
    ]
    title, subtitle = 'No device', ''
    if environment:
        title = f'{environment["devices"]} × {environment["device"]}'
        subtitle = versions(environment)
    page.write(
        path,
        title,
        f'{statuses}, in {report["seconds"] / 60:.1f} minutes{stopped}.',
        [section for section in sections if section],
        subtitle=f'{subtitle} · {report["date"]} · {report["commit"]}',
    )


def _overview(results):
    facts = []
    for name, one in list(plain(results).items())[:4]:
        mfu = '' if one['mfu'] is None else f'MFU {one["mfu"]:.1%}'
        value = f'{one["tokens_per_second"]:,.0f}'
        facts.append((value, f'tokens/s, {name}', mfu))
    for name, ratio in peers(results)[:2]:
        facts.append((f'{ratio:.2f} ×', f'vs. transformers, {name}'))
    return {'facts': facts} if facts else None


def _found(results, name):
    return results[name]['found'] if name in results else None


def _table(heading, columns, rows, note=''):
    """A section with a table; None without rows."""
    if not rows:
        return None
    table = {'columns': list(columns), 'rows': rows, 'note': note}
    return {'heading': heading, 'table': table}


def _lines(heading, lines):
    rows = [line.partition(': ')[::2] for line in lines]
    return _table(heading, ['check', 'reason'], rows)


def _arithmetic(results):
    programs = (_found(results, 'arithmetic') or {}).get('programs', {})
    return _table(
        'Arithmetic',
        ['program', 'difference', 'allowed'],
        [
            [name, f'{one["off"]:.1e}', f'{one["allowed"]:.0e}']
            for name, one in programs.items()
        ],
        'Largest difference from numpy in float64, relative to the largest value.',
    )


def _kernels(results):
    rows = []
    for name, one in results.items():
        if one['group'] != 'kernels':
            continue
        backend = name.removeprefix('attention ')
        answers = one['found'].get('answers', ())
        if not answers:
            rows.append([backend, '', None, one['why']])
        for answer in answers:
            off = answer.get('off')
            worst = f'{np.max(list(off.values())):.2%}' if off else None
            request = settings.describe(answer)
            rows.append([backend, request, worst, answer['result']])
    return _table(
        'Attention compared with the reference',
        ['backend', 'request', 'difference', 'result'],
        rows,
        'Compared with attention that computes all scores at once in float32: the result '
        'and the three gradients, on rows with two documents and padding, with one '
        'document, and with a repeated document id. Difference: the largest, relative to '
        'the largest value.',
    )


def _curve(results):
    found = _found(results, 'curve')
    if not found:
        return None
    differences = ', '.join(
        f'{name} differs by at most {by:.4f} nats ({tasks.ALLOWED[name]} are allowed)'
        for name, by in found['off'].items()
    )
    runs = {
        'device, bfloat16': (found['device']['steps'], found['device']['losses']),
        'CPU, float32': (found['cpu']['steps'], found['cpu']['losses']),
    }
    return {
        'heading': 'A short run compared with the CPU',
        'text': f'With the same seed, rows and masks, {differences}.',
        'figures': [plots.curves(runs, 'Loss', 'nats')],
    }


def _speed(results):
    ratios = dict(peers(results))
    rows = []
    for name, result in results.items():
        if result['group'] != 'speed' or result['status'] == 'left':
            continue
        if not (one := result['found']):
            rows.append([name, *[None] * 8, f'{result["status"]}: {result["why"]}'])
            continue
        rows.append(
            [
                name,
                ', '.join(one['attention']) or None,
                one['remat'] if one['side'] == 'ours' else None,
                one['rows'],
                round(one['tokens_per_second']),
                None if one['mfu'] is None else 100 * one['mfu'],
                1e3 * one['seconds'],
                one['memory'] / 2**30,
                ratios.get(name),
                one['library'],
            ]
        )
    note = 'Compiled steps only, after warmup, on random tokens. Rows are per batch.'
    return _table('Speed of a step', COLUMNS, rows, note)


def _loop(results):
    found = _found(results, 'loop')
    if not found:
        return None
    speed = found['tokens_per_second'] or 0
    return {
        'heading': 'The training loop',
        'text': f'`jepa-text train` on the bundled corpus: {found["size"]}, '
        f'{found["rows"]} × {found["length"]}, {speed:,.0f} tokens/s. The loss went from '
        f'{found["losses"][0]:.3f} to {found["losses"][-1]:.3f} in {found["steps"][-1]} '
        'steps.',
        'figures': [plots.curves({'mlm': (found['steps'], found['losses'])}, 'Loss', '')],
    }


def _trace(results):
    found = _found(results, 'trace')
    if not found:
        return None
    trace = found['trace']
    rows = [[name, 1e3 * s, f'{share:.1%}'] for name, s, share in trace['costliest']]
    note = f'Two steps: {trace["seconds"]:.3f} s in all. The trace is `{trace["file"]}`.'
    return _table('Costliest operations', ['operation', 'ms', 'fraction'], rows, note)
