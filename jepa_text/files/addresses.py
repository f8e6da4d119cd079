"""Remote addresses such as gs://bucket/texts or https://host/a.txt, opened with fsspec.

Each protocol needs its own package, which is installed by an extra of this package with
the protocol's name. Credentials and endpoints are configured as these packages expect:
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS,
STORAGE_EMULATOR_HOST, HF_TOKEN, ...
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
# Protocols that can list folders and write files, so that they can store a run or model.
STORES = ('gs', 'gcs', 's3', 's3a', 'file', 'memory')
RETRIES = 6  # in a row, without receiving a byte in between
PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds; each pause is twice the previous one
# Retrying these would give the same result.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
# Keys of fsspec's file info that change with the content, the most reliable first.
_VERSIONS = ('ETag', 'etag', 'generation', 'blob_id', 'Last-Modified', 'mtime', 'created')

_COMMIT = re.compile('hf://[^@]+@[0-9a-f]{40}/')


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
    """An address could not be read: network failure, or an error from the server."""


class ChangedError(AddressError):
    """A file changed while it was read."""


def is_address(path):
    """Returns whether a path has a protocol, as s3://bucket/x.

    Also recognizes s3:/bucket/x, which pathlib makes of it.
    """
    if not isinstance(path, str | os.PathLike):
        return False
    text = os.fspath(path)
    return '://' in text or bool(paths.SCHEME.match(text))


def location(what, path, model=False):
    """Returns a local path, or an address of one of STORES, as text.

    With `model`, also accepts 'hf:' in front of either. `what` names the value in errors.
    Raises ValueError for any other address, and as `paths.local` and `check` do. Sends no
    requests.
    """
    has_prefix = model and isinstance(path, str) and path.startswith(paths.MODEL)
    if not is_address(path.removeprefix(paths.MODEL) if has_prefix else path):
        return paths.local(what, path, model)
    text = os.fspath(path)
    address = text.removeprefix(paths.MODEL) if has_prefix else text
    protocol, separator, _ = address.partition('://')
    if separator and protocol not in STORES:
        raise ValueError(
            f'{what}={text!r} is an address with unsupported protocol {protocol}://. '
            'Give a local folder or an address on gs:// or s3://.'
        )
    check(address)
    return text


def is_fixed(address):
    """Returns whether an address names a commit, so that its content never changes."""
    return bool(_COMMIT.match(os.fspath(address)))


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
    with _explained(text):
        fsspec.get_filesystem_class(protocol)


def filesystem(address, was_found=False):
    """Returns (fsspec file system, path in it) of an address.

    The first call for a server checks that it responds, unless another process has
    already found the file (`was_found`). Raises AddressError if the server does not
    respond within reachability.WITHIN seconds, and as `check` does.
    """
    import fsspec

    check(address)
    text = os.fspath(address)
    protocol, _, rest = text.partition('://')
    server = protocol, rest.split('/')[0]
    if was_found:
        reachability.mark_reachable(server)

    def request():
        system, path = fsspec.core.url_to_fs(text)
        system.info(path)

    if protocol in PACKAGES:
        check_reachable(text, server, request)
    with _explained(text):
        return fsspec.core.url_to_fs(text)


def check_reachable(address, server, request):
    """Sends a request to a server unless it has already responded in this process.

    Raises AddressError if there is no response within reachability.WITHIN seconds.
    """
    if reachability.is_reachable(server):
        return
    try:
        reachability.check(server, request, functools.partial(_network_error, address))
    except TimeoutError as error:
        raise AddressError(
            f'{address} cannot be reached: {error}. Check the address, the network of '
            'this machine (proxy, firewall) and the environment variables for endpoints '
            'and credentials, and run the same command again.'
        ) from error


@contextlib.contextmanager
def _explained(text):
    """Adds a remedy to fsspec's errors about protocols and packages."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f'{text!r} has an unsupported protocol ({error}). Use one of '
            f'{", ".join(sorted(PACKAGES))}, or copy the files to this machine.'
        ) from error
    except ImportError as error:
        package, extra = PACKAGES.get(text.partition('://')[0], (None, None))
        remedy = f"pip install 'jepa-text[{extra}]'" if extra else str(error)
        raise ModuleNotFoundError(
            f'Reading {text} requires {package or "a missing package"}: {remedy}.'
        ) from error


def stat(address):
    """Returns the File at an address, or None for a folder.

    Raises FileNotFoundError, PermissionError, or AddressError if the server can't be
    reached.
    """
    system, path = filesystem(address)

    def request():
        system.invalidate_cache()
        return system.info(path)

    info = with_retries(address, request)
    return None if info['type'] == 'directory' else file_from_info(address, info)


def file_from_info(address, info):
    """Returns the File that fsspec's info describes."""
    version = next((info[key] for key in _VERSIONS if info.get(key)), None)
    # A listing may give a time as a number where the file's own info gives a datetime.
    version = version.timestamp() if hasattr(version, 'timestamp') else version
    return File(
        os.fspath(address), info.get('size'), None if version is None else str(version)
    )


def with_retries(address, call, sleep=time.sleep):
    """Returns `call()`, repeating it after a pause if the network fails.

    Pauses double, by `sleep`. Raises FileNotFoundError, PermissionError, or AddressError
    for an error of the server or after RETRIES retries.
    """
    attempt = 0
    while True:
        try:
            return call()
        except Exception as raised:
            # Clients raise many types; errors of other origin are raised unchanged.
            error = client_errors.root_cause(raised)
            is_of_client = client_errors.is_client_error(error)
            if isinstance(error, AddressError) or not is_of_client:
                raise
            final = _final_error(address, error)
            if final or attempt == RETRIES:
                raise final or _retries_exhausted(address, error) from error
        sleep(min(LONGEST_PAUSE, PAUSE * 2**attempt))
        attempt += 1


def _network_error(address, raised):
    """Returns the error if the network gave no response; None for any other error."""
    error = client_errors.root_cause(raised)
    if not client_errors.is_client_error(error) or client_errors.is_response(error):
        return None
    return None if _final_error(address, error) else error


def _final_error(address, error):
    """Returns the error to raise if a retry would not help, else None."""
    status = client_errors.http_status(error)
    message = f'{type(error).__name__}: {error}'
    # The Hub responds with 401 for nonexistent and for private repositories.
    unknown = type(error).__name__ in ('RepositoryNotFoundError', 'RevisionNotFoundError')
    if isinstance(error, FileNotFoundError) or unknown or status in (404, 410):
        return FileNotFoundError(f'{address} does not exist ({message}).')
    if denied := permission_error(address, error):
        return denied
    if isinstance(error, _FINAL) or (400 <= status < 500 and status not in (408, 429)):
        return AddressError(f'{address} cannot be read ({message}).')
    return None


def permission_error(address, error):
    """Returns a PermissionError if credentials are missing or insufficient, else None."""
    if not client_errors.is_access_denied(error):
        return None
    return PermissionError(
        f'Access to {address} is denied with the credentials of this machine '
        f'({type(error).__name__}: {error}). {client_errors.login_hint(address)}'
    )


def _retries_exhausted(address, error):
    return AddressError(
        f'{address} could not be read in {RETRIES + 1} consecutive attempts. Last error: '
        f'{type(error).__name__}: {error}. Check the network, and run the same command '
        'again.'
    )
