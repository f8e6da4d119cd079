"""The results of a study as report.html, and as a short table on the terminal."""

from pathlib import Path

from jepa_text import metrics, report

CURVES = (
    ('heldout/mlm_loss', 'Held-out masked loss', 'nats'),
    ('train/loss', 'Training loss', 'nats'),
    ('jepa/lambda', 'Weight of the latent loss', 'λ'),
    ('jepa/target_std', 'Spread of the latent targets', '1 = every direction'),
    ('train/learning_rate', 'Learning rate', ''),
    ('throughput/tokens_per_second', 'Speed', 'tokens/s'),
)


def rows_of(results):
    """The short table: model, losses, geometry, probe."""
    rows = [['unigram entropy', results['unigram'], None, None, None, None]]
    for name, values in results['models'].items():
        rows.append(
            [
                name,
                values['heldout/mlm_loss'],
                values['heldout/mlm_accuracy'],
                values['representation/uniformity'],
                values['representation/effective_rank'],
                values['representation/probe'],
            ]
        )
    return rows


COLUMNS = ['model', 'masked loss', 'accuracy', 'uniformity', 'effective rank', 'probe']


def show(results):
    """Prints the short table and the masked-word predictions."""
    metrics.table('Held out', COLUMNS, rows_of(results))
    for item in results['predictions']:
        print(f'\n{item["text"]}   ({item["answer"]})')
        for name, answers in item['models'].items():
            words = '  '.join(f'{word.strip()} {share:.2f}' for word, share in answers)
            print(f'  {name:14} {words}')


def write(workdir, results, configs):
    """Writes report.html into the workdir and returns its path."""
    logs = {name: metrics.read(Path(workdir) / name) for name in configs}
    path = Path(workdir) / 'report.html'
    report.write(
        path,
        title='One encoder, three ways to train it',
        lead=headline(results),
        sections=[
            _losses(results),
            _predictions(results),
            _representation(results),
            {'heading': 'Curves', 'figures': _figures(logs, configs, results)},
            {'heading': 'Configurations', 'details': configs},
            {'heading': 'Made with', 'details': {'versions': versions()}},
        ],
    )
    return path
