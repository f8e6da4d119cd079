"""Remote addresses such as gs://bucket/texts or https://host/a.txt, by fsspec.

Each protocol needs its own package, which is installed by an extra of this package with
the protocol's name. Credentials and endpoints are configured as these packages expect:
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS,
STORAGE_EMULATOR_HOST, HF_TOKEN, ...
"""

import dataclasses
import functools
import os
import re
import time
from pathlib import Path

from jepa_text.files import extras, paths

GS = 'gcsfs', 'gs', '`gcloud auth application-default login`, FSSPEC_GS_TOKEN=anon'
S3 = 's3fs', 's3', 'AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, FSSPEC_S3_ANON=true'
HF = (
    'huggingface_hub',
    'hf',
    'accept the terms on its page, if any, `hf auth login`, or set HF_TOKEN',
)
WEB = 'aiohttp', 'https', 'ask its owner'
# protocol: (package, extra, how to get access)
PACKAGES = {'gs': GS, 'gcs': GS, 's3': S3, 's3a': S3, 'hf': HF, 'http': WEB, 'https': WEB}
# Protocols that can list folders and write files, so that they can store a run or model;
# without gcs, the other name of gs, which Orbax does not know.
STORES = ('gs', 's3', 's3a', 'file', 'memory')
# Seconds between the attempts of a request, for the beginnings of addresses whose clients
# do not repeat all requests by themselves.
PAUSES, REPEATED = (0.5, 1.0, 2.0, 4.0, 8.0), ('http', 'hf:')
# Keys of fsspec's file info that change with the content, the most reliable first.
_VERSIONS = ('ETag', 'etag', 'generation', 'blob_id', 'Last-Modified', 'mtime', 'created')
# An address that names a commit: its content never changes.
_COMMIT = re.compile('hf://[^@]+@[0-9a-f]{40}/')
# Parts of the names of errors about missing and expired credentials.
_CREDENTIALS = re.compile('Credential|SSOToken|ExpiredToken|InvalidToken|RefreshError')


@dataclasses.dataclass(frozen=True, order=True)
class File:
    """A file at the time it was listed.

    path       a local path or an address
    size       in bytes; None if the server does not report it
    version    changes when the content at an address changes; None if unknown
    """

    path: str
    size: int | None = None
    version: str | None = None

    def __str__(self):
        return self.path


class AddressError(OSError):
    """An address could not be read: a network failure, or its content changed."""


def is_address(path):
    """Returns whether a path has a protocol, as s3://bucket/x.

    Also recognizes s3:/bucket/x, which pathlib makes of it.
    """
    if not isinstance(path, str | os.PathLike):
        return False
    text = os.fspath(path)
    return '://' in text or bool(paths.SCHEME.match(text))


def ends_in(path, suffixes):
    """Returns whether the name of a file ends in a suffix, ignoring case; that of a web
    address ends before its query.

    >>> ends_in('https://host/a.JSONL.gz?download=true', ('.zst', '.gz'))
    True
    """
    name = str(path)
    if name.startswith(('http://', 'https://')):
        name = name.partition('?')[0]
    return name.lower().endswith(suffixes)


def location(what, path, model=False):
    """Returns a local path, or an address of one of STORES, as text.

    With `model`, also accepts 'hf:' in front of either. `what` names the value in errors.
    Raises ValueError for any other address, and as `paths.local` and `check` do. Sends no
    requests.
    """
    if model and re.match(f'{paths.MODEL}(?!//)', str(path)):
        return paths.MODEL + location(what, str(path).removeprefix(paths.MODEL))
    if not is_address(path):
        return paths.local(what, path)
    text = os.fspath(path)
    protocol, separator, _ = text.partition('://')
    if separator and protocol not in STORES:
        raise ValueError(
            f'{what}={text!r} is an address with unsupported protocol {protocol}://. '
            'Give a local folder or an address on gs:// or s3://.'
        )
    check(text)
    return text


def check(address):
    """Checks the syntax and the protocol of an address. Sends no requests.

    Raises ValueError for an unknown protocol or a malformed address, and
    ModuleNotFoundError, with the pip command, if the protocol's package is missing.
    """
    import fsspec

    text = os.fspath(address)
    protocol, colon, rest = text.partition('://')
    if '::' in text or not colon or not rest:
        raise ValueError(
            f'{text!r} is not a valid address. Expected a protocol, :// and a location, '
            'as in s3://bucket/folder. (pathlib.Path removes one of the two slashes.)'
        )
    try:
        fsspec.get_filesystem_class(protocol)
    except (ValueError, ImportError) as error:
        if protocol in PACKAGES:
            module, extra, _ = PACKAGES[protocol]
            extras.package(module, extra, f'Reading {text}')
        raise ValueError(
            f'{text!r} has an unsupported protocol ({error}). Use one of '
            f'{", ".join(sorted(PACKAGES))}, or copy the files to this machine.'
        ) from error


def filesystem(address):
    """Returns (fsspec file system, path in it) of an address. Raises as `check` does."""
    import fsspec

    check(address)
    return fsspec.core.url_to_fs(os.fspath(address))


def stat(address):
    """Returns the File at an address, or None for a folder.

    Raises FileNotFoundError, PermissionError, or AddressError if the server can't be
    reached.
    """
    system, path = filesystem(address)

    def request():
        if not _COMMIT.match(os.fspath(address)):
            system.invalidate_cache()
        return system.info(path)

    info = with_retries(address, request)
    return None if info['type'] == 'directory' else _file(os.fspath(address), info)


def _file(address, info):
    version = next((info[key] for key in _VERSIONS if info.get(key)), None)
    # A listing may give a time as a number where the file's own info gives a datetime.
    version = version.timestamp() if hasattr(version, 'timestamp') else version
    return File(address, info.get('size'), None if version is None else str(version))


def find(address, is_pattern=False):
    """Returns the Files below an address, or those that match it as a pattern; [] if
    nothing exists there."""
    system, path = filesystem(address)

    def request():
        system.invalidate_cache()
        return (system.glob if is_pattern else system.find)(path, detail=True)

    # Names in a file system lack the start of the address.
    start = os.fspath(address).rstrip('/').removesuffix(path.rstrip('/'))
    infos = with_retries(address, request)
    return [
        _file(start + name, info)
        for name, info in infos.items()
        # 'other' is a link, as in caches of the Hub; the consoles of stores show a folder
        # by an empty object whose name ends in /.
        if info['type'] != 'directory' and not name.endswith('/')
    ]


def list_files(address):
    """Returns {path below the address: File}; {} if nothing exists there."""
    top = f'{os.fspath(address).rstrip("/")}/'
    return {file.path.removeprefix(top): file for file in find(address)}


def upload_folder(folder, address, last=None):
    """Uploads a folder to an address; the files named `last` after all others, as a mark
    that all are there."""
    system, top = filesystem(address)
    entries = [Path(folder), *sorted(Path(folder).rglob('*'))]
    for is_last in (False, True):
        names = [str(path) for path in entries if (path.name == last) == is_last]
        places = [name.replace(str(entries[0]), top, 1) for name in names]
        if names:
            with_retries(address, functools.partial(system.put, names, places))


def check_free(address):
    """Raises FileExistsError if a file exists at an address or below it."""
    if list_files(address):
        raise FileExistsError(
            f'{address} already exists and is not overwritten: give another address, or '
            'delete it first.'
        )


def with_retries(address, call):
    """Returns `call()`, repeated after PAUSES if it fails and the address is REPEATED.

    Raises FileNotFoundError, PermissionError, or AddressError after the last attempt.
    """
    pauses = PAUSES if os.fspath(address).startswith(REPEATED) else ()
    for pause in (*pauses, None):
        try:
            return call()
        except Exception as raised:
            error = _cause(raised)
            if final := final_error(address, error):
                raise final from error
            if pause is None:
                raise AddressError(
                    f'{address} could not be read or written. Last error: '
                    f'{type(error).__name__}: {error}. Check the address, the network '
                    '(proxy, firewall) and the environment variables for endpoints and '
                    'credentials, and run the same command again.'
                ) from error
        time.sleep(pause)
    return None


def final_error(address, error):
    """Returns a FileNotFoundError or PermissionError that explains the error of a client
    with its remedy; None for another error, after which a retry may help."""
    # s3fs makes errors of others, which have the response.
    both = [_facts(one) for one in (error, error.__cause__)]
    statuses, names = {status for status, _ in both}, ' '.join(name for _, name in both)
    # The Hub's response is 401 for what does not exist.
    is_unknown = re.search('RepositoryNotFound|RevisionNotFound', names)
    if isinstance(error, FileNotFoundError) or is_unknown or 404 in statuses:
        return FileNotFoundError(f'{address} does not exist ({error}).')
    is_denied = isinstance(error, PermissionError) or statuses & {401, 403}
    if is_denied or _CREDENTIALS.search(names):
        protocol = os.fspath(address).partition(':')[0]
        *_, access = PACKAGES.get(protocol, HF if protocol == 'hub' else WEB)
        return PermissionError(
            f'Access to {address} is denied with the credentials of this machine '
            f'({type(error).__name__}: {error}). To get access: {access}.'
        )
    return None


def _cause(error):
    """The error that fsspec hides behind FileNotFoundError, as http(s) does for any."""
    cause = error.__cause__
    is_plain = cause is None or isinstance(cause, LookupError)
    return cause if isinstance(error, FileNotFoundError) and not is_plain else error


def _facts(error):
    """(HTTP status in an error of a client, or 0; its name and its code in S3)."""
    name = type(error).__name__
    # gcsfs raises a plain OSError for 403.
    if type(error) is OSError and str(error).startswith('Forbidden: '):
        return 403, name
    response = getattr(error, 'response', None)
    if isinstance(response, dict):  # botocore
        status = response.get('ResponseMetadata', {}).get('HTTPStatusCode', 0)
        return status, f'{name} {response.get("Error", {}).get("Code", "")}'
    places = (response, 'status_code'), (error, 'status'), (error, 'code')
    values = (getattr(*place, None) for place in places)
    return next((int(value) for value in values if str(value).isdigit()), 0), name
