"""Reading of prepared rows by index, and checks that they fit the config.

section.py has the config, mixture.py the order of rows, stream.py makes batches.
"""

import bisect
import errno
import hashlib
import itertools
import json
import operator
from fractions import Fraction

from array_record.python.array_record_data_source import ArrayRecordDataSource

from jepa_text.data import mixture as mixtures
from jepa_text.data import section
from jepa_text.data.rows import row_folder
from jepa_text.files import streams
from jepa_text.settings import resolve, schema


def open_parts(data):
    """Opens the training rows of a section `data`, and returns them as mixture.Part.

    Raises ValueError for rows of another length than the section's, and for rows given
    twice, and what opening a folder raises.
    """
    parts = []
    for folder, weight, name in section.folders(data):
        rows = Rows(folder, 'train')
        if rows.row_length != data['row_length']:
            raise ValueError(
                f'The rows in {folder} have {rows.row_length} tokens, but the config has '
                f'{data["row_length"]}. Set config.data.row_length={rows.row_length}, or '
                f'prepare rows of {data["row_length"]} in another folder.'
            )
        for other in parts:
            if other.rows.fingerprint == rows.fingerprint:
                raise ValueError(
                    f'data.mixture: {other.rows.folder} and {rows.folder} have the same '
                    'rows: name them once, with the sum of their weights.'
                )
        # Exactly as written: 0.7 is seven tenths, not the nearest binary fraction.
        weight = Fraction(str(weight))
        parts.append(mixtures.Part(name=name, rows=rows, weight=weight))
    return parts


def check_names(parts):
    """Raises ValueError if parts share a name."""
    for one, other in itertools.combinations(parts, 2):
        if one.name == other.name:
            raise ValueError(
                f'The rows in {one.rows.folder} and {other.rows.folder} have the same '
                f'name {one.name!r} in metrics: name one of them, as dict(folder=..., '
                'name=...) in a mixture.'
            )


class Rows:
    """The rows of one split of a prepared folder, read by index.

    `rows[i]` is a dict of tokens, segment_ids (from 1; 0 is padding) and positions, int32
    [L] each. Opening checks the manifest and the sizes of the files; `verify(folder)`
    checks their contents. Rows at an address are copied to this machine first
    (row_folder.fetch). Raises FileNotFoundError without a manifest, ValueError for an
    unknown split or a damaged folder.
    """

    def __init__(self, folder, split):
        self.folder, self.split = row_folder.fetch(folder), split
        self.manifest = row_folder.read_manifest(self.folder)
        if split not in self.manifest['splits']:
            known = self.manifest['splits']
            raise ValueError(
                f'{folder} has no split {split!r}.{resolve.nearest(str(split), known)} '
                'Prepare rows with it (prepare.splits) in another folder. Training needs '
                'no held-out rows with evaluate.every_steps=0 and geometry.every_steps=0.'
            )
        row_folder.check_sizes(self.folder, self.manifest, [split])
        self.row_length = self.manifest['row_length']
        # Per row; missing in the manifests of older versions.
        self.max_documents = self.manifest['splits'][split].get('max_documents')
        entries = self.manifest['splits'][split]['files']
        self._paths = [str(self.folder / entry['name']) for entry in entries]
        self._ends = list(itertools.accumulate(entry['rows'] for entry in entries))
        self._records = self._open()
        identity = [entry['sha256'] for entry in entries]
        identity += [
            self.manifest[key] for key in ('tokenizer_fingerprint', 'row_length')
        ]
        self.fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _open(self):
        streams.allow_open(len(self._paths))  # as each stays open once it is read
        try:
            records = ArrayRecordDataSource(self._paths)
            if len(records) == len(self):
                return records
            problem = f'they have {len(records)} rows, the manifest says {len(self)}'
        except RuntimeError as error:
            problem = error
        row_folder.check_sums(self.folder, self.manifest)
        raise ValueError(
            f'{self.folder}: the shards of {self.split!r} are damaged ({problem}). '
            f'{row_folder.REMEDY}'
        )

    def __len__(self):
        return self._ends[-1]

    def __getitem__(self, index):
        index = range(len(self))[operator.index(index)]
        try:
            return row_folder.from_record(
                self._records[index],
                self.row_length,
                self.manifest['dtype'],
                self.manifest['vocab_size'],
            )
        except (RuntimeError, ValueError) as error:
            path = self._paths[bisect.bisect_right(self._ends, index)]
            if 'Too many open files' in str(error):
                raise OSError(
                    errno.EMFILE,
                    f'All {len(self._paths):,} shards of {self.split!r} stay open, which '
                    'are more files than a process may open here: raise the hard limit '
                    '(ulimit -Hn), or prepare the rows again with fewer shards',
                    path,
                ) from error
            raise ValueError(
                f'Row {index} cannot be read: the shard {path} is damaged ({error}). '
                f'{row_folder.REMEDY}'
            ) from error


def verify(folder):
    """Reads all files of a prepared folder and compares them with their checksums.

    Returns the manifest. Raises ValueError naming the first file that differs. Of rows at
    an address, the copy on this machine is read.
    """
    folder = row_folder.fetch(folder)
    manifest = row_folder.read_manifest(folder)
    row_folder.check_sums(folder, manifest)
    return manifest


def changed_settings(config, folder):
    """Returns a message for each setting of a config's section `prepare` that differs
    from that of the rows in a folder. Absent and empty keys of the source are not
    compared; tokenizers are, by their names."""
    folder = row_folder.fetch(folder, shards=False)
    manifest = row_folder.read_manifest(folder)
    config = schema.resolved(section.Prepare, config, 'prepare')
    before, now = _flat(manifest['settings']), _flat(json.loads(json.dumps(config)))
    before['tokenizer'] = (manifest.get('tokenizer') or {}).get('name')
    if now.get('tokenizer') == 'init_from' or before['tokenizer'] is None:
        now.pop('tokenizer', None)
    return [
        f'{key} was {before.get(key)!r} and is now {value!r}'
        for key, value in now.items()
        if value != before.get(key)
        and not (key.startswith('source.') and value in ('', None))
    ]


def _flat(settings):
    """Settings of `prepare` with dotted keys, including the defaults of `clean`, without
    the engine, which does not affect the output."""
    clean = json.loads(json.dumps(schema.as_dict(section.Clean())))
    settings = {**settings, 'clean': clean | (settings.get('clean') or {})}
    settings.pop('engine', None)
    nested = {key: settings.pop(key, None) or {} for key in ('source', 'clean')}
    for name, values in nested.items():
        settings |= {f'{name}.{key}': value for key, value in values.items()}
    return settings


def check_tokenizer(manifest, tokenizer, folder):
    """Raises ValueError if the rows were made with another tokenizer."""
    if tokenizer.fingerprint != manifest['tokenizer_fingerprint']:
        raise ValueError(
            f'The rows in {folder} were made with another tokenizer: theirs has the '
            f'fingerprint {manifest["tokenizer_fingerprint"][:16]}... and '
            f'{manifest["vocab_size"]} entries, this one '
            f'{tokenizer.fingerprint[:16]}... and {tokenizer.vocab_size}. Use the '
            'tokenizer.json in the folder of the rows, or prepare the rows again.'
        )
