"""The results of a study as report.html, and as a short table on the terminal."""

import math
from pathlib import Path

from jepa_text.report import console, frequencies, page, plots
from jepa_text.running import metrics
from jepa_text.study import appendix, probes
from jepa_text.training import assemble, phases
from jepa_text.training.evals import heldout

COLUMNS = ('model', 'masked loss', 'accuracy', 'uniformity', 'effective rank')
CURVES = (
    ('heldout/mlm_loss', 'Held-out masked loss', 'nats per token'),
    ('heldout/mntp_loss', 'Held-out masked loss, one position before', 'nats per token'),
    ('train/loss', 'Training loss (all terms, weighted)', ''),
    ('train/mlm_loss', 'Masked loss in training', 'nats per token'),
    ('jepa/loss', 'Latent loss', '1 − cosine'),
    ('jepa/lambda', 'Weight of the latent loss', 'λ'),
    ('jepa/target_std', 'Standard deviation of the latent targets', '0 = collapsed'),
    ('train/learning_rate', 'Learning rate', ''),
    ('throughput/tokens_per_second', 'Speed', 'tokens/s'),
)
# Of a section with a table: the columns of a line on the terminal.
_LINES = {'Verdicts': ('first', 'second', 'of', 'verdict'), 'Claims': ('here', 'claim')}


def table(results):
    """The rows of the short table, in the order of COLUMNS."""
    rows = [['unigram entropy', results['unigram'], None, None, None]]
    for name, values in results['models'].items():
        masked = [heldout.masked(values, key) for key in ('loss', 'accuracy')]
        shape = [values[f'geometry/{key}'] for key in ('uniformity', 'effective_rank')]
        rows.append([name, *masked, *shape])
    return rows


def _show(results):
    """Prints the short table and the masked-token predictions."""
    console.table('Held out', list(COLUMNS), table(results))
    if results['probes']:
        console.table('Read off the vectors', *probes.table(results))
    for line in probes.notes(results):
        print(line)
    if compared := probes.between(results):
        made = compared['table']
        console.table(compared['heading'], made['columns'], made['rows'])
    print(f'\n{headline(results)}')
    width = max(map(len, results['models'])) + 2
    for item in results['predictions']:
        print(f'\n{item["text"]}   ({item["answer"]})')
        for name, answers in item['models'].items():
            words = '   '.join(f'{word.strip()} {share:.0%}' for word, share in answers)
            print(f'  {name:{width}}{words}')


def _show_arms(lead, sections):
    """Prints the means over seeds, and a line for each verdict and claim: members by the
    dozen are for results.json."""
    rows = {one['heading']: one['table'] for one in sections if one.get('table')}
    console.table('Outcomes', *(rows['Outcomes'][k] for k in ('columns', 'rows')))
    for heading, shown in _LINES.items():
        if heading in rows:
            places = [rows[heading]['columns'].index(column) for column in shown]
            cells = ([row[place] for place in places] for row in rows[heading]['rows'])
            lines = (f'  {", ".join(start)}: {end}' for *start, end in cells)
            print(heading, *lines, sep='\n', end='\n\n')
    print(lead)


def write(workdir, results, configs, section=None):
    """Writes report.html into the workdir, prints it in short, and returns its path;
    of a study with seeds as appendix.py does, by the section `report`."""
    logs = {name: _log(Path(workdir) / name) for name in configs}
    made = appendix.Study(
        results=results, configs=configs, logs=logs, report=section or {}
    )
    if made.timed:
        shown = made.timed['table']
        console.table(made.timed['heading'], shown['columns'], shown['rows'])
    if appendix.has_seeds(results):
        lead, found = appendix.parts(made)
        path = appendix.write(workdir, lead, found)
        _show_arms(lead, found)
        return path
    path = Path(workdir) / 'report.html'
    sections = [
        made.timed,
        _losses(results),
        _predictions(results),
        probes.section(results),
        probes.between(results),
        _geometry(results),
        {'heading': 'Curves', 'figures': figures(logs, configs, results)},
        {
            'heading': 'How it was made',
            'details': {'versions and machine': page.versions(), **configs},
        },
    ]
    page.write(
        path,
        title='One encoder, trained in several ways',
        lead=headline(results),
        sections=[section for section in sections if section],
    )
    _show(results)
    return path


def _log(folder):
    """The metrics of a run; none where its folder is gone, but its result is not."""
    return metrics.read(folder) if (folder / metrics.FILE).is_file() else []


def headline(results):
    """What to remember: who reads held-out text best, and by how much; before it, which
    runs are worse than the untrained network, or have learned nothing; that this is no
    verdict on recipes without seeds."""
    vectors = probes.headline(results)
    return f'{vectors} {_losses_said(results)}'.strip()


def _losses_said(results):
    scores = {n: heldout.masked(v, 'loss') for n, v in results['models'].items()}
    scores = {name: loss for name, loss in scores.items() if loss is not None}
    runs = {name: loss for name, loss in scores.items() if name not in plots.BASELINES}
    if not runs:
        return 'No run predicts tokens, so held-out rows give no loss.'
    unigram, floor = results['unigram'], scores.get('untrained', math.inf)
    worse = [name for name, loss in runs.items() if not loss < floor]
    idle = [name for name, x in runs.items() if not frequencies.is_better(x, unigram)]
    said = ''
    if worse:
        said += f'Worse than untrained at naming masked tokens: {_names(worse)}. '
    if rest := [name for name in idle if name not in worse]:
        said += f'Learned nothing that token frequencies do not give: {_names(rest)}. '
    # NaN is no score.
    best = min(runs, key=lambda name: (math.isnan(runs[name]), runs[name]))
    return said + (
        f'On {results["heldout_tokens"]:,} tokens that no run has seen, `{best}` names '
        f'masked tokens best: {runs[best]:.2f} nats per token, '
        f'{frequencies.compared(runs[best], unigram)} alone.'
    )


def _names(names):
    return ', '.join(f'`{name}`' for name in names)


def figures(logs, configs, results):
    """A figure per curve that some run has; dotted lines where phases change."""
    switches = {}
    for config in configs.values():
        spans = phases.spans(config['phases'], assemble.size(config)[1])
        for (start, _), phase in zip(spans[1:], config['phases'][1:]):
            label = phase['objective']['name']
            switches.setdefault(start, set()).add(label)
    switches = {' / '.join(sorted(names)): step for step, names in switches.items()}
    drawn = []
    for key, title, label in CURVES:
        runs = {name: metrics.series(log, key) for name, log in logs.items()}
        # Empty series stay in, so that a run keeps its color in every figure.
        if any(len(steps) for steps, _ in runs.values()):
            lines = {'unigram entropy': results['unigram']} if 'heldout' in key else None
            drawn.append(
                plots.curves(runs, title, label, hlines=lines, switches=switches)
            )
    return drawn


def _losses(results):
    unigram = results['unigram']
    columns = ['model', 'masked loss', 'beside token frequencies', 'accuracy']
    rows = [['unigram entropy', unigram, None, None, None]]
    for name, values in results['models'].items():
        loss, accuracy = (heldout.masked(values, key) for key in ('loss', 'accuracy'))
        beside = loss if loss is None else frequencies.compared(loss, unigram)
        rows.append([name, loss, beside, accuracy, values.get('heldout/clm_loss')])
    return {
        'heading': 'Held-out losses',
        'text': 'Masked loss: 15 % of the tokens masked, always the same ones, each '
        'predicted where the objective of the model predicts it (mntp: one position '
        'before). The unigram entropy is what token frequencies alone give.',
        'table': {
            'columns': [*columns, 'causal loss'],
            'rows': rows,
            'best': {'masked loss': 'min', 'accuracy': 'max', 'causal loss': 'min'},
            'note': 'Losses in nats per token. Bold is the best of a column, unless '
            'another is shown alike; each is of one run, so small gaps may be noise, as '
            'other seeds would show.',
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
        'text': 'Of held-out rows, mean-pooled. The untrained encoder is what every row '
        'must be read against; no number here says that vectors are useful.',
        'table': {
            'columns': ['model', *(x.replace('_', ' ') for x in shown)],
            'rows': rows,
        },
    }


def _predictions(results):
    shown = []
    for item in results['predictions']:
        before, after = item['text'].split('<mask>')
        models = {
            name: [(word.strip(), share) for word, share in answers]
            for name, answers in item['models'].items()
        }
        words = dict(before=before, target=item['answer'], after=after)
        shown.append(words | {'models': models})
    return {'heading': 'Masked tokens', 'predictions': shown}
