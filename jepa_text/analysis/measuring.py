"""Measures all cells of an analysis: computes features, then geometry and probes."""

import contextlib
import itertools
import math
import os
import warnings
from concurrent import futures
from functools import partial

import numpy as np

from jepa_text.analysis import features, probes, results
from jepa_text.analysis.results import Result
from jepa_text.data import truncation
from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import baselines, lexical
from jepa_text.evaluation.controls import features as word_features
from jepa_text.measures import similarity
from jepa_text.report import progress as bars

_CKA_TEXTS = 2000
_TF_IDF_WORDS = 1024  # columns of the vectors whose geometry is measured


@contextlib.contextmanager
def part(progress, *names):
    """Context manager for one part of an analysis, such as a model on a task.

    Shows it on a Progress.
    """
    progress.update(progress.step, description=', '.join(filter(None, names)))
    yield
    progress.update(progress.step + 1)


def costs(config, models, tasks):
    """The costs of the parts of an analysis, in order, as of a Progress.

    The vectors of a network are computed, and those of all layers measured; the other
    parts have one set of vectors each, and TF-IDF that of what is read and that of all.
    """
    wanted = config['controls']
    of_model = [(2 * tasks, 0.5)] * (1 + (controls.UNTRAINED in wanted))
    of_model += [(tasks, 0.5)] * (controls.BAG in wanted)
    # The similarity of layers and the comparison are parts of their own.
    return [*of_model * models, (tasks * (controls.TF_IDF in wanted), 1.1), (2, 0.1)]


@contextlib.contextmanager
def one_blas_thread():
    """Context manager that limits BLAS to one thread, as cells are measured in parallel.

    Also silences convergence warnings of probes: warning filters are global, so they
    cannot be set in the threads that fit the probes.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings('ignore', 'lbfgs failed to converge')
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits  # installed with scikit-learn

            stack.enter_context(threadpool_limits(1))
        yield


class Measurements:
    """Measures models and controls on tasks.

    rows         the values, one dict each
    deviations   {Result: deviations of half-samples}, for comparisons
    per_example  {Result: {metric: one value per test example}}, for paired tests
    spectra      eigenvalues of the last layers
    cuts         truncation.Cut of each model and task
    """

    def __init__(self, config, tasks, cache, progress):
        self.progress, self.config = progress, config
        self.tasks, self.cache = tasks, cache
        self._seed, self._pooling = config['seed'], config['poolings'][0]
        self.rows, self.spectra = [], []
        # Tasks with their texts truncated to what each model reads.
        self.read, self.cuts = {}, []
        self.deviations, self.per_example, self.last = {}, {}, {}
        for task in tasks:
            for control, per_example in probes.baselines(task).items():
                result = Result(task.name, '', 0, control, None, '')
                self.per_example[result] = per_example
                for metric, values_N in per_example.items():
                    value = values_N.mean(), math.nan, math.nan
                    self._row(result, '', metric, value, len(task.test))

    def model(self, model, name, seed):
        """Measures a model, its untrained control and its bag of embeddings."""
        wanted = self.config['controls']
        for task in self.tasks:
            read, cut = truncation.truncate(model, task, name, seed)
            self.read[name, seed, task.name] = read
            self.cuts.append(cut)
        if 'cls' in self.config['poolings'] and not model.ends()[0]:
            self.progress.log('  (cls skipped: the model has no initial special token)')
        self._features(model, name, seed, '')
        if controls.UNTRAINED in wanted:
            fresh = untrained(self.config, model, seed)
            self._features(fresh, name, seed, controls.UNTRAINED)
        for task in self.tasks if controls.BAG in wanted else ():
            with part(self.progress, name, controls.BAG, task.name):
                texts, read = _texts(task), self.read[name, seed, task.name]
                result = Result(task.name, name, seed, controls.BAG, None, 'mean')
                rows_ND = controls.bag_of_embeddings(model, texts)
                tokens_N = [len(model.row(text)) for text in texts]
                cell = {(result,): lambda x=rows_ND: x}
                self._measure_all(cell, read, _lengths(tokens_N, read))

    def tf_idf(self):
        """Measures TF-IDF, of the text that the models read and of the full texts.

        Its probe reads all words, its geometry and the recovery of words the commonest.
        """
        for task in self.tasks if controls.TF_IDF in self.config['controls'] else ():
            with part(self.progress, controls.TF_IDF, task.name):
                # Models that read the same text share a control.
                groups = {_texts(task): (task, [])}
                for (name, seed, of), read in self.read.items():
                    if of == task.name:
                        result = Result(of, name, seed, controls.TF_IDF, None, '')
                        groups.setdefault(_texts(read), (read, []))[1].append(result)
                control = controls.WHOLE
                if len(groups) == 1:
                    groups[_texts(task)][1].clear()
                    control = controls.TF_IDF
                groups[_texts(task)][1].append(
                    Result(task.name, '', 0, control, None, '')
                )
                for texts, (read, wanted) in groups.items():
                    known = read.train.texts()
                    rows_NW = word_features.vectorizer(
                        known, where=task.name, max_words=_TF_IDF_WORDS
                    ).transform(texts)
                    has_probe = read.kind in ('labels', 'scores')
                    self._measure_all(
                        {tuple(wanted): rows_NW.toarray},
                        read,
                        controls.word_lengths(texts),
                        answered=baselines.probe(read, self._seed) if has_probe else None,
                    )

    def similarity(self):
        """Returns the unbiased CKA between all layers, within and between models, on the
        first task: {sides: both [model, seed], layers: those of both, values [R, C]}."""
        maps = []
        with part(self.progress, 'similarity of layers'):
            for sides in itertools.combinations_with_replacement(self.last, 2):
                vectors = [self.last[side] for side in sides]
                values_RC = similarity.similarity_map(*([*x.values()] for x in vectors))
                layers = [[*of_layer] for of_layer in vectors]
                sides = [[*side] for side in sides]
                maps.append(dict(sides=sides, layers=layers, values=values_RC.tolist()))
        return maps

    def _features(self, model, name, seed, control):
        """Measures all layers and poolings of a model or control on every task."""
        for task in self.tasks:
            with part(self.progress, name, control, task.name):
                extracted = vectors(self.config, model, task, self.cache)
            with part(self.progress, name, control, task.name):
                read = self.read[name, seed, task.name]
                wanted = {
                    (Result(task.name, name, seed, control, *pair),): partial(
                        extracted.vectors, *pair
                    )
                    for pair in extracted.names
                }
                labels = _token_labels(model, task)
                lengths_N2 = _lengths(extracted.tokens_N, read)
                self._measure_all(wanted, read, lengths_N2, labels)
                if task is self.tasks[0] and not control:
                    start = len(_texts(task)) - len(task.test.texts())
                    self.last[name, seed] = {
                        layer: extracted.vectors(layer, pooling)[
                            start : start + _CKA_TEXTS
                        ]
                        for layer, pooling in sorted(extracted.names)
                        if pooling == self._pooling
                    }

    def _measure_all(self, wanted, task, lengths_N2, labels=None, answered=None):
        """Measures sets of vectors in parallel, and stores the results in order.

        `wanted` is {Results: a function that returns the vectors they share}; `answered`
        are a probe's answers (probes.evaluate).
        """
        deepest = max(result.layer or 0 for result, *_ in wanted)
        unique = results.unique_texts(task)

        def measure(group):
            result, rows_ND = group[0], wanted[group]()
            is_last = (result.layer or 0) == deepest
            values, deviations, spectra = self._geometry(
                task, unique, rows_ND, lengths_N2, is_last
            )
            per_example = {}
            if is_last or result.pooling == self._pooling:
                is_first = result.pooling in (self._pooling, 'mean')
                paper = labels if is_last and is_first else None
                split = results.split(rows_ND, task)
                probed, per_example = probes.evaluate(
                    task, split, self._seed, paper, answered
                )
                values += [('', name, x, len(task.test)) for name, x in probed.items()]
            return values, deviations, spectra, per_example

        threads = self.config['threads'] or os.cpu_count()
        with (
            futures.ThreadPoolExecutor(threads) as pool,
            bars.Progress('measured', len(wanted)) as bar,
        ):
            measured = zip(wanted, pool.map(measure, wanted))
            for number, (group, own) in enumerate(measured, 1):
                bar.update(number)
                for result in group:
                    self._store(result, *own)

    def _store(self, result, values, deviations, spectra, per_example):
        for value in values:
            self._row(result, *value)
        self.deviations[result] = deviations
        self.per_example[result] = per_example
        for form, values in spectra.items():
            self.spectra.append(result._asdict() | dict(form=form, values=values))

    def _geometry(self, task, unique, rows_ND, lengths_N2, is_last):
        """(values, deviations, spectra) of the unique test texts: [(form, metric,
        interval, count)], with intervals in the last layer."""
        start = len(rows_ND) - len(task.test.texts())
        rows_ND, lengths_N2 = (x[start:][unique.index_M] for x in (rows_ND, lengths_N2))
        by_class = task.kind == 'labels' and task.test.second is None
        values, deviations = results.geometry_values(
            rows_ND,
            lengths_N2,
            task.test.target[unique.index_M] if by_class else None,
            self.config['half_samples'] if is_last else 0,
            self._seed,
            unique.units_M,
            unique.positives_P2,
        )
        values = [(form, name, x, len(rows_ND)) for (name, form), x in values.items()]
        spectra = results.spectra(rows_ND, lengths_N2) if is_last else {}
        return values, deviations, spectra

    def _row(self, result, form, metric, interval, count):
        value, low, high = (float(x) for x in interval)
        measured = dict(form=form, metric=metric, value=value, low=low, high=high)
        self.rows.append(result._asdict() | measured | dict(count=count))


def untrained(config, model, seed):
    """Returns the untrained control of a model, initialized otherwise for each seed of
    training."""
    return controls.untrained(model, config['seed'] + seed)


def vectors(config, model, task, cache):
    """Returns the features.Features of a model on a task, from the cache if they are
    there."""
    return features.extract(
        model,
        _texts(task),
        cache,
        _poolings(config, model),
        layers=config['layers'] or None,
    )


def _poolings(config, model):
    """The poolings that the model supports; an unsupported first one raises later."""
    return [
        name
        for name in config['poolings']
        if name != 'cls' or name == config['poolings'][0] or model.ends()[0]
    ]


def _texts(task):
    return (*task.train.texts(), *task.test.texts())


def _lengths(tokens_N, read):
    """[N, 2]: tokens, and characters of the truncated texts; the covariates of the
    length-residualized forms."""
    return np.stack([tokens_N, [max(1, len(part)) for part in _texts(read)]], axis=1)


def _token_labels(model, task):
    """(train, test) of lexical.paper_token_labels for classification of single texts,
    else None."""
    if task.kind != 'labels' or task.train.second is not None:
        return None
    return [
        lexical.paper_token_labels(map(model.row, part.first))
        for part in (task.train, task.test)
    ]
