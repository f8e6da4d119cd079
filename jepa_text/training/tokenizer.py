"""The command `jepa-text tokenizer`: makes a tokenizer, and a report about it.

    source --sample by hash--> texts --trained, or an existing one--> tokenizer
                               held-out texts --encoded by it and others----> report

The workdir contains tokenizer.json and report.json, and is written atomically.
"""

import dataclasses
import json

from jepa_text.data import sources, tokenizers, units
from jepa_text.data.corpora import invalid_text, reading, sampling
from jepa_text.data.tokenizers import measures, roles, training
from jepa_text.files import atomic, checksums
from jepa_text.hf import named_tokenizer
from jepa_text.hf.named_tokenizer import FILE
from jepa_text.report import rows_page, tokenizer_pages
from jepa_text.running import places
from jepa_text.settings import schema
from jepa_text.settings.schema import field

REPORT = 'report.json'
MIN_HELDOUT_BYTES = 10_000  # fewer bytes of held-out text are not representative


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """The section `train`."""

    vocab_size: int = field(
        32768,
        'number of entries, including special tokens',
        minimum=training.SMALLEST,
        maximum=tokenizers.MAX_ID,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """The section `sample`: sizes in bytes of UTF-8."""

    bytes: int = field(200_000_000, 'maximum to train on', minimum=1)
    heldout_bytes: int = field(10_000_000, 'maximum to measure on', minimum=1)
    read_bytes: int = field(
        2_000_000_000, 'maximum to read from the corpus; 0: all', minimum=0
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config of `jepa-text tokenizer`."""

    source: dict = field(
        doc='source of the text, as prepare.source',
        folder='data/sources',
        given=('split',),
    )
    tokenizer: str = field(
        '',
        "an existing tokenizer: a tokenizer.json or its folder, 'hf:NAME[@REVISION]', or "
        "a SentencePiece .model; '': train one",
    )
    train: Training = field({}, 'training, if `tokenizer` is empty')
    sample: Sample = field({}, 'sample of the source, by hashes of texts')
    compare: tuple[str, ...] = field((), 'other tokenizers to measure on the same text')


def run(config, workdir, is_brief=False):
    """Makes the tokenizer of a config in the workdir, prints its report, and returns it.

    If `is_brief`, prints only what was trained.

    If the workdir has a tokenizer of the same settings, only prints its report. Raises
    FileExistsError for a workdir of other settings or with other files, and ValueError
    for an invalid config, corpus or tokenizer.
    """
    parsed = schema.read(Config, schema.plain(config))
    with places.opened(workdir) as place:
        report, is_new = _report(parsed, place.folder)
        if not is_brief:
            tokenizer_pages.show(report)
            print(f'{place.name}/{FILE}: written; the report is {place.name}/{REPORT}')
        elif is_new:
            print(*report['said'], sep='\n')
        else:
            print(
                f'{place.name}: this tokenizer exists and is used; if the text has '
                'changed, delete it to train another.'
            )
        return report


def _report(parsed, folder):
    """Returns (the report of the tokenizer in a folder, whether it was made now)."""
    settings = json.loads(json.dumps(schema.as_dict(parsed)))
    if report := _finished(folder, settings):
        return report, False
    others = {name: opened(name) for name in parsed.compare}
    try:
        with atomic.folder(folder) as partial:
            report = _make(parsed, partial, folder, others) | {'settings': settings}
            text = json.dumps(report, indent=1, ensure_ascii=False) + '\n'
            atomic.write(partial / REPORT, text)
    except OSError:
        # Another process may have trained the same one first.
        if report := _finished(folder, settings):
            return report, False
        raise
    return report, True


def opened(name):
    """Returns the Tokenizer of a name in the config, without adding special tokens."""
    content, *_ = named_tokenizer.read(name)
    return tokenizers.parse(content, name, roles.ROLES)


def _finished(folder, settings):
    """Returns the report of a finished workdir of these settings; None for a new one."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / REPORT).is_file() or not (folder / FILE).is_file():
        raise FileExistsError(
            f'{folder} exists and contains something other than a tokenizer. Use another '
            '--workdir, or move the existing files away.'
        )
    report = checksums.read_json(folder / REPORT)
    if report.get('settings') != settings:
        raise FileExistsError(
            f'{folder} contains a tokenizer with other settings (see its {REPORT}). '
            'Use another --workdir, or delete this one to make it again.'
        )
    found, made = tokenizers.load(folder / FILE).fingerprint, report['fingerprint']
    if found != made:
        raise FileExistsError(
            f'{folder / FILE} was changed: its fingerprint is {found[:16]}..., that in '
            f'{REPORT} is {made[:16]}... Restore it, or delete {folder} to make it again.'
        )
    return report


def _make(parsed, partial, folder, others):
    if parsed.tokenizer:
        content, notes, _ = named_tokenizer.read(parsed.tokenizer)
        content, added = roles.completed(content, parsed.tokenizer)
        tokenizer, trained_on = tokenizers.parse(content, parsed.tokenizer), None
        notes = [*notes, *added]
    else:
        trained_on, left_out = _sample(parsed, 'train', parsed.sample.bytes)
        _check_sample(trained_on, parsed, left_out)
        print(
            f'training on {trained_on.bytes:,} of {trained_on.read:,} bytes', flush=True
        )
        tokenizer = training.train(trained_on, **dataclasses.asdict(parsed.train))
        notes = [*_training_notes(tokenizer, trained_on, parsed.train), *left_out]
    tokenizer.save(partial / FILE)
    text, what, left_out = _measured_on(parsed, trained_on)
    own = folder.name if folder.name not in others else str(folder / FILE)
    measured = {own: tokenizer, **others}
    return {
        'said': [*notes, *left_out],
        'trained_on': trained_on and trained_on.about(),
        'measured_on': {'what': what, **text.about()},
        'fingerprint': tokenizer.fingerprint,
        'tokenizers': {
            name: {'vocab_size': one.vocab_size, **measures.measure(one, text)}
            for name, one in measured.items()
        },
    }


def _measured_on(parsed, trained_on):
    """Returns (the text to measure on, what it is, lines on skipped documents)."""
    heldout, left_out = _sample(parsed, 'heldout', parsed.sample.heldout_bytes)
    if heldout.bytes >= min(MIN_HELDOUT_BYTES, parsed.sample.heldout_bytes // 2):
        return heldout, 'held-out text', left_out
    reason = f'as only {heldout.bytes:,} bytes are held out'
    if trained_on is not None:
        return trained_on, f'the text that it was trained on ({reason})', left_out
    text, left_out = _sample(parsed, 'train', parsed.sample.bytes)
    _check_sample(text, parsed, left_out)
    return text, f'text that is not held out ({reason})', left_out


def _sample(parsed, split, size):
    """Returns (the sampling.Sample of a split, lines on skipped documents)."""
    documents, is_wanted = sources.build(parsed.source, split), None
    if every := getattr(documents, 'heldout_every', None):
        # What is read to find the documents of a split counts, too.
        documents = dataclasses.replace(documents, split=None)

        def is_wanted(text):
            return reading.split_of(text, every) == split

    tally = units.Tally()
    good = invalid_text.valid(documents, parsed.source['name'], tally.drop_bad)
    texts = (document['text'] for document in good)
    sample = sampling.draw(texts, size, parsed.sample.read_bytes, is_wanted)
    # Invalid documents belong to the first split.
    skipped = tally.as_dict() if split == reading.SPLITS[0] else {}
    return sample, rows_page.left_out(skipped)


def _check_sample(sample, parsed, left_out):
    if not sample.documents:
        reasons = ''.join(f' {line}.' for line in left_out)
        raise ValueError(
            f'The corpus has no text for a tokenizer (source {parsed.source}).{reasons} '
            'Use a source with a document in UTF-8 (`iconv` converts) that is not blank.'
        )


def _training_notes(tokenizer, sample, train):
    notes = [f'trained bpe on {sample.bytes:,} bytes, {sample.documents:,} documents']
    if sample.share < 1:
        notes.append(f'a sample of {sample.share:.3g} of the documents, by their hash')
    if not sample.is_all:
        notes.append(
            f'only the first {sample.read:,} bytes of the corpus were read '
            '(sample.read_bytes)'
        )
    if tokenizer.vocab_size < train.vocab_size:
        notes.append(
            f'{tokenizer.vocab_size:,} entries instead of {train.vocab_size:,}: the text '
            'has no more that occur often enough'
        )
    return notes
