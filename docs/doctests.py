"""Examples in docstrings become code blocks of the reference (an extension of griffe)."""

import re

import griffe

EXAMPLE = re.compile(r'^>>> .*(?:\n.+)*', re.MULTILINE)


def fenced(text):
    """The text with every example, from `>>>` to the next blank line, as a code block."""
    return EXAMPLE.sub(lambda found: f'```pycon\n{found[0]}\n```', text)


class Doctests(griffe.Extension):
    """Called with every object that has a docstring."""

    def on_object(self, *, obj, **_):
        """Fences the examples of one docstring."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
