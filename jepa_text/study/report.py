"""The report of a study: report.html, and a summary on the terminal."""

import math
from pathlib import Path

from jepa_text.report import console, frequencies, page, plots
from jepa_text.running import budget, metrics
from jepa_text.study import appendix, probes
from jepa_text.training import heldout
from jepa_text.training import recipe as recipes

COLUMNS = ('model', 'masked loss', 'accuracy', 'uniformity', 'effective rank')
CURVES = (
    ('heldout/mlm_loss', 'Held-out masked loss', 'nats per token'),
    ('heldout/mntp_loss', 'Held-out masked loss, one position before', 'nats per token'),
    # Not train/loss: the weights in it differ between runs, and change with λ.
    ('train/mlm_loss', 'Training masked loss', 'nats per token'),
    ('train/clm_loss', 'Training causal loss', 'nats per token'),
    ('jepa/loss', 'Latent loss', '1 − cosine'),
    ('jepa/lambda', 'Weight of the latent loss', 'λ'),
    ('jepa/target_std', 'Standard deviation of the latent targets', '0 = collapsed'),
    ('train/learning_rate', 'Learning rate', ''),
    ('throughput/tokens_per_second', 'Throughput', 'tokens/s'),
)
# Columns of the tables that are printed as lines on the terminal.
_LINES = {
    'Verdicts': ('first', 'second', 'metric', 'verdict'),
    'Claims': ('here', 'claim'),
}


def table(results):
    """Returns the rows of the summary table, with columns as in COLUMNS."""
    rows = [['unigram entropy', results['unigram'], None, None, None]]
    for name, values in results['models'].items():
        masked = [heldout.masked_metric(values, key) for key in ('loss', 'accuracy')]
        shape = [values[f'geometry/{key}'] for key in ('uniformity', 'effective_rank')]
        rows.append([name, *masked, *shape])
    return rows


def _show(results):
    """Prints the summary table, probes, comparisons and masked-token predictions."""
    console.table('Held-out results', list(COLUMNS), table(results))
    if results['probes']:
        console.table('Linear probes', *probes.table(results))
    for line in probes.notes(results):
        print(line)
    if compared := probes.between(results):
        shown = compared['table']
        console.table(compared['heading'], shown['columns'], shown['rows'])
    print(f'\n{headline(results)}')
    width = max(map(len, results['models'])) + 2
    for item in results['predictions']:
        print(f'\n{item["text"]}   ({item["answer"]})')
        for name, answers in item['models'].items():
            tokens = '   '.join(f'{text.strip()} {share:.0%}' for text, share in answers)
            print(f'  {name:{width}}{tokens}')


def _show_arms(lead, sections):
    """Prints the means over seeds, and one line per verdict and claim.

    Single members, which may be dozens, are only in results.json.
    """
    rows = {one['heading']: one['table'] for one in sections if one.get('table')}
    if outcomes := rows.get('Outcomes'):
        console.table('Outcomes', outcomes['columns'], outcomes['rows'])
    for heading, shown in _LINES.items():
        if heading in rows:
            places = [rows[heading]['columns'].index(column) for column in shown]
            cells = ([row[place] for place in places] for row in rows[heading]['rows'])
            lines = (f'  {", ".join(start)}: {end}' for *start, end in cells)
            print(heading, *lines, sep='\n', end='\n\n')
    print(lead)


def write(workdir, results, configs, section):
    """Writes report.html to the workdir, prints a summary, and returns its path.

    `section` is the section `report` of the config. A study with seeds also gets
    appendix.md, as in appendix.py.
    """
    logs = {name: _log(Path(workdir) / name) for name in configs}
    study = appendix.Study(results=results, configs=configs, logs=logs, report=section)
    if study.timed:
        shown = study.timed['table']
        console.table(study.timed['heading'], shown['columns'], shown['rows'])
    if appendix.has_seeds(results):
        lead, sections = appendix.parts(study)
        path = appendix.write(workdir, lead, sections)
        _show_arms(lead, sections)
        return path
    path = Path(workdir) / 'report.html'
    sections = [
        study.timed,
        _losses(results),
        _predictions(results),
        probes.section(results),
        probes.between(results),
        _geometry(results),
        {'heading': 'Curves', 'figures': figures(logs, configs, results)},
        {
            'heading': 'Versions and configs',
            'details': {'versions and machine': page.versions(), **configs},
        },
    ]
    page.write(
        path,
        title='Comparison of training recipes',
        lead=headline(results),
        sections=[section for section in sections if section],
    )
    _show(results)
    return path


def _log(folder):
    """Returns the metrics of a run; [] if its folder is missing, as only its result is
    needed."""
    return metrics.read(folder) if (folder / metrics.FILE).is_file() else []


def headline(results):
    """Returns the main result: the run with the best masked loss, and by how much.

    Before it, the runs that are worse than the untrained network or have learned nothing.
    """
    vectors = probes.headline(results)
    return f'{vectors} {_losses_headline(results)}'.strip()


def _losses_headline(results):
    scores = {n: heldout.masked_metric(v, 'loss') for n, v in results['models'].items()}
    scores = {name: loss for name, loss in scores.items() if loss is not None}
    runs = {name: loss for name, loss in scores.items() if name not in plots.BASELINES}
    if not runs:
        return 'No run predicts tokens, so there is no held-out loss.'
    unigram, floor = results['unigram'], scores.get('untrained', math.inf)
    worse = [name for name, loss in runs.items() if not loss < floor]
    idle = [name for name, x in runs.items() if not frequencies.is_better(x, unigram)]
    text = ''
    if worse:
        text += f'Worse than untrained at predicting masked tokens: {_names(worse)}. '
    if rest := [name for name in idle if name not in worse]:
        text += f'Learned nothing beyond token frequencies: {_names(rest)}. '
    # NaN sorts last.
    best = min(runs, key=lambda name: (math.isnan(runs[name]), runs[name]))
    return text + (
        f'On {results["heldout_tokens"]:,} held-out tokens, `{best}` predicts masked '
        f'tokens best: {runs[best]:.2f} nats per token, '
        f'{frequencies.compared(runs[best], unigram)} alone.'
    )


def _names(names):
    return ', '.join(f'`{name}`' for name in names)


def figures(logs, configs, results):
    """Returns a figure per logged curve, with dotted lines where phases change."""
    switches = {}
    for config in configs.values():
        spans = budget.spans(config['phases'], recipes.size(config)[1])
        for (start, _), phase in zip(spans[1:], config['phases'][1:]):
            label = phase['objective']['name']
            switches.setdefault(start, set()).add(label)
    labeled = {}
    for step, names in switches.items():
        labeled.setdefault(' / '.join(sorted(names)), []).append(step)
    drawn = []
    for key, title, label in CURVES:
        runs = {name: metrics.series(log, key) for name, log in logs.items()}
        # Empty series are kept, so that a run has the same color in every figure.
        if any(len(steps) for steps, _ in runs.values()):
            lines = {'unigram entropy': results['unigram']} if 'heldout' in key else None
            drawn.append(plots.curves(runs, title, label, hlines=lines, switches=labeled))
    return drawn


def _losses(results):
    unigram = results['unigram']
    columns = ['model', 'masked loss', 'against token frequencies', 'accuracy']
    rows = [['unigram entropy', unigram, None, None, None]]
    for name, values in results['models'].items():
        loss, accuracy = (
            heldout.masked_metric(values, key) for key in ('loss', 'accuracy')
        )
        compared = None if loss is None else frequencies.compared(loss, unigram)
        rows.append([name, loss, compared, accuracy, values.get('heldout/clm_loss')])
    return {
        'heading': 'Held-out losses',
        'text': 'Masked loss: at the same 15 % masked tokens for all models, each '
        'predicted at the position where the objective predicts it (mntp: one position '
        'before). The unigram entropy is the loss of a model that only knows the token '
        'frequencies.',
        'table': {
            'columns': [*columns, 'causal loss'],
            'rows': rows,
            'note': 'Losses in nats per token. Each value is from a single run, so small '
            'differences may be noise between seeds.',
        },
    }


def _geometry(results):
    shown = ('uniformity', 'effective_rank', 'mean_cosine')
    rows = [
        [name, *(values[f'geometry/{measure}'] for measure in shown)]
        for name, values in results['models'].items()
    ]
    return {
        'heading': 'Geometry',
        'text': 'Of mean-pooled vectors of held-out rows. Compare each row with the '
        'untrained encoder. None of these numbers shows that the vectors are useful.',
        'table': {
            'columns': ['model', *(x.replace('_', ' ') for x in shown)],
            'rows': rows,
        },
    }


def _predictions(results):
    rows = [
        [item['text'], item['answer'], name, *_guesses(answers)]
        for item in results['predictions']
        for name, answers in item['models'].items()
    ]
    columns = ['text', 'answer', 'model', 'first guess', 'further guesses']
    return {'heading': 'Masked tokens', 'table': {'columns': columns, 'rows': rows}}


def _guesses(answers):
    """Returns the most probable token, and the others, as texts."""
    first, *others = (f'{text.strip()} {share:.0%}' for text, share in answers)
    return first, '   '.join(others)
