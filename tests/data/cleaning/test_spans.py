"""Tests for repeated three-sentence spans."""

import tracemalloc

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from jepa_text.data.cleaning import c4, duplicates, fingerprints, settings, spans

SPANS = settings.Config(quality=('c4',), repeated_spans=True)


def decided(folder, parts, memory=2**20):
    """Returns ([{document: repeated spans}] and [dropped documents] of each part)."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, texts in enumerate(parts):
        with fingerprints.Writer(folder, number, SPANS) as writer:
            for document, text in enumerate(texts):
                writer.add(document, text)
    numbers = range(len(parts))
    duplicates.decide(folder, numbers, SPANS, memory)
    known = [fingerprints.Part(folder, number) for number in numbers]
    found = [spans.repeated(part) for part in known]
    out = [set(duplicates.left_out(folder, number)) for number in numbers]
    return found, out


def kept(folder, parts, **more):
    """Returns the kept texts in order, '' for dropped ones."""
    found, out = decided(folder, parts, **more)
    return [
        ''
        if number in out[part]
        else spans.remove(text, found[part].get(number, ()))
        if number in found[part]
        else text
        for part, texts in enumerate(parts)
        for number, text in enumerate(texts)
    ]


def text_of(letters, lines=()):
    """Converts 'a b' to 'The word a is in it. The word b is in it.'; lines end at
    `lines`."""
    made = ''
    for place, letter in enumerate(letters):
        between = '\n' if place in lines else ' ' * bool(place)
        made += f'{between}The word {letter} is in it.'
    return made


def plainly(texts):
    """The expected result, computed with a set of seen spans."""
    seen, copies, made = set(), set(), []
    for letters in texts:
        copy, gone = letters in copies, set()
        copies.add(letters)
        for place in range(0 if copy else len(letters) - 2):
            span = letters[place : place + 3]
            if span in seen:
                gone |= {place, place + 1, place + 2}
            seen.add(span)
        left = ''.join(one for place, one in enumerate(letters) if place not in gone)
        made.append('' if copy or (gone and len(left) < 3) else text_of(left))
    return made


WORDS = st.lists(st.text('abcd', min_size=3, max_size=9), max_size=12)


@pytest.mark.slow
@hypothesis.given(
    texts=WORDS, parts=st.integers(1, 4), memory=st.sampled_from([96, 2**20])
)
@hypothesis.settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_kept_sentences_match_a_plain_search(texts, parts, memory, tmp_path_factory):
    made = [text_of(letters) for letters in texts]
    cut = np.array_split(np.arange(len(made)), parts)
    shared = [[made[n] for n in numbers] for numbers in cut]
    folder = tmp_path_factory.mktemp('spans')
    assert kept(folder, shared, memory=memory) == plainly(texts)


def test_lines_are_kept_and_case_and_whitespace_ignored(tmp_path):
    first = text_of('abcdefg')
    other = text_of('xyzbcduvw', lines=(2, 4, 7)).upper().replace('IN IT', 'IN  it')
    found = kept(tmp_path, [[first], [other]])
    assert found[0] == first
    left = text_of('xyzuvw', lines=(2, 3, 4)).upper().replace('IN IT', 'IN  it')
    assert found[1] == left and other.count('\n') == 3


def test_too_short_remainders_are_dropped(tmp_path):
    texts = [text_of(letters) for letters in ('abc', 'abcd', 'defabc', 'aaaaa')]
    found = kept(tmp_path, [texts])
    assert found == [text_of('abc'), '', text_of('def'), '']
    assert all(len(c4.clean(text)[0]) > 0 for text in found if text)


def test_dropped_copies_are_not_first_occurrences(tmp_path):
    # The second is a copy; the spans that the third shares with it are in the first.
    texts = [text_of('abcd'), text_of('abcd'), text_of('xyzbcd')]
    found, out = decided(tmp_path, [texts[:1], texts[1:]])
    assert out == [set(), {0}] and found == [{}, {1: [3]}]


def test_memory_is_bounded(tmp_path):
    memory, peaks = 400_000, []
    for count in (5_000, 20_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        rng = np.random.default_rng(0)
        for part in range(4):
            with fingerprints.Writer(folder, part, SPANS) as writer:
                writer.add(0, text_of('abc'))
            made = np.zeros(count, spans.SPAN)
            made['hash'] = rng.integers(0, 2**64, count, np.uint64)
            made['hash'][: count // 10] = 7
            made['index'] = range(count)
            (folder / f'{part:06d}.spans').write_bytes(made.tobytes())
        known = [fingerprints.Part(folder, part) for part in range(4)]
        scratch = folder / 'scratch'
        scratch.mkdir()
        tracemalloc.start()
        spans.decide(known, [lambda: np.zeros(0, int)] * 4, scratch, memory)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        found = sum(len(some) for one in known for some in spans.repeated(one).values())
        assert found == 4 * count // 10 - 1
    # All spans together are 1,600,000 bytes.
    assert max(peaks) < memory, peaks


def test_repeated_spans_require_c4():
    with pytest.raises(ValueError, match="repeated_spans=True is a rule of C4: add 'c4'"):
        settings.Config(repeated_spans=True)
    assert SPANS.finds_duplicates


def test_repeated_raises_before_decide(tmp_path):
    with fingerprints.Writer(tmp_path, 0, SPANS) as writer:
        writer.add(0, text_of('abc'))
    with pytest.raises(FileNotFoundError):
        spans.repeated(fingerprints.Part(tmp_path, 0))
