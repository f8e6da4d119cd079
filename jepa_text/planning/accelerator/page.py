"""What was found -> a summary, a paragraph for a README, and one page."""

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
    'ms a step',
    'memory, GiB',
    'beside transformers',
    'said',
)
NOT_SHOWN = (
    'Several machines, NCCL between them, and weeks of running. The curve is that of a '
    'small model, in which attention that is wrong hardly shows: kernels are compared by '
    'themselves, on random rows. Speeds are of random tokens, each row one document; the '
    'training loop alone reads real ones.'
)


def summary(found):
    """{'failed', 'left': lines; 'paragraph': for a README, in Markdown}."""
    results = found['results']
    lines = {
        status: [
            f'{name}: {result["why"]}'
            for name, result in results.items()
            if result['status'] == status
        ]
        for status in ('failed', 'left')
    }
    return lines | {'paragraph': paragraph(found, lines['failed'])}


def paragraph(found, failed):
    """What a README may say of this machine, figures with their command."""
    results = found['results']
    about = machine(results)
    if not about:
        return f'No device was measured. {" ".join(failed)}'.strip()
    sentences = [
        f'**{about["devices"]} × {about["device"]}** ({version(about)}), by `bash '
        f'launch/accelerator.sh` on {found["date"]}{_at(found["commit"])}:'
    ]
    kernels = [one['status'] for one in results.values() if one['group'] == 'kernels']
    right, wrong = (kernels.count(status) for status in ('passed', 'failed'))
    done = [_done(results, name) for name in ('arithmetic', 'curve')]
    if done[0]:
        sentences.append(f'{len(done[0]["programs"])} programs agree with numpy;')
    if tried := right + wrong:
        sentences.append(
            f'{right} of {tried} attention backends that run here are right;'
        )
    if done[1]:
        by = done[1]['off']['a step']
        sentences.append(f'a short run stays within {by:.3f} nats of the CPU’s.')
    sentences += [_sentence(name, one) for name, one in plain(results).items()]
    sentences += [
        f'{name} is {ratio:.2f} × transformers.' for name, ratio in peers(results)
    ]
    if failed:
        sentences.append(f'**Failed**: {"; ".join(failed).rstrip(".")}.')
    return ' '.join(sentences)


def machine(results):
    """What the environment is; {} of one that was not found."""
    return results.get('environment', {}).get('found', {})


def version(about):
    """jax, and the driver or the runtime, in a few words."""
    driver = about['driver'].get('driver_version')
    driver = f', driver {driver}' if driver else ''
    return f'jax {about["versions"]["jax"]}{driver}, {about["runtime"]}'


def _stopped(found):
    return f'; {found["stopped"]}' if 'stopped' in found else ''


def _at(commit):
    return f' at {commit}' if commit else ''


def _done(results, name):
    result = results.get(name)
    return result['found'] if result and result['status'] == 'passed' else None


def _sentence(name, one):
    mfu = '' if one['mfu'] is None else f' (MFU {one["mfu"]:.1%})'
    return f'{name} trains at {one["tokens_per_second"]:,.0f} tokens/s{mfu}.'


def speeds(results):
    """{name: what was found} of the steps that were measured."""
    return {
        name: one['found']
        for name, one in results.items()
        if one['group'] == 'speed' and one['status'] == 'passed'
    }


def plain(results):
    """Those of ours that were asked for without more than size and objective."""
    return {
        name: one
        for name, one in speeds(results).items()
        if one['side'] == 'ours' and ',' not in name
    }


def peers(results):
    """[(step, its speed over that of transformers)], a device."""
    found, devices = speeds(results), machine(results).get('devices', 1)
    return [
        (name, one['tokens_per_second'] / devices / other['tokens_per_second'])
        for name, one in plain(results).items()
        if (other := found.get(f'{name} by transformers'))
    ]


def write(path, found):
    """Writes the page; its figures need matplotlib."""
    results = found['results']
    counts = collections.Counter(one['status'] for one in results.values())
    said = ', '.join(f'{n} {status}' for status, n in counts.items())
    about = machine(results)
    sections = [_overview(results), _lines('Failed', found['failed'])]
    sections += [_arithmetic(results), _kernels(results), _curve(results)]
    sections += [_speed(results), _loop(results), _trace(results)]
    sections += [
        _lines('Left for want of time', found['left']),
        {'heading': 'What this does not show', 'text': NOT_SHOWN},
        {'heading': 'For a README', 'details': {'Markdown': found['paragraph']}},
        {'heading': 'This machine', 'details': {'environment': about}},
    ]
    page.write(
        path,
        f'{about["devices"]} × {about["device"]}' if about else 'No device',
        f'{said}, in {found["seconds"] / 60:.1f} minutes{_stopped(found)}.',
        [section for section in sections if section],
        subtitle=f'{version(about) if about else ""} · {found["date"]} · '
        f'{found["commit"]}',
    )


def _overview(results):
    facts = []
    for name, one in list(plain(results).items())[:4]:
        mfu = '' if one['mfu'] is None else f'MFU {one["mfu"]:.1%}'
        value = f'{one["tokens_per_second"]:,.0f}'
        facts.append(dict(value=value, label=f'tokens/s, {name}', note=mfu))
    for name, ratio in peers(results)[:2]:
        facts.append(dict(value=f'{ratio:.2f} ×', label=f'transformers, {name}'))
    return {'facts': facts} if facts else None


def _lines(heading, lines):
    if not lines:
        return None
    rows = [line.partition(': ')[::2] for line in lines]
    return {'heading': heading, 'table': {'columns': ['check', 'why'], 'rows': rows}}


def _arithmetic(results):
    found = _found(results, 'arithmetic')
    if not found:
        return None
    rows = [[name, x['off'], x['allowed']] for name, x in found['programs'].items()]
    columns = ['program', 'off', 'allowed']
    table = {
        'columns': columns,
        'rows': [[n, f'{a:.1e}', f'{b:.0e}'] for n, a, b in rows],
    }
    note = 'Largest difference from numpy in float64, as a share of the largest value.'
    return {'heading': 'Arithmetic', 'table': table | {'note': note}}


def _found(results, name):
    return results[name]['found'] if name in results else None


def _kernels(results):
    rows = []
    for name, one in results.items():
        if one['group'] != 'kernels':
            continue
        answers = one['found'].get('answers')
        if not answers:
            rows.append([name.removeprefix('attention '), '', None, one['why']])
        for answer in answers or ():
            off = answer.get('off')
            worst = f'{np.max(list(off.values())):.2%}' if off else None
            words = settings.words(answer)
            rows.append([name.removeprefix('attention '), words, worst, answer['result']])
    if not rows:
        return None
    note = (
        'Against all scores at once in float32: the result and the three gradients, on '
        'rows with two documents and padding, with one, and with an id that comes again. '
        'Off: the largest difference, as a share of the largest value.'
    )
    columns = ['backend', 'asked', 'off', 'result']
    return {
        'heading': 'Attention against the reference',
        'table': {'columns': columns, 'rows': rows, 'note': note},
    }


def _curve(results):
    found = _found(results, 'curve')
    if not found:
        return None
    off = ', '.join(
        f'{name} is {by:.4f} nats apart at most ({tasks.ALLOWED[name]} are allowed)'
        for name, by in found['off'].items()
    )
    runs = {
        'here, bfloat16': (found['device']['steps'], found['device']['losses']),
        'CPU, float32': (found['cpu']['steps'], found['cpu']['losses']),
    }
    return {
        'heading': 'A short run against the CPU’s',
        'text': f'The same seed, rows and masks: {off}.',
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
    note = 'Steps alone, compiled and warm, on random tokens. Rows are of a batch.'
    if not rows:
        return None
    return {
        'heading': 'Speed of a step',
        'table': {'columns': list(COLUMNS), 'rows': rows, 'note': note},
    }


def _loop(results):
    found = _found(results, 'loop')
    if not found:
        return None
    speed = found['tokens_per_second'] or 0
    return {
        'heading': 'The training loop',
        'text': f'{found["size"]}, {found["rows"]} × {found["length"]}, as `jepa-text '
        f'train` does it on the bundled corpus: {speed:,.0f} tokens/s, loss '
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
    columns = ['operation', 'ms', 'share']
    return {
        'heading': 'What takes the time',
        'table': {'columns': columns, 'rows': rows, 'note': note},
    }
