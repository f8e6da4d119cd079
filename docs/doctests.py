"""A griffe extension that shows the examples of docstrings as code blocks."""

import re

import griffe

EXAMPLE = re.compile(r'^>>> .*(?:\n.+)*', re.MULTILINE)


def fenced(text):
    """Wraps each example, from `>>>` to the next blank line, in a code block."""
    return EXAMPLE.sub(lambda found: f'```pycon\n{found[0]}\n```', text)


class Doctests(griffe.Extension):
    """Called with every object that has a docstring."""

    def on_object(self, *, obj, **_):
        """Fences the examples of one docstring."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
