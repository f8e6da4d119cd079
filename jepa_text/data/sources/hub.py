"""Hugging Face Hub datasets as corpora, streamed from the hub without a download.

    config.prepare.source = dict(
        name='hub', path='hub:HuggingFaceFW/fineweb-edu/sample-100BT')

The path has the form of all hub datasets in this package (data/sets/hub.py), with config
and revision.

The revision is resolved to a commit once, which is part of the address of every file:
hf://datasets/NAME@COMMIT/FILE. A plan of `prepare` stores these addresses, so all
workers, and those that resume later, read the same bytes even if the dataset has changed.
A new plan made from a newer commit is a different plan, and their rows are never mixed.
The manifest records the commit.
"""

import dataclasses
import functools

from jepa_text.data.corpora import corpus, reading
from jepa_text.data.sets import card, hub
from jepa_text.data.sources import csv, jsonl, parquet
from jepa_text.files import addresses, listing

SUFFIXES = (*parquet.SUFFIXES, *jsonl.SUFFIXES, *jsonl.JSON, *csv.SUFFIXES)


def make(split, path, field='text', splits=('train',), columns=(), heldout_every=100):
    """Returns the documents of a split: rows of the dataset's `splits`, with `text` from
    `field`.

    Of Parquet and tables, only `columns` are read besides. About one row in
    `heldout_every` is held out, by its text (corpora/reading.py). Raises ValueError for
    an unknown config or split, FileNotFoundError for an unknown dataset or revision or if
    HF_HUB_OFFLINE is set, PermissionError if terms must be accepted first,
    ModuleNotFoundError without huggingface_hub, addresses.AddressError without a network;
    and when read, what the sources csv, jsonl and parquet raise.
    """
    reading.check_split(split, heldout_every)
    if isinstance(splits, str) or not splits:
        raise ValueError(f"splits={splits!r} must be a list such as ('train',).")
    listed = _listed(str(path))
    for name in splits:
        if name not in listed.splits:
            known = ', '.join(sorted(listed.splits))
            raise ValueError(f'{path} has no split {name!r}; it has: {known}.')
    files = tuple(file for name in dict.fromkeys(splits) for file in listed.splits[name])
    skipped = {listing.OTHER: listed.skipped} if listed.skipped else {}
    found = listing.Found(listed.top, files, skipped, listed.commit)
    read = functools.partial(_documents, field=field, columns=columns)
    options = {'cut': _cut, 'describe': _describe}
    return corpus.Corpus(found, read, split, heldout_every, **options)


@dataclasses.dataclass(frozen=True)
class _Listed:
    """{split: [addresses.File, ...]} at the address `top` of a commit, and the addresses
    of files of the dataset that cannot be read."""

    top: str
    commit: str
    splits: dict
    skipped: list


# Cached, so that within a process a name means the same commit for all splits.
@functools.cache
def _listed(path):
    name, _, revision = hub.parse(path)
    # A gated dataset can be listed without permission to read it.
    if _info(name, revision).gated:
        _request(name, revision, lambda hf: hf.auth_check(name, repo_type='dataset'))
    return hub.locate(path, _files, SUFFIXES)


def _files(name, revision, patterns):
    """The _Listed of the files that match {split, or None: [pattern, ...]}."""
    info = _info(name, revision)
    top, entries = f'hf://datasets/{info.id}@{info.sha}', {}
    globs = [glob for globs in patterns.values() for glob in globs]
    for folder in {card.top_of(glob) for glob in globs}:
        for entry in _tree(name, info.sha, folder):
            # Folders have no size.
            if (size := getattr(entry, 'size', None)) is not None:
                address = f'{top}/{entry.path}'
                file = addresses.File(address, size, entry.blob_id)
                entries[entry.path] = file
    splits, skipped = card.sort(entries, patterns, SUFFIXES)
    files = {split: [entries[name] for name in some] for split, some in splits.items()}
    return _Listed(top, info.sha, files, [entries[name].path for name in skipped])


def _info(name, revision):
    """The hub's `id`, `sha` and `gated` of a dataset at a revision."""
    expand = ['sha', 'gated']
    return _request(
        name, revision, lambda hf: hf.dataset_info(name, revision=revision, expand=expand)
    )


def _tree(name, commit, folder):
    """All entries below a folder of a repository; [] if it does not exist."""
    from huggingface_hub import errors

    options = dict(revision=commit, recursive=True, repo_type='dataset')
    options |= {'path_in_repo': folder} if folder else {}
    try:
        return _request(name, commit, lambda hf: list(hf.list_repo_tree(name, **options)))
    except errors.EntryNotFoundError:
        return []


def _request(name, revision, call):
    """Returns `call(huggingface_hub.HfApi())`, retried if the network fails."""
    client, where = hub.client(name).HfApi(), f'{hub.PREFIX}{name}'
    from huggingface_hub import errors

    final = (
        errors.RepositoryNotFoundError,
        errors.RevisionNotFoundError,
        errors.EntryNotFoundError,
        errors.HFValidationError,
        errors.OfflineModeIsEnabled,
    )

    def ask():
        try:
            return call(client)
        except final as error:
            # Returned, so that it is not retried.
            return error

    addresses.check_reachable(where, hub.PREFIX, ask)
    with hub.clear_errors(name, revision):
        answer = addresses.with_retries(where, ask)
        if isinstance(answer, errors.OfflineModeIsEnabled):
            raise FileNotFoundError(
                f'{where} is read from the hub on demand, but HF_HUB_OFFLINE is set: '
                'unset it, or download the files and give their path to the source '
                "'parquet', 'jsonl' or 'csv'."
            ) from answer
        if isinstance(answer, Exception):
            raise answer
    return answer


def _documents(piece, field, columns):
    if piece.path.endswith(parquet.SUFFIXES):
        return parquet.documents(piece, field, columns)
    if piece.path.endswith(csv.SUFFIXES):
        return csv.documents(piece, field, columns)
    return jsonl.documents(piece, field)


def _cut(file, size):
    if file.path.endswith(parquet.SUFFIXES):
        return parquet.cut(file, size)
    if file.path.endswith(csv.SUFFIXES):
        return corpus.whole(file, size)
    return jsonl.cut(file, size)


def _describe(piece, number):
    if piece.path.endswith(parquet.SUFFIXES):
        return piece.describe_row(number)
    return piece.describe(number)
