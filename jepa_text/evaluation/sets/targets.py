"""Validation of target columns (scores and class labels) and of pair templates."""

import math
import re
import string

import numpy as np


def scores(values, where):
    """Converts numbers or their spellings to float64.

    Raises ValueError at the first value that is not a finite number.
    """
    numbers = []
    for number, value in enumerate(values, 1):
        try:
            score = float(value)
        except (TypeError, ValueError):
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f'{where}, row {number}: {value!r} is not a number. Scores must be '
                'finite numbers; for classes use the task `labeled`.'
            )
        numbers.append(score)
    return np.array(numbers)


def labels(values, where, known=None):
    """Converts classes to strings, 1.0 to '1', without spaces around them.

    If `known` is given, all classes must be in it, and the string '1.0' becomes '1' too.
    Raises ValueError at the first missing or unknown class.
    """
    classes = []
    for number, value in enumerate(values, 1):
        is_float = isinstance(value, float)
        is_class = value is not None and not isinstance(value, list | dict)
        if not is_class or not str(value).strip() or (is_float and math.isnan(value)):
            raise ValueError(
                f'{where}, row {number}: the label is {value!r}. Give one class, or '
                'remove the row.'
            )
        is_whole = is_float and value.is_integer()
        label = str(int(value)) if is_whole else str(value).strip()
        if known is not None:
            spellings = str(value), label, re.sub(r'\.0+$', '', label)
            label = next((name for name in spellings if name in known), None)
            if label is None:
                raise ValueError(
                    f'{where}, row {number}: the label is {value!r}, but must be one of: '
                    f'{", ".join(known)}.'
                )
        classes.append(label)
    return classes


def check_template(template, where, wanted=('first', 'second')):
    """Raises ValueError unless the template has each field exactly once, and no other."""
    try:
        parts = list(string.Formatter().parse(template))
        fields = sorted(field for _, field, _, _ in parts if field is not None)
    except ValueError as error:
        fields = [str(error)]
    if fields != sorted(wanted):
        places = ' and '.join(f"'{{{name}}}'" for name in wanted)
        raise ValueError(
            f'{where}: template={template!r} must contain {places} exactly once and no '
            'other braces.'
        )
