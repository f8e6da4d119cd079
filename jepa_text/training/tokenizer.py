"""Config -> tokenizer.json and a report of it: what `jepa-text tokenizer` does.

    source --sample by hash--> texts on disk --trained, or one that exists--> tokenizer
                               held-out texts --encoded by it and others----> report

The workdir holds tokenizer.json, report.json and report.html. It appears whole or not at
all.
"""

import dataclasses
import json
import shutil

from jepa_text.config import resolve, schema
from jepa_text.config.schema import field, section
from jepa_text.data import tokenizers
from jepa_text.data.corpora import invalid_text, sampling
from jepa_text.data.preparing import work as works
from jepa_text.data.tokenizers import measures, roles, training
from jepa_text.files import atomic
from jepa_text.hf import files
from jepa_text.report import rows_page, tokenizer_pages
from jepa_text.running import mirror
from jepa_text.training import named_tokenizer
from jepa_text.training.named_tokenizer import FILE

REPORT, PAGE = 'report.json', 'report.html'
FEW = 10_000  # bytes of held-out text say nothing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """The section `train`."""

    kind: str = field('bpe', 'of the model', choices=tuple(training.KINDS))
    vocab_size: int = field(32768, 'entries, specials included', minimum=1)
    min_frequency: int = field(
        2, 'a pair is merged that occurs so often; not of unigram', minimum=1
    )
    lowercase: bool = field(False, 'wordpiece: lower case without accents, as BERT')
    alphabet: int = field(1000, 'wordpiece: characters that are no <unk>', minimum=1)
    reserved: int = field(training.RESERVED, 'special tokens for later use', minimum=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """The section `sample`: sizes in bytes of UTF-8."""

    bytes: int = field(200_000_000, 'of text to train on, at most', minimum=1)
    heldout_bytes: int = field(10_000_000, 'of text to measure on, at most', minimum=1)
    read_bytes: int = field(
        2_000_000_000, 'of the corpus that are read, at most; 0: all', minimum=0
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config of `jepa-text tokenizer`."""

    source: dict = field(
        doc='where text comes from, as prepare.source',
        folder='data/sources',
        given=('split',),
    )
    tokenizer: str = field(
        '',
        "one that exists: a tokenizer.json or its folder, 'hf:NAME[@REVISION]', a "
        "SentencePiece .model, a .tiktoken file or 'tiktoken:NAME'; '': one is trained",
    )
    pattern: str = field('', "a .tiktoken file's regular expression; '': by its name")
    train: Training = section(Training, 'where `tokenizer` is empty')
    sample: Sample = section(Sample, 'of the source, chosen by the hash of a text')
    compare: tuple[str, ...] = field((), 'others, measured on the same text')
    bad_documents: str = field(
        invalid_text.ERROR,
        "as prepare.bad_documents: 'skip' leaves out, and counts, what is no text",
        choices=(invalid_text.ERROR, invalid_text.SKIP),
    )


def run(config, workdir):
    """Makes the tokenizer of a config in the workdir, prints its report, and returns it.

    A workdir of the same settings is finished: its report is printed again. Raises
    FileExistsError for one of other settings or of something else, and ValueError for a
    config, a corpus or a tokenizer that cannot be used.
    """
    asked = schema.read(Config, schema.plain(config))
    with mirror.opened(workdir) as place:
        return _run(asked, place)


def _run(asked, place):
    folder = place.folder
    settings = json.loads(json.dumps(schema.as_dict(asked)))
    report = _finished(folder, settings)
    if report is None:
        others = {name: opened(name, asked.pattern) for name in asked.compare}
        with atomic.folder(folder) as partial:
            report = _make(asked, partial, folder, others) | {'settings': settings}
            text = json.dumps(report, indent=1, ensure_ascii=False) + '\n'
            atomic.write(partial / REPORT, text)
            tokenizer_pages.write(partial / PAGE, report)
            shutil.rmtree(partial / 'sample')
        place.begin()
    tokenizer_pages.show(report)
    print(f'{place.name}/{FILE}: written; the report is in {place.name}/{PAGE}')
    return report


def opened(name, pattern=''):
    """The Tokenizer of a name as the config has it, with the special tokens it has."""
    content, *_ = named_tokenizer.read(name, pattern)
    return tokenizers.parse(content, name, roles.ROLES)


def _finished(folder, settings):
    """The report of a finished workdir of these settings; None when there is none."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / REPORT).is_file() or not (folder / FILE).is_file():
        raise FileExistsError(
            f'{folder} exists and holds something other than a tokenizer. Name another '
            '--workdir, or move what is there out of the way.'
        )
    report = files.read_json(folder / REPORT)
    if report.get('settings') != settings:
        raise FileExistsError(
            f'{folder} holds a tokenizer of other settings (its {REPORT} has them). '
            'Name another --workdir, or delete this one to make it anew.'
        )
    return report


def _make(asked, partial, folder, others):
    """Writes tokenizer.json, and returns what a report says."""
    if asked.tokenizer:
        content, said, _ = named_tokenizer.read(asked.tokenizer, asked.pattern)
        content, done = roles.completed(content, asked.tokenizer)
        tokenizer, trained_on = tokenizers.parse(content, asked.tokenizer), None
        said = [*said, *done]
    else:
        trained_on, left_out = _sample(asked, partial, 'train', asked.sample.bytes)
        _check_sample(trained_on, asked, left_out)
        print(
            f'training on {trained_on.bytes:,} of {trained_on.read["bytes"]:,} bytes',
            flush=True,
        )
        tokenizer = training.train(trained_on, **dataclasses.asdict(asked.train))
        said = [*_of_training(tokenizer, trained_on, asked.train), *left_out]
    tokenizer.save(partial / FILE)
    text, what, left_out = _measured_on(asked, partial, trained_on)
    measured = {folder.name: tokenizer, **others}
    return {
        'said': [*said, *left_out],
        'trained_on': trained_on and trained_on.about(),
        'measured_on': {'what': what, **text.about()},
        'fingerprint': tokenizer.fingerprint,
        'tokenizers': {
            name: {
                'vocab_size': one.vocab_size,
                **measures.measure(one, text),
            }
            for name, one in measured.items()
        },
    }


def _measured_on(asked, partial, trained_on):
    """(the Sample that tokenizers are measured on, what it is, what was left out)."""
    heldout, left_out = _sample(asked, partial, 'heldout', asked.sample.heldout_bytes)
    if heldout.bytes >= min(FEW, asked.sample.heldout_bytes // 2):
        return heldout, 'held-out text', left_out
    few = f'as {heldout.bytes:,} bytes are held out'
    if trained_on is not None:
        return trained_on, f'the text that it was trained on ({few})', left_out
    text, left_out = _sample(asked, partial, 'train', asked.sample.bytes)
    _check_sample(text, asked, left_out)
    return text, f'text that is not held out ({few})', left_out


def _sample(asked, partial, split, size):
    """(the sampling.Sample of a split, lines of what is left out as no text)."""
    found = resolve.build('data/sources', asked.source, split=split)
    tally = works.Tally()
    leave = tally.leave_bad if asked.bad_documents == invalid_text.SKIP else None
    good = invalid_text.good(invalid_text.with_bad(found, asked.source['name']), leave)
    texts, folder = (document['text'] for document in good), partial / 'sample' / split
    sample = sampling.draw(texts, folder, size, asked.sample.read_bytes)
    return sample, rows_page.left_out(tally.as_dict())


def _check_sample(sample, asked, left_out):
    if not sample.documents:
        why = ''.join(f' {line}.' for line in left_out)
        raise ValueError(
            f'The corpus has no text to make a tokenizer of (source {asked.source}).{why}'
            ' Give a source with at least one document that is not blank.'
        )


def _of_training(tokenizer, sample, train):
    """What a reader must know of a training, one line each."""
    said = [
        f'trained {train.kind} on {sample.bytes:,} bytes, {sample.documents:,} documents'
    ]
    if sample.share < 1:
        said.append(f'a sample of {sample.share:.3g} of the documents, by their hash')
    if sample.cut:
        said.append(f'{sample.cut:,} long documents are in it with their beginning only')
    if not sample.is_all:
        said.append(
            f'the first {sample.read["bytes"]:,} bytes of the corpus were read, and no '
            'more (sample.read_bytes)'
        )
    if tokenizer.vocab_size < train.vocab_size:
        said.append(
            f'{tokenizer.vocab_size:,} entries, not {train.vocab_size:,}: the text has '
            'no more that occur often enough'
        )
    return said
