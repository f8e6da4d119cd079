"""Word-level text statistics: tokenization, content words and overlap.

A word is a lowercase run of letters and digits with their combining marks, and with inner
apostrophes and hyphens. In scripts without spaces (cleaning/words.py) each letter with
its marks is a word, and overlap, TF-IDF and content words also use pairs of neighbors.
"""

import functools
import re
import sys
import types
import unicodedata
from collections import Counter

import numpy as np

from jepa_text.data.cleaning.words import WITHOUT_SPACES

_JOINERS = '\u200c\u200d'  # invisible, inside words of Persian and of Indic scripts


def words(text):
    """Returns the words of a text in order.

    >>> words("Don't re-read: it's HIS 2nd_book!")
    ["don't", 're-read', "it's", 'his', '2nd', 'book']
    >>> words('iPhone很好')
    ['iphone', '很', '好']
    """
    return _patterns().word.findall(text.lower())


def terms(text):
    """Returns the `words` of a text, followed by its pairs of letters without a space.

    >>> terms('iPhone很好用')
    ['iphone', '很', '好', '用', '很好', '好用']
    """
    text = text.lower()
    patterns = _patterns()
    runs = map(patterns.letter.findall, patterns.run.findall(text))
    pairs = [''.join(pair) for run in runs for pair in zip(run, run[1:])]
    return patterns.word.findall(text) + pairs


def pieces(text):
    """Returns (pieces, gaps): whitespace-separated parts, and '' or ' ' after each.

    In scripts without spaces each letter is a piece, with the punctuation beside it.

    >>> pieces('See it,  now')
    (['See', 'it,', 'now'], [' ', ' ', ''])
    >>> pieces('很好。 ok')
    (['很', '好。', 'ok'], ['', ' ', ''])
    """
    if not is_without_spaces(text):
        parts = text.split()
        return parts, [' '] * (len(parts) - 1) + [''] * bool(parts)
    pairs = _patterns().piece.findall(text)
    gaps = [' ' * bool(space) for _, space in pairs]
    return [piece for piece, _ in pairs], [*gaps[:-1], '']


def is_without_spaces(text):
    """Returns whether a text has a letter of a script without spaces."""
    return _patterns().letter.search(text) is not None


@functools.cache
def _patterns():
    """Returns the compiled patterns of a word, of a letter of a script without spaces
    with its marks, of a run of such letters, and of one of the `pieces` and a space."""
    alone = ''.join(f'{chr(first)}-{chr(last)}' for first, last in WITHOUT_SPACES)
    # Ranges, as the re module is slow with many characters beyond the basic plane.
    characters = map(chr, range(sys.maxunicode + 1))
    initials = ''.join(unicodedata.category(one)[0] for one in characters)
    ranges = (match.span() for match in re.finditer('M+', initials))
    marks = ''.join(f'{chr(first)}-{chr(end - 1)}' for first, end in ranges)
    mark, letter = f'[{marks}{_JOINERS}]', rf'[^\W_{alone}]'
    letters = f'{letter}+(?:{mark}+{letter}*)*'
    one = rf'(?=[{alone}])[^\W_]{mark}*'
    word = f"{one}|{letters}(?:['’-]{letters})*"
    piece = rf'([^\w\s]*{one}[^\w\s]*|(?:(?!{one})\S)+)(\s*)'
    sources = dict(word=word, letter=one, run=f'(?:{one})+', piece=piece)
    return types.SimpleNamespace(**{k: re.compile(v) for k, v in sources.items()})


def content_words(texts, *, max_words=500, min_texts=5, highest=0.05):
    """Returns at most `max_words` content words, the most frequent first.

    Content words have three characters or more, or are pairs of letters of a script
    without spaces. They occur in at least `min_texts` texts and in at most the share
    `highest` of them, which excludes function words without a stop list for each
    language. Raises ValueError if there are fewer than two.

    >>> texts = ['the whale', 'the sea', 'the whale', 'a sea']
    >>> content_words(texts, min_texts=2, highest=0.5)
    ['sea', 'whale']
    """
    bound = highest * len(texts)
    candidates = sorted(
        (-count, word)
        for word, count in Counter(x for text in texts for x in set(terms(text))).items()
        if min_texts <= count <= bound and _is_long(word)
    )
    if len(candidates) < 2:
        raise ValueError(
            f'{len(texts)} texts have {len(candidates)} content word(s), i.e. words in '
            f'at least {min_texts} and at most {highest:.0%} of the texts; at least two '
            'are needed. Give more texts, a lower `min_texts` or a higher `highest`.'
        )
    return [word for _, word in candidates[:max_words]]


def _is_long(term):
    return len(words(term)) > 1 if is_without_spaces(term) else len(term) > 2


def membership(texts, vocabulary):
    """Returns member_NW: whether text n contains word w.

    >>> membership(['a b', 'b'], ['a', 'b']).tolist()
    [[True, True], [False, True]]
    """
    column = {word: index for index, word in enumerate(vocabulary)}
    member_NW = np.zeros((len(texts), len(vocabulary)), bool)
    for row, text in enumerate(texts):
        member_NW[row, [column[word] for word in terms(text) if word in column]] = True
    return member_NW


def overlap(first_texts, second_texts):
    """Returns the Jaccard overlap of the terms of each pair; 1 for two empty texts.

    >>> overlap(['the whale sank', 'a'], ['the whale swam', 'b']).tolist()
    [0.5, 0.0]
    """
    shares = []
    for texts in zip(first_texts, second_texts, strict=True):
        first, second = (set(terms(text)) for text in texts)
        union = first | second
        shares.append(len(first & second) / len(union) if union else 1.0)
    return np.array(shares)
