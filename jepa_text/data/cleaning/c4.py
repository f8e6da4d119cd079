"""C4's quality rules: keep lines that look like sentences, drop pages that are not prose.

Raffel et al. 2020 (arXiv 1910.10683), section 2.2. Versions of the paper differ; this
follows the one with 5 words and 3 sentences, which is also that of the code in TensorFlow
Datasets (another version has 3 words and 5 sentences):

    a page is dropped     if it contains 'lorem ipsum', '{' or a bad word, or if fewer
                          than 3 sentences remain
    a line is dropped     if it does not end in terminal punctuation, ends in an
                          ellipsis, has fewer than 5 words or a word of more than 1,000
                          characters (from the code), or contains 'javascript' or a
                          phrase of a notice about cookies or terms
    within a line         citation marks such as [1] and [edit] are removed

Words are separated by whitespace. A sentence ends where whitespace follows terminal
punctuation; the original code uses NLTK, which knows English abbreviations. Terminal
punctuation includes that of other scripts. Repeated three-sentence spans are removed
once all documents are known (spans.py). Unlike in C4, pages are not filtered by language.
"""

import re

MIN_WORDS = 5  # in a line
MIN_SENTENCES = 3
MAX_WORD_LENGTH = 1000
TERMINAL = tuple('.!?"”»。！？」』؟۔।።')
ELLIPSES = ('...', '…')
CITATION = re.compile(r'\[(?:\d*|edit|citation needed)\]')
BOUNDARY = re.compile(r'[.!?。！？؟۔।።]["\'”’»)\]」』]*\s+(?=\S)')
LONG_WORD = re.compile(rf'\S{{{MAX_WORD_LENGTH + 1}}}')
NOTICES = (
    'javascript',
    'terms of use',
    'privacy policy',
    'cookie policy',
    'uses cookies',
    'use of cookies',
    'use cookies',
)


def clean(text):
    """Returns (text, '') with the kept lines, or (None, reason) for a dropped page."""
    if '{' in text:
        return None, 'c4: curly bracket'
    if '[' in text:
        text = _without_citations(text)
    lowered = text.lower()
    if 'lorem ipsum' in lowered:
        return None, 'c4: lorem ipsum'
    notices = tuple(notice for notice in NOTICES if notice in lowered)
    has_long = len(text) > MAX_WORD_LENGTH and LONG_WORD.search(text) is not None
    lines = [
        line
        for line in map(str.strip, text.splitlines())
        if line.endswith(TERMINAL) and _is_kept(line, notices, has_long)
    ]
    # Each line has at least one sentence.
    if len(lines) < MIN_SENTENCES and sum(map(_sentences, lines)) < MIN_SENTENCES:
        return None, 'c4: too few sentences'
    return '\n'.join(lines), ''


def _without_citations(text):
    """Removes citation marks, including those that appear when another is removed."""
    text, count = CITATION.subn('', text)
    while count:
        text, count = CITATION.subn('', text)
    return text


def _is_kept(line, notices, has_long):
    """Whether to keep a line that ends in terminal punctuation."""
    if line.endswith(ELLIPSES) or len(line.split(None, MIN_WORDS - 1)) < MIN_WORDS:
        return False
    if has_long and LONG_WORD.search(line):
        return False
    if notices:
        lowered = line.lower()
        return not any(notice in lowered for notice in notices)
    return True


def _sentences(line):
    return sum(1 for _ in BOUNDARY.finditer(line)) + 1
