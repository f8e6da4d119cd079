"""A data set on Hugging Face's hub, by name, read as it comes, not downloaded first.

    config.prepare.source = dict(
        name='hub', path='hub:HuggingFaceFW/fineweb-edu/sample-100BT')

Its path is written as that of any set of the hub, with its config and revision
(data/sets/hub.py), so that a name means one set in tables, in mixtures and here.

The revision is looked up once and becomes a commit, which is in the address of every
file: hf://datasets/NAME@COMMIT/FILE. A plan of `prepare` holds these addresses, so all
that work on it, and whoever goes on with it later, read the same bytes, though the set
gets others meanwhile. A plan that is made anew of a newer commit is another plan, and
nothing of the two is mixed. The manifest tells the commit.
"""

import dataclasses
import functools

from jepa_text.data.corpora import corpus, reading
from jepa_text.data.sets import card, hub
from jepa_text.data.sources import csv, jsonl, parquet
from jepa_text.files import addresses, listing

# What the hub calls JSON is one object a line.
JSON = tuple(f'.json{end}' for end in reading.ENDS)
SUFFIXES = (*parquet.SUFFIXES, *jsonl.SUFFIXES, *JSON, *csv.SUFFIXES)


def make(split, path, field='text', splits=('train',), columns=(), heldout_every=100):
    """The documents of a split: the rows of the set's own `splits`, `text` from `field`.

    Of Parquet and tables, of other columns only `columns` are read. About one in
    `heldout_every` is held out, by its text (corpora/reading.py). Raises ValueError for a
    config or split that there is not, FileNotFoundError for such a set or revision, or
    when the hub must not be asked (HF_HUB_OFFLINE), PermissionError for a set whose terms
    must be accepted, ModuleNotFoundError without huggingface_hub, addresses.AddressError
    without a network; and, when read, as the sources csv, jsonl and parquet do.
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
    skipped = {listing.OTHER: listed.left} if listed.left else {}
    found = listing.Found(listed.top, files, skipped, listed.commit)
    read = functools.partial(_documents, field=field, columns=columns)
    return corpus.Corpus(found, read, split, heldout_every, _cut, _named)


@dataclasses.dataclass(frozen=True)
class _Listed:
    """{split: [addresses.File, ...]} at the address `top` of a commit; and the addresses
    of files that are of the set and cannot be read."""

    top: str
    commit: str
    splits: dict
    left: list


# Within a process a name means one commit, for all splits of a corpus.
@functools.cache
def _listed(path):
    name, _, revision = hub.parse(path)
    # A set that may not be read can be listed all the same.
    if _said(name, revision).gated:
        _asked(name, revision, lambda hf: hf.auth_check(name, repo_type='dataset'))
    return hub.locate(path, _files, SUFFIXES)


def _files(name, revision, patterns):
    """The _Listed of the files that patterns mean: {split, or None: [pattern, ...]}."""
    said = _said(name, revision)
    top, entries = f'hf://datasets/{said.id}@{said.sha}', {}
    for folder in {card.top_of(one) for some in patterns.values() for one in some}:
        for entry in _tree(name, said.sha, folder):
            # A folder has no size.
            if (size := getattr(entry, 'size', None)) is not None:
                address = f'{top}/{entry.path}'
                file = addresses.File(address, size, entry.blob_id)
                entries[entry.path] = file
    splits, left = card.sort(entries, patterns, SUFFIXES)
    splits = {split: [entries[one] for one in some] for split, some in splits.items()}
    return _Listed(top, said.sha, splits, [entries[one].path for one in left])


def _said(name, revision):
    """What the hub says of a set at a revision: `id`, `sha`, `gated`."""
    expand = ['sha', 'gated']
    return _asked(
        name, revision, lambda hf: hf.dataset_info(name, revision=revision, expand=expand)
    )


def _tree(name, commit, folder):
    """All that lies in a folder of a repository and below; [] if there is none."""
    from huggingface_hub import errors

    given = dict(revision=commit, recursive=True, repo_type='dataset')
    given |= {'path_in_repo': folder} if folder else {}
    try:
        return _asked(name, commit, lambda hf: list(hf.list_repo_tree(name, **given)))
    except errors.EntryNotFoundError:
        return []


def _asked(name, revision, call):
    """What `call(huggingface_hub.HfApi())` gives; again after a pause when the network
    failed."""
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
            # Not to be asked again, and told in words of its own.
            return error

    addresses.answered(where, hub.PREFIX, ask)
    with hub.explained(name, revision):
        answer = addresses.patiently(where, ask)
        if isinstance(answer, errors.OfflineModeIsEnabled):
            raise FileNotFoundError(
                f'{where} is read from the hub as it is needed, and HF_HUB_OFFLINE says '
                'not to ask it: unset that, or download the files and give their path '
                "to the source 'parquet', 'jsonl' or 'csv'."
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
        return corpus.cut_groups(file, size)
    if file.path.endswith(csv.SUFFIXES):
        return corpus.whole(file, size)
    return corpus.cut_lines(file, size)


def _named(piece, number):
    if piece.path.endswith(parquet.SUFFIXES):
        return piece.named_row(number)
    return piece.named(number)
