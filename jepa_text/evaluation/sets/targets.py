"""Validation of target columns (scores and class labels) and of pair templates."""

import decimal
import json
import math
import re
import string

import numpy as np

FEW = 3  # numbers that are not integers: more of them are scores, not classes
_NUMBER = re.compile(r'-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?', re.ASCII)  # as in JSON


def scores(values, where):
    """Converts numbers or their spellings to float64; raises ValueError at the first
    value that is not a finite number."""
    numbers = []
    for number, value in enumerate(values, 1):
        try:
            score = float(value)
        except (TypeError, ValueError):
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f'{where}, row {number}: {value!r} is not a number. Scores must be '
                'finite numbers, with a point before decimals; for classes use the task '
                "`labeled` with kind='labels'."
            )
        numbers.append(score)
    return np.array(numbers)


def typed(cells):
    """Converts the cells of a CSV to booleans or numbers if all are such; keeps empty
    ones.

    >>> typed(['10', '2']), typed(['1.0', '0.5']), typed(['10', '02']), typed(['True'])
    ([10, 2], [1.0, 0.5], ['10', '02'], [True])
    >>> typed(['1٣', '2'])  # JSON has ASCII digits
    ['1٣', '2']
    """
    texts = [cell.strip() for cell in cells]
    full = {text for text in texts if text}
    are_booleans = all(text.lower() in ('true', 'false') for text in full)
    if not are_booleans and not all(map(_NUMBER.fullmatch, full)):
        return cells
    known = {text: json.loads(text.lower()) for text in full}
    return [known.get(text, cell) for text, cell in zip(texts, cells)]


def fractions(values):
    """Returns the different numbers that are not integers, in order, also of text and of
    numbers with a decimal comma; [] if there are other values than numbers."""
    try:
        different = {float(str(x).replace(',', '.')) for x in values}
    except ValueError:
        return []
    return sorted(x for x in different if math.isfinite(x) and x != int(x))


def classes(values):
    """Returns the different classes of a column in order, in the type of the data:
    numbers by value, also as text; others by name. Those of several types are text.

    >>> classes([10, 2.0]), classes(['10', '2']), classes([True, False])
    ((2, 10), ('2', '10'), (False, True))
    """
    by_label = {}
    for value in values:
        label = _label(value)
        is_whole = isinstance(value, float) and value.is_integer()
        text = label if isinstance(value, str) else value
        by_label[label] = int(value) if is_whole else text
    if len({int if type(x) is float else type(x) for x in values}) > 1:
        by_label = {label: label for label in by_label}
    is_number = all(map(_NUMBER.fullmatch, by_label))
    order = sorted(by_label, key=decimal.Decimal if is_number else None)
    return tuple(by_label[label] for label in order)


def _label(value):
    """A class as text without spaces around it, 1.0 as '1'."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value).strip()


def labels(values, where, known=None):
    """Converts classes to strings, 1.0 to '1', without spaces around them.

    If `known` is given, all classes must be in it, and the string '1.0' becomes '1' too.
    Raises ValueError at the first missing or unknown class.
    """
    classes = []
    for number, value in enumerate(values, 1):
        is_float = isinstance(value, float)
        is_class = isinstance(value, str | int | float)
        if not is_class or not str(value).strip() or (is_float and math.isnan(value)):
            raise ValueError(
                f'{where}, row {number}: the label is {value!r}. Give one class, or '
                'remove the row.'
            )
        label = _label(value)
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


def check_template(template, where):
    """Raises ValueError unless the template has {first} and {second} once each only."""
    try:
        parts = list(string.Formatter().parse(template))
        fields = sorted(field for _, field, _, _ in parts if field is not None)
    except ValueError as error:
        fields = [str(error)]
    if fields != ['first', 'second']:
        raise ValueError(
            f"{where}: template={template!r} must contain '{{first}}' and '{{second}}' "
            'exactly once and no other braces.'
        )
