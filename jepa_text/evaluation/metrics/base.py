"""What a measurement of answers holds, and what all of them ask of their input."""

import dataclasses
import importlib

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """Values between 0 and 1, or -1 and 1 where they are correlations.

    standard        {name: value} by the field's definitions
    paper           {name: value} by those of arXiv 2507.00994
    per_instance    {name: [N]} in the order of the instances; 'paper_' before a name
                    where the paper's value of an instance is another
    """

    standard: dict
    paper: dict
    per_instance: dict


def extra(module):
    """A module of the extra `eval`; ImportError that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This metric needs {module}: pip install 'jepa-text[eval]'."
        ) from error


def check_lengths(gold, predicted, what):
    """ValueError unless both are of one length above 0; `what` names their items."""
    if len(gold) != len(predicted) or not len(gold):
        raise ValueError(
            f'{len(gold)} {what} and {len(predicted)} predictions: each needs one, and '
            'there must be some.'
        )


def check_finite(values_N, what):
    """ValueError with the first value that is NaN or infinite."""
    bad_M = np.flatnonzero(~np.isfinite(values_N))
    if len(bad_M):
        raise ValueError(
            f'{what}: {len(bad_M)} of {len(values_N)} values are not finite; the first '
            f'is {values_N[bad_M[0]]} of instance {bad_M[0]}. A model that gives such '
            'has no metric: report it as "not finite".'
        )
