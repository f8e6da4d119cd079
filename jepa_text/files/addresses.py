"""Files at an address, as gs://bucket/texts or https://host/a.txt, or on this machine.

fsspec knows the protocols, and each wants a package, which is an extra of this one by the
protocol's name. Keys and endpoints are those of these packages: AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, STORAGE_EMULATOR_HOST, HF_TOKEN, ...
"""

import contextlib
import dataclasses
import functools
import os
import re
import time

from jepa_text.files import client_errors, paths, reachability

# protocol: (package, extra)
PACKAGES = {
    'gs': ('gcsfs', 'gs'),
    'gcs': ('gcsfs', 'gs'),
    's3': ('s3fs', 's3'),
    's3a': ('s3fs', 's3'),
    'hf': ('huggingface_hub', 'hf'),
    'http': ('aiohttp', 'https'),
    'https': ('aiohttp', 'https'),
}
# Where folders are listed and files written: what can hold a run or a model.
STORES = ('gs', 'gcs', 's3', 's3a', 'file', 'memory')
RETRIES = 6  # in a row, without a byte between them
PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds; each is twice the one before
# Another attempt gives the same answer.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
# What says when a file's content has changed, the best first, as protocols call it.
_VERSIONS = ('ETag', 'etag', 'generation', 'blob_id', 'Last-Modified', 'mtime', 'created')

_COMMIT = re.compile('hf://[^@]+@[0-9a-f]{40}/')


@dataclasses.dataclass(frozen=True, order=True)
class File:
    """A file as it was found.

    path       on this machine, or an address
    size       in bytes; None where a server does not say
    version    changes when the content at an address does; None where nothing says
    """

    path: str
    size: int | None = None
    version: str | None = None

    def __str__(self):
        return self.path


class AddressError(OSError):
    """What is at an address could not be read, for want of a network or an answer."""


class ChangedError(AddressError):
    """A file became another while it was read."""


def is_address(path):
    """Does it name a protocol, as s3://bucket/x? Also s3:/bucket/x, which pathlib makes
    of it."""
    if not isinstance(path, str | os.PathLike):
        return False
    text = os.fspath(path)
    return '://' in text or bool(paths.SCHEME.match(text))


def place(what, path, model=False):
    """`paths.local`, or an address where folders can be listed and written, also after
    the 'hf:' of a `model`: as text. Raises ValueError for another one, and as
    `check`. Asks nobody.
    """
    named = model and isinstance(path, str) and path.startswith(paths.MODEL)
    if not is_address(path.removeprefix(paths.MODEL) if named else path):
        return paths.local(what, path, model)
    text = os.fspath(path)
    address = text.removeprefix(paths.MODEL) if named else text
    protocol, cut, _ = address.partition('://')
    if cut and protocol not in STORES:
        raise ValueError(
            f'{what}={text!r} is an address of another kind than is wanted: give a '
            'folder of this machine, or a place on gs:// or s3://.'
        )
    check(address)
    return text


def is_fixed(address):
    """Does it name a commit, so that what is there can never become something else?"""
    return bool(_COMMIT.match(os.fspath(address)))


def check(address):
    """Raises ValueError for a protocol that nobody knows and an address that pathlib cut,
    ModuleNotFoundError with the pip command where its package is missing. Asks nobody."""
    import fsspec

    text = os.fspath(address)
    protocol, colon, rest = text.partition('://')
    if '::' in text or not colon or not rest:
        raise ValueError(
            f'{text!r} is no address that can be read: it must be a protocol, :// and a '
            'place, as in s3://bucket/folder; a pathlib.Path cuts a slash off.'
        )
    with _explained(text):
        fsspec.get_filesystem_class(protocol)


def filesystem(address, was_found=False):
    """(fsspec's file system, the path in it) of an address.

    Unless the file `was_found` by another process, its server must answer, once in a
    process: AddressError where it does not within reachability.WITHIN seconds. Raises
    as `check` does.
    """
    import fsspec

    check(address)
    text = os.fspath(address)
    protocol, _, rest = text.partition('://')
    server = protocol, rest.split('/')[0]
    if was_found:
        reachability.know(server)

    def ask():
        system, path = fsspec.core.url_to_fs(text)
        system.info(path)

    if protocol in PACKAGES:
        answered(text, server, ask)
    with _explained(text):
        return fsspec.core.url_to_fs(text)


def answered(address, server, ask):
    """Asks a server, unless it has answered in this process before; AddressError where no
    answer comes within reachability.WITHIN seconds."""
    if reachability.is_known(server):
        return
    try:
        reachability.check(server, ask, functools.partial(_unanswered, address))
    except TimeoutError as error:
        raise AddressError(
            f'{address} cannot be reached: {error}. Look after the name, the network of '
            'this machine (proxy, firewall) and the variables that name a server or '
            'keys, and run the same command again.'
        ) from error


@contextlib.contextmanager
def _explained(text):
    """What fsspec says of an address that it cannot read, in words."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f'{text!r} is of no protocol that can be read ({error}). Take one of '
            f'{", ".join(sorted(PACKAGES))}, or copy the files to this machine.'
        ) from error
    except ImportError as error:
        package, extra = PACKAGES.get(text.partition('://')[0], (None, None))
        remedy = f"pip install 'jepa-text[{extra}]'" if extra else str(error)
        raise ModuleNotFoundError(
            f'To read {text}, {package or "a package"} is needed: {remedy}.'
        ) from error


def stated(address):
    """The File at an address as it is now, or None for a folder.

    Raises FileNotFoundError, PermissionError, and AddressError when the server can't be
    reached.
    """
    system, path = filesystem(address)

    def ask():
        system.invalidate_cache()
        return system.info(path)

    info = patiently(address, ask)
    return None if info['type'] == 'directory' else described(address, info)


def described(address, info):
    """The File of what fsspec says of it."""
    said = next((info[key] for key in _VERSIONS if info.get(key)), None)
    # A listing may tell a time as a number, of which a file itself tells the date.
    said = said.timestamp() if hasattr(said, 'timestamp') else said
    version = None if said is None else str(said)
    return File(os.fspath(address), info.get('size'), version)


def patiently(address, call, stop=time.sleep):
    """What `call()` returns; again after a pause when the network failed.

    Pauses double, with `stop`. Raises the last error, in words: FileNotFoundError,
    PermissionError, or AddressError after RETRIES.
    """
    attempt = 0
    while True:
        try:
            return call()
        except Exception as raised:
            # Any client's errors pass here, and what is none of theirs goes on as it is.
            error = client_errors.first_of(raised)
            if isinstance(error, AddressError) or not client_errors.is_theirs(error):
                raise
            refused = _refused(address, error)
            if refused or attempt == RETRIES:
                raise refused or _given_up(address, error) from error
        stop(min(LONGEST_PAUSE, PAUSE * 2**attempt))
        attempt += 1


def _unanswered(address, raised):
    """The error of a network that brought no answer; None for any other one."""
    error = client_errors.first_of(raised)
    known = not client_errors.is_theirs(error) or client_errors.is_answer(error)
    return None if known or _refused(address, error) else error


def _refused(address, error):
    """The error in words, where another attempt makes no sense; else None."""
    status = client_errors.status(error)
    said = f'{type(error).__name__}: {error}'
    # The hub answers 401 for a name that does not exist and for one that is private.
    unknown = type(error).__name__ in ('RepositoryNotFoundError', 'RevisionNotFoundError')
    if isinstance(error, FileNotFoundError) or unknown or status in (404, 410):
        return FileNotFoundError(f'There is nothing at {address} ({said}).')
    if refused := barred(address, error):
        return refused
    if isinstance(error, _FINAL) or (400 <= status < 500 and status not in (408, 429)):
        return AddressError(f'{address} cannot be read ({said}).')
    return None


def barred(address, error):
    """The error in words, where keys are missing or do not open; else None."""
    if not client_errors.is_barred(error):
        return None
    return PermissionError(
        f'{address} does not open to the keys of this machine ({type(error).__name__}: '
        f'{error}). {client_errors.login(address)}'
    )


def _given_up(address, error):
    return AddressError(
        f'{address} could not be read in {RETRIES + 1} attempts in a row; the last one: '
        f'{type(error).__name__}: {error}. Look after the network, and run the same '
        'command again.'
    )
