"""`jepa-text benchmark`: compares the speed of training steps, measured in rounds.

In each round every case is started, warmed up, measured and stopped, one after the other.
So each process has the machine, its memory and its caches to itself, as in a real run. A
longer disturbance of the machine affects all cases of a round, and ratios are computed
within a round. The table reports medians over the rounds.
"""

import dataclasses
import json
import statistics
from pathlib import Path

from jepa_text import engine
from jepa_text.files import atomic, paths
from jepa_text.objectives.latent import diagnostics
from jepa_text.parallel import exits, sharding
from jepa_text.report import console
from jepa_text.settings import ranges, resolve, schema
from jepa_text.settings.schema import field
from jepa_text.training import config as settings

COLUMNS = ('case', 'ms/step', 'tokens/s', 'MFU', 'ratio', 'memory, MiB')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that the cases share, or that a case overrides."""

    seed: int = field(0, 'seed of parameters and batches', minimum=0)
    vocab_size: int = field(8192, 'vocabulary size', minimum=16)
    rows: int = field(8, 'rows per step', minimum=1)
    row_length: int = field(256, 'tokens per row', minimum=1)
    model: dict = field(
        {'name': 'transformer', 'preset': 'small', 'scan': False}, 'the encoder'
    )
    optimizer: dict = field(settings.ADAMW, 'adamw, muon or sgd')
    schedule: float | dict = field(
        {'name': 'wsd', 'peak': 1e-4, 'warmup_steps': 0, 'decay_steps': 0},
        'the learning rate',
    )
    clip_norm: float = field(1.0, 'maximum gradient norm', above=0, finite=False)
    accumulate: int = field(1, 'microbatches per step', minimum=1)
    mesh: sharding.Config = field({}, 'the device mesh')
    telemetry: diagnostics.Config = field({}, 'diagnostics')
    compile: bool = field(True, 'use torch.compile in the cases of transformers')
    masked_head: bool = field(
        False, "transformers' head scores masked positions only, as ours does"
    )
    warmup_steps: int = field(3, 'steps before timing starts', minimum=1)
    steps_a_round: int = field(8, 'timed steps per round', minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case(Settings):
    """One of the compared cases; its settings override those of the config."""

    name: str = field(doc='name of the case in the table')
    objective: dict = field(doc="objective, such as dict(name='mlm')")
    side: str = field('ours', 'implementation', choices=('ours', 'transformers'))
    against: str | None = field(None, 'name of the baseline case for the speed ratio')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """The config of a benchmark."""

    name: str = field('benchmark', 'name of the comparison')
    rounds: int = field(5, 'rounds; each starts every case once', minimum=1)
    cases: tuple[dict, ...] = field(
        doc='each with name, objective, and settings that differ'
    )


def benchmark(config, workdir):
    """Runs the cases of a config (configs/benchmark.py) and returns {case: result}.

    Writes workdir/benchmark.json after every measurement: the times of all rounds, the
    devices and library versions. Raises ValueError if a case cannot be built here.
    """
    config = schema.resolved(Config, schema.plain(config))
    cases, rounds = resolve_cases(config), {}
    against = {one['name']: one.get('against') for one in cases}
    workdir = Path(paths.local('--workdir', workdir))
    paths.check_folder('--workdir', str(workdir))
    with engine.opened(engine.OWN_PROCESS, workdir) as run:
        for number in range(1, config['rounds'] + 1):
            for case in cases:
                try:
                    measured = run_case(case, run)
                except exits.Stopped as error:
                    raise RuntimeError(
                        f'stopped; {workdir}/benchmark.json has what was measured. The '
                        'same command starts over.'
                    ) from error
                rounds.setdefault(case['name'], []).append(measured)
                print(
                    f'round {number} of {config["rounds"]}: {case["name"]}, '
                    f'{1e3 * measured["seconds"]:,.1f} ms/step by {measured["library"]}',
                    flush=True,
                )
                results = merged(rounds, against)
                contents = json.dumps({'config': config, 'results': results}, indent=1)
                atomic.write(workdir / 'benchmark.json', contents)
    console.table(config['name'], COLUMNS, [table_row(*r) for r in results.items()])
    return results


def resolve_cases(config):
    """The cases with all their settings; raises ValueError, before anything is measured,
    for an unknown setting, duplicate names, or a case whose baseline `against` does not
    exist."""
    cases = [resolve_case(config, case) for case in config['cases']]
    if not cases:
        raise ValueError('A benchmark needs `cases`; see configs/benchmark.py.')
    names = [case['name'] for case in cases]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f'duplicate case names: {", ".join(duplicates)}.')
    for case in cases:
        if other := case.get('against'):
            resolve.check_choice(f'case {case["name"]!r}: against', other, names)
    return cases


def resolve_case(config, case):
    """All settings of a case: its own override those of the config. The same holds for
    its model, unless the case names another model or preset."""
    what, model = f'case {case.get("name")!r}', case.get('model', {})
    ranges.section(f'{what}.model', model)
    if not {'name', 'preset'} & model.keys():
        model = {**config['model'], **model}
    names = {one.name for one in dataclasses.fields(Settings)}
    shared = {name: value for name, value in config.items() if name in names}
    return schema.resolved(Case, {**shared, **case, 'model': model}, what)


def run_case(case, run):
    """The result of worker.measure of a case, in a process of its own, by `run` of
    engine.opened; raises exits.ConfigError if it cannot be built here."""
    name = case['name']
    # The process of transformers uses jax only to generate the batches.
    variables = {} if case['side'] == 'ours' else {'JAX_PLATFORMS': 'cpu'}
    task = engine.Task(name, 'jepa_text.planning.worker.measure', [case], (), variables)
    value, error = run([task], on_end=lambda *_: None)[name]
    if error:
        raise type(error)(f'benchmark case {name!r}: {error}') from error
    return value


def merged(rounds, against):
    """{case: result} of {case: its results in the rounds}.

    A result has the `seconds` of all rounds, the memory of the last one (the first may
    include the compiler's), and, if the case is against another one, `ratio`: the median
    over the rounds of its speed relative to that one's.
    """
    results = {
        name: some[-1] | {'seconds': [one['seconds'] for one in some]}
        for name, some in rounds.items()
    }
    for name, result in results.items():
        if other := results.get(against[name]):
            pairs = zip(result['seconds'], other['seconds'])
            tokens = result['tokens'] / other['tokens']
            result['ratio'] = statistics.median(tokens * b / a for a, b in pairs)
    return results


def table_row(name, result):
    """The table row of a result, in the order of COLUMNS."""
    seconds = statistics.median(result['seconds'])
    speed = result['flops'] / seconds
    return (
        name,
        f'{1e3 * seconds:,.1f}',
        f'{result["tokens"] / seconds:,.0f}',
        f'{speed / result["peak"]:.1%}' if result['peak'] else '',
        f'{result["ratio"]:.3f}' if 'ratio' in result else '',
        f'{result["memory"] / 2**20:,.0f}',
    )
