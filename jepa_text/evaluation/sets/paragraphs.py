"""Splitting of documents into paragraphs of whole sentences and similar length."""

import re

from jepa_text.evaluation.controls import words as text_words


def paragraphs(documents, min_words=40, max_words=80):
    """Splits documents into (text, document) pieces of min_words to max_words words.

    Pieces end at blank lines if they are long enough, else at sentence ends; sentences
    longer than max_words are cut. A rest of a document shorter than min_words is dropped.
    Whitespace becomes single spaces. Words are the pieces of `words.pieces`.

    >>> [text for text, _ in paragraphs([{'text': 'One. Two.\\n\\nThree.'}], 1, 2)]
    ['One. Two.', 'Three.']
    """
    return [
        (''.join(words).strip(), document)
        for document in documents
        for words in _pieces(document['text'], min_words, max_words)
    ]


def _pieces(text, min_words, max_words):
    words = []
    for block in re.split(r'\n\s*\n', text):
        for sentence in _sentences(block):
            if len(words) >= min_words and len(words) + len(sentence) > max_words:
                yield words
                words = []
            words = words + sentence
            while len(words) > max_words:
                yield words[:max_words]
                words = words[max_words:]
        if len(words) >= min_words:
            yield words
            words = []


_TITLES = ('Mr.', 'Mrs.', 'Ms.', 'Dr.', 'St.', 'Messrs.', 'Hon.', 'Gen.', 'Col.', 'Capt.')
_SENTENCE_END = re.compile(r'[.!?。！？।۔؟။។][)\]"\'”’」』）]*$')


def _sentences(block):
    """Yields lists of words with their spaces, each up to the end of a sentence."""
    sentence, (pieces, gaps) = [], text_words.pieces(block)
    # A block is followed by another one.
    for word, gap in zip(pieces, [*gaps[:-1], ' ']):
        sentence.append(word + gap)
        if _SENTENCE_END.search(word) and word.lstrip('("\'“‘[') not in _TITLES:
            yield sentence
            sentence = []
    if sentence:
        yield sentence
