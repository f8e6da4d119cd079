"""A griffe extension that shows examples and lists of arguments in docstrings as code."""

import re

import griffe

EXAMPLE = re.compile(r'^>>> .*(?:\n.+)*', re.MULTILINE)
# A paragraph whose first line is a name, two spaces or more, and what it is.
ARGUMENTS = re.compile(r'^(?!>>>)\S.{0,24}? {2,}\S.*(?:\n.+)*', re.MULTILINE)
TOKEN = re.compile(r'(?<!`)<\w+>(?!`)')


def shown(paragraph):
    """A paragraph of a docstring as Markdown."""
    if EXAMPLE.match(paragraph):
        return f'```pycon\n{paragraph}\n```'
    if ARGUMENTS.match(paragraph):
        return f'```text\n{paragraph}\n```'
    is_code = paragraph.startswith('    ')
    return paragraph if is_code else TOKEN.sub(r'`\g<0>`', paragraph)


class Docstrings(griffe.Extension):
    """Called with every object that has a docstring."""

    def on_object(self, *, obj, **_):
        """Marks up the paragraphs of one docstring."""
        if obj.docstring:
            paragraphs = obj.docstring.value.split('\n\n')
            obj.docstring.value = '\n\n'.join(map(shown, paragraphs))
