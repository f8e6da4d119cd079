"""Classification of errors raised by fsspec's clients (gcsfs, s3fs, aiohttp, httpx).

Each client reports the response of a server in its own way.
"""

# Packages whose errors need not be an OSError.
_CLIENTS = (
    'aiohttp',
    'aiobotocore',
    'botocore',
    'gcsfs',
    'google',
    'httpcore',
    'httpx',
    'httpx2',
)
# Parts of error names, and of S3 error codes, for missing or expired credentials.
_CREDENTIALS = (
    'Credential',
    'SSOToken',
    'ExpiredToken',
    'InvalidToken',
    'RefreshError',
)
# {protocol: how to log in}
_LOGINS = {
    'gs': 'Log in with `gcloud auth application-default login`, or set '
    'GOOGLE_APPLICATION_CREDENTIALS to a key file. For public buckets set '
    'FSSPEC_GS_TOKEN=anon.',
    's3': 'Log in with `aws sso login`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and '
    'AWS_SECRET_ACCESS_KEY. For public buckets set FSSPEC_S3_ANON=true.',
    'hf': 'Log in with `hf auth login`, or set HF_TOKEN.',
}
_LOGINS |= {'gcs': _LOGINS['gs'], 's3a': _LOGINS['s3'], 'hub': _LOGINS['hf']}


def root_cause(error):
    """Returns the error that fsspec hides behind a misleading one.

    For http(s), fsspec raises FileNotFoundError for any failure, including a broken
    connection. s3fs raises IndexError for some broken connections.
    """
    cause = error.__cause__
    if isinstance(error, IndexError) and isinstance(error.__context__, OSError):
        return error.__context__
    is_hidden = isinstance(error, FileNotFoundError) and isinstance(cause, Exception)
    return cause if is_hidden else error


def is_client_error(error):
    """Returns whether an error is of a client, the network or the operating system."""
    module = type(error).__module__.split('.')[0]
    return module in _CLIENTS or isinstance(error, OSError | EOFError)


def http_status(error):
    """Returns the HTTP status that an error carries itself; 0 if none.

    The cause is ignored: it may differ, as aiohttp gives a truncated response 400.
    """
    # gcsfs raises a plain OSError for 403.
    if type(error) is OSError and str(error).startswith('Forbidden: '):
        return 403
    response = getattr(error, 'response', None)
    if isinstance(response, dict):  # botocore
        return response.get('ResponseMetadata', {}).get('HTTPStatusCode', 0)
    attributes = ((response, 'status_code'), (error, 'status'), (error, 'code'))
    values = (getattr(*attribute, None) for attribute in attributes)
    return next((int(value) for value in values if str(value).isdigit()), 0)


def is_response(error):
    """Returns whether an error is the response of a server."""
    # s3fs converts the responses of S3 to OSErrors.
    return bool(http_status(error) or _s3_response(error.__cause__))


def _s3_response(error):
    response = getattr(error, 'response', None)
    return response if isinstance(response, dict) else {}


def is_access_denied(error):
    """Returns whether credentials are missing, expired or insufficient."""
    response = _s3_response(error.__cause__)
    names = type(error).__name__, str(response.get('Error', {}).get('Code', ''))
    of_credentials = any(part in name for part in _CREDENTIALS for name in names)
    s3_status = response.get('ResponseMetadata', {}).get('HTTPStatusCode')
    is_denied = bool({http_status(error), s3_status} & {401, 403})
    return isinstance(error, PermissionError) or of_credentials or is_denied


def login_hint(address):
    """Returns a sentence or two on how to get access to an address."""
    hint = _LOGINS.get(address.partition(':')[0])
    if hint is None:
        return 'Ask its owner for access.'
    return f'{hint} Otherwise ask its owner for access.'
