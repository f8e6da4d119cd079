"""The result type of all metrics, and checks of their inputs."""

import dataclasses

import numpy as np

from jepa_text.files import extras


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """Metric values between 0 and 1, or between -1 and 1 for correlations.

    standard        {name: value} by the field's definitions
    paper           {name: value} by the definitions of arXiv 2507.00994
    per_instance    {name: [N]} in the order of the instances; names start with 'paper_'
                    if the paper's value of an instance differs
    """

    standard: dict
    paper: dict
    per_instance: dict

    @property
    def by_mode(self):
        """The values of both definitions, as result_files.write takes them."""
        return {'standard': self.standard, 'paper': self.paper}


def extra(module):
    """Returns a module of the extra `eval`; the ImportError says how to install it."""
    return extras.package(module, 'eval', 'This metric')


def check_lengths(gold, predicted, what):
    """Raises ValueError unless both have the same length above 0.

    `what` names their items in the message.
    """
    if len(gold) != len(predicted) or not len(gold):
        raise ValueError(
            f'{len(gold)} {what} and {len(predicted)} predictions: the numbers must be '
            'equal and above 0.'
        )


def check_finite(values_N, what):
    """Raises ValueError, with the first bad value, if a value is NaN or infinite."""
    bad_M = np.flatnonzero(~np.isfinite(values_N))
    if len(bad_M):
        raise ValueError(
            f'{what}: {len(bad_M)} of {len(values_N)} values are not finite, the first '
            f'is {values_N[bad_M[0]]} at instance {bad_M[0]}. Such predictions cannot be '
            'measured: report the model as "not finite".'
        )
