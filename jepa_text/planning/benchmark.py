"""`jepa-text benchmark`: training steps of several kinds against each other, in turns.

Round by round each case is started, warmed up, measured and ended, one after the other:
a process is alone on the machine, as a run is, and has the memory and the caches that a
run has. What disturbs the machine for long disturbs all cases of a round, and the ratio
of two is taken within it. The table has medians and quartiles of the rounds.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np

from jepa_text.config import schema
from jepa_text.config.schema import field, section
from jepa_text.files import atomic
from jepa_text.objectives.latent import diagnostics
from jepa_text.parallel import sharding
from jepa_text.planning import child
from jepa_text.report import console
from jepa_text.running import compilation, mirror
from jepa_text.training import config as settings

COLUMNS = ('case', 'ms a step', 'tokens/s', 'MFU', 'ratio', 'quartiles', 'memory, MiB')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a case is made of."""

    seed: int = field(0, 'of parameters and batches', minimum=0)
    compilation_cache: str = compilation.choice()
    vocab_size: int = field(8192, 'tokens that there are', minimum=1)
    rows: int = field(8, 'of a step', minimum=1)
    row_length: int = field(256, 'tokens in a row', minimum=1)
    model: dict = field(
        {'name': 'transformer', 'preset': 'small', 'scan': False}, 'the encoder'
    )
    optimizer: dict = field(settings.ADAMW, 'adamw, muon or sgd')
    schedule: float | dict = field(
        {'name': 'wsd', 'peak': 1e-4, 'warmup': 0.0, 'decay': 0.0}, 'the learning rate'
    )
    clip_norm: float = field(1.0, 'of gradients', above=0, finite=False)
    accumulate: int = field(1, 'parts that a batch is computed in', minimum=1)
    mesh: sharding.Config = section(sharding.Config, 'how devices share the work')
    telemetry: diagnostics.Config = section(diagnostics.Config, 'diagnostics')
    metrics: bool = field(True, 'False: the compiler leaves them out')
    compile: bool = field(True, 'torch.compile, for the cases of transformers')
    # By itself torch.compile makes a mask of causality, which flash kernels do not take.
    peer_attention: str = field(
        'sdpa', 'of transformers; flash: no other kernel', choices=('sdpa', 'flash')
    )
    # Where page faults are dear, they are up to half of its step on CPUs (LOG.md).
    peer_keeps_memory: bool = field(True, 'the memory that transformers frees, as we do')
    warmup: int = field(3, 'steps of a case before it is timed', minimum=1)
    steps_a_round: int = field(8, 'that are timed', minimum=1)
    trace: str = field('', 'a folder for the trace of some steps of ours; none')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case(Settings):
    """One of those that are compared: settings of its own before those of all."""

    name: str = field(doc='of its line in the table')
    objective: dict = field(doc="as dict(name='mlm')")
    side: str = field('ours', 'whose step', choices=('ours', 'transformers'))
    against: str | None = field(None, 'the case that its speed is divided by')
    optional: bool = field(False, 'left out where it cannot be made')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """The config of a benchmark."""

    name: str = field('benchmark', 'of the comparison')
    rounds: int = field(5, 'in which each case starts anew', minimum=1)
    cases: tuple[dict, ...] = field(doc='name, objective, and settings of its own, each')


def benchmark(config, workdir):
    """Runs the cases of a config (configs/benchmark.py) and returns their results.

    Writes workdir/benchmark.json after every measurement: every time of every round, with
    the machine, the versions, and what was left out. A case that cannot be made here
    raises ValueError, in its own words; one that is `optional` says so and is left out.
    """
    config = schema.resolved(Config, schema.plain(config))
    cases = {case['name']: case for case in checked(config)}
    with mirror.opened(workdir) as place:
        place.folder.mkdir(parents=True, exist_ok=True)
        place.begin()
        return _benchmark(config, cases, place.folder)


def _benchmark(config, cases, workdir):
    answers, left_out = {name: [] for name in cases}, {}
    for turn in range(config['rounds']):
        for name, case in cases.items():
            if name in left_out:
                continue
            try:
                answers[name].append(ask(case))
            except ValueError as error:
                if not case.get('optional'):
                    raise
                left_out[name] = str(error)
                print(f'{name}: left out. {error}')
            else:
                _say(turn, config['rounds'], name, answers[name][-1])
            results = {name: joined(found) for name, found in answers.items() if found}
            _write(workdir, config, results, left_out)
    # One that failed in a later round has not the rounds to be compared in.
    results = {name: found for name, found in results.items() if name not in left_out}
    compare(results, {name: cases[name].get('against') for name in results})
    _write(workdir, config, results, left_out)
    console.table(config['name'], COLUMNS, [table_row(*r) for r in results.items()])
    return results


def _say(turn, turns, name, answer):
    speed = f'{1e3 * answer["seconds"]:,.1f} ms a step by {answer["library"]}'
    print(f'round {turn + 1} of {turns}: {name}, {speed}', flush=True)


def _write(workdir, config, results, left_out):
    found = {'config': config, 'results': results, 'left_out': left_out}
    text = json.dumps(found, indent=1)
    atomic.write(Path(workdir) / 'benchmark.json', text)


def checked(config):
    """The cases, whole. Raises ValueError, before anything is measured, for a setting
    that none takes, cases of the same name, and a case against none of them."""
    cases = [case_of(config, case) for case in config['cases']]
    if not cases:
        raise ValueError('A benchmark needs `cases`, as configs/benchmark.py has them.')
    names = [case['name'] for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f'cases of the same name: {", ".join(twice)}.')
    for case in cases:
        if (other := case.get('against')) not in (None, *names):
            raise ValueError(
                f'case {case["name"]!r} is against {other!r}, which is none of the '
                f'cases: {", ".join(names)}.'
            )
    return cases


def case_of(config, case):
    """All settings of a case: its own before those of the config; so too of its model,
    unless it names another one or another preset."""
    model = case.get('model', {})
    if not {'name', 'preset'} & model.keys():
        model = {**config['model'], **model}
    names = {one.name for one in dataclasses.fields(Settings)}
    shared = {name: value for name, value in config.items() if name in names}
    what = f'case {case.get("name")!r}'
    return schema.resolved(Case, {**shared, **case, 'model': model}, what)


class Left(ValueError):
    """A case that could not be measured here, in its words; `refused`: it asked for what
    is not here."""

    def __init__(self, words, refused=False):
        super().__init__(words)
        self.refused = refused


def ask(case, timeout=None, python=None):
    """What a process that makes a case, and only it, has measured.

    Its keys: worker.py. Raises Left with the words of a case that could not be made;
    else as child.ask.
    """
    # The others' process uses jax for its batches only.
    environ = {} if case['side'] == 'ours' else {'JAX_PLATFORMS': 'cpu'}
    answer = child.ask(
        'jepa_text.planning.worker',
        case,
        what := f'benchmark case {case["name"]!r}',
        timeout=timeout,
        python=python,
        environ=environ,
    )
    if 'error' in answer:
        raise Left(f'{what}: {answer["error"]}', answer.get('refused', False))
    return answer


def joined(answers):
    """One result of the answers of all rounds: all times, and the highest peak FLOP/s.

    Memory is that of the last round: the first may hold the compiler's, too.
    """
    return answers[-1] | {
        'seconds': [answer['seconds'] for answer in answers],
        'peak': max(answer['peak'] for answer in answers),
    }


def compare(results, against):
    """Adds to each result `ratio`: its speed over that of the case it is compared with,
    round by round, as [lower quartile, median, upper quartile]."""
    for name, other in against.items():
        if other in results:
            own = results[name]['tokens'] / np.array(results[name]['seconds'])
            their = results[other]['tokens'] / np.array(results[other]['seconds'])
            results[name]['ratio'] = np.percentile(own / their, (25, 50, 75)).tolist()


def table_row(name, result):
    """The row of a result in the table of COLUMNS."""
    seconds = float(np.median(result['seconds']))
    speed = result['flops'] / seconds
    low, middle, high = result.get('ratio', (None,) * 3)
    return (
        name,
        f'{1e3 * seconds:,.1f}',
        f'{result["tokens"] / seconds:,.0f}',
        f'{speed / result["peak"]:.1%}' if result['peak'] else '',
        '' if middle is None else f'{middle:.3f}',
        '' if middle is None else f'{low:.3f} to {high:.3f}',
        f'{result["memory"] / 2**20:,.0f}',
    )
