"""What a column of a set says of its texts, checked: classes, numbers, templates."""

import math
import re
import string

import numpy as np


def scores(values, where):
    """float64 of numbers or their spellings; ValueError with the first bad one."""
    found = []
    for number, value in enumerate(values, 1):
        try:
            score = float(value)
        except (TypeError, ValueError):
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f'{where}, row {number}: {value!r} is no number. Scores are finite '
                'numbers; classes belong into the task `labeled`.'
            )
        found.append(score)
    return np.array(found)


def labels(values, where, known=None):
    """Classes as strings, 1.0 as '1'; ValueError with the first that is missing.

    With `known` all are among these, and '1.0' is '1' too.
    """
    found = []
    for number, value in enumerate(values, 1):
        is_float = isinstance(value, float)
        is_class = value is not None and not isinstance(value, list | dict)
        if not is_class or not str(value).strip() or (is_float and math.isnan(value)):
            raise ValueError(
                f'{where}, row {number}: the label is {value!r}. Give it one class, or '
                'leave the row out.'
            )
        label = str(int(value)) if is_float and value.is_integer() else str(value)
        if known is not None:
            label = re.sub(r'\.0+$', '', label)
            if label not in known:
                raise ValueError(
                    f'{where}, row {number}: the label is {value!r}, but must be one of '
                    f'{", ".join(known)}.'
                )
        found.append(label)
    return found


def check_template(template, where, wanted=('first', 'second')):
    """Raises ValueError unless the template has a place for each text, and no other."""
    try:
        parts = list(string.Formatter().parse(template))
        fields = sorted(field for _, field, _, _ in parts if field is not None)
    except ValueError as error:
        fields = [str(error)]
    if fields != sorted(wanted):
        places = ' and '.join(f"'{{{name}}}'" for name in wanted)
        raise ValueError(
            f'{where}: template={template!r} makes one text of {len(wanted)}, so it must '
            f'have {places} once each, and no other braces.'
        )
