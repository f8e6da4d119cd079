"""Cleaning of one document: returns the cleaned text, or the reason it is dropped.

    text -> normalize -> C4 lines -> length? -> Gopher? -> bad words? -> contaminated?

Cleaning is idempotent.
"""

import typing
import unicodedata

from jepa_text.data.cleaning import c4, contamination, gopher, settings


class Cleaned(typing.NamedTuple):
    """The result of cleaning a document.

    text     the cleaned text; None if the document is dropped
    reason   why it is dropped; '' if it is kept
    notes    further events to count: 'normalized', 'c4: lines left out', and
             'contaminated: NAME' if contaminated documents are counted, not dropped
    """

    text: str | None
    reason: str = ''
    notes: tuple[str, ...] = ()


class Cleaner:
    """Cleans documents as a settings.Config says.

    `sets` is a tuple with the contamination.SetSummary of each set to decontaminate from.
    Creating a Cleaner reads these sets.
    """

    def __init__(self, config):
        """Raises ValueError or OSError if a set or the list of bad words is unusable."""
        self.config = config
        self._evaluation, self.sets = contamination.read(
            config.decontaminate, config.overlap, config.min_overlap
        )
        self._bad_words = (
            contamination.bad_words(config.bad_words) if config.bad_words else None
        )

    def clean(self, text):
        """Returns the Cleaned of a text."""
        config, notes = self.config, []
        cleaned = self._normalize(text)
        if cleaned != text:
            notes.append('normalized')
        if 'c4' in config.quality:
            before = cleaned
            cleaned, reason = c4.clean(before)
            if reason:
                return Cleaned(None, reason)
            # Removing a citation mark may have joined a letter and a combining accent.
            cleaned = self._normalize(cleaned)
            if cleaned != before:
                notes.append('c4: lines left out')
        reason = self._reason(cleaned)
        if not reason and (name := self._contaminated(cleaned)) is not None:
            reason = f'contaminated: {name}'
            if config.contaminated == settings.COUNT:
                notes.append(reason)
                reason = ''
        return Cleaned(None, reason) if reason else Cleaned(cleaned, '', tuple(notes))

    def _normalize(self, text):
        form = self.config.normalize
        return unicodedata.normalize(form, text) if form else text

    def _reason(self, text):
        """Why a text is dropped, apart from contamination; '' if it is kept."""
        config = self.config
        if len(text) < config.min_chars:
            return 'too short'
        if config.max_chars and len(text) > config.max_chars:
            return 'too long'
        is_gopher = 'gopher' in config.quality
        if is_gopher and (reason := gopher.reason(text, config.stop_words)):
            return reason
        if self._bad_words and self._bad_words.find(text) is not None:
            return 'c4: bad words'
        return ''

    def _contaminated(self, text):
        """The name of the first evaluation set that shares a phrase with the text."""
        number = self._evaluation.find(text)
        return None if number is None else self.sets[number].name
