"""Corpus sources, one per module: make(split, **section) returns the documents."""

from jepa_text.config import resolve
from jepa_text.data.corpora import corpus, invalid_text


def build(section, split):
    """Returns the documents of a section's source; those of a user's own are checked.

    Raises UserCodeError, when it is read, for a document that is not {'text': str}.
    """
    documents = resolve.build('data/sources', section, split=split)
    if '.' in section['name'] and not isinstance(documents, corpus.Corpus):
        return _checked(section['name'], documents)
    return documents


def _checked(name, documents):
    with resolve.user_faults([name]):
        for number, document in enumerate(documents):
            is_text = isinstance(document, dict) and isinstance(document.get('text'), str)
            if not is_text and not isinstance(document, invalid_text.Bad):
                expected = "{'text': a string, ...}"
                resolve.reject_user_code(
                    name, f'document {number} is {document!r}, not {expected}.'
                )
            yield document
