"""The result type of all metrics."""

import dataclasses

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
