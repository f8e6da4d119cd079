"""One document at a time: the text that stays, or why the document does not.

    text -> normalized -> lines of C4 -> length? -> Gopher? -> bad words? -> contaminated?

A text that has been cleaned is left as it is when it is cleaned again.
"""

import typing
import unicodedata

from jepa_text.data.cleaning import c4, contamination, gopher, settings


class Cleaned(typing.NamedTuple):
    """What became of a document.

    `text` is None if it is left out, for `reason`; of one that stays, `reason` is ''.
    `notes` says what else is to be counted: 'normalized', 'c4: lines left out', and
    'contaminated: NAME' if such documents are only counted.
    """

    text: str | None
    reason: str = ''
    notes: tuple[str, ...] = ()


class Cleaner:
    """Cleans documents by a settings.Config. `sets` tells what was read of the sets to
    decontaminate from, a tuple of contamination.Read.

    Making it reads these sets; it can be pickled, so that is done once for all workers.
    """

    def __init__(self, config):
        """Raises ValueError or OSError for sets or lists that cannot be read."""
        self.config = config
        self._evaluation, self.sets = contamination.read(
            config.decontaminate, config.overlap, config.min_overlap
        )
        self._bad_words = (
            contamination.bad_words(config.bad_words) if config.bad_words else None
        )

    def clean(self, text):
        """The Cleaned of a text."""
        config, notes = self.config, []
        cleaned = self._normalized(text)
        if cleaned != text:
            notes.append('normalized')
        if 'c4' in config.quality:
            before = cleaned
            cleaned, reason = c4.clean(before)
            if reason:
                return Cleaned(None, reason)
            # A mark of a citation may have stood before an accent.
            cleaned = self._normalized(cleaned)
            if cleaned != before:
                notes.append('c4: lines left out')
        reason = self._reason(cleaned)
        if not reason and (name := self._contaminated(cleaned)) is not None:
            reason = f'contaminated: {name}'
            if config.contaminated == settings.COUNT:
                notes.append(reason)
                reason = ''
        return Cleaned(None, reason) if reason else Cleaned(cleaned, '', tuple(notes))

    def _normalized(self, text):
        form = self.config.normalize
        return unicodedata.normalize(form, text) if form else text

    def _reason(self, text):
        """Why a text is left out, but for what it is shared with; '' if it is not."""
        config = self.config
        if len(text) < config.min_chars:
            return 'too short'
        if config.max_chars and len(text) > config.max_chars:
            return 'too long'
        reason = (
            gopher.reason(text, config.stop_words) if 'gopher' in config.quality else ''
        )
        if not reason and self._bad_words and self._bad_words.find(text) is not None:
            return 'c4: bad words'
        return reason

    def _contaminated(self, text):
        """The name of the first evaluation set that the text shares a phrase with."""
        number = self._evaluation.find(text)
        return None if number is None else self.sets[number].name
