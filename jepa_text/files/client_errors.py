"""What errors of fsspec's clients say: each tells a server's answer in its own way."""

# Whose errors need not be OSError.
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
# Parts of names of errors, and of codes of S3, of keys that are missing or too old.
_KEYS = ('Credential', 'SSOToken', 'ExpiredToken', 'InvalidToken', 'RefreshError')
# {what an address begins with: how to get in}
_LOGINS = {
    'gs': 'Log in with `gcloud auth application-default login`, or let '
    'GOOGLE_APPLICATION_CREDENTIALS name a key file. Public buckets: set '
    'FSSPEC_GS_TOKEN=anon.',
    's3': 'Log in with `aws sso login`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and '
    'AWS_SECRET_ACCESS_KEY. Public buckets: set FSSPEC_S3_ANON=true.',
    'hf': 'Log in with `hf auth login`, or set HF_TOKEN.',
}
_LOGINS |= {'gcs': _LOGINS['gs'], 's3a': _LOGINS['s3'], 'hub': _LOGINS['hf']}


def first_of(error):
    """What an error of fsspec was made of: for a web address, it says FileNotFoundError
    of any failure, a cut connection too, and s3fs an IndexError of some cuts."""
    cause = error.__cause__
    if isinstance(error, IndexError) and isinstance(error.__context__, OSError):
        return error.__context__
    known = isinstance(error, FileNotFoundError) and isinstance(cause, Exception)
    return cause if known else error


def is_theirs(error):
    """Is it of a client, of a network, or of the system?"""
    module = type(error).__module__.split('.')[0]
    return module in _CLIENTS or isinstance(error, OSError | EOFError)


def status(error):
    """The number of HTTP that an error tells itself; 0 for none. What it was made of may
    tell another: aiohttp calls an answer that was cut a 400."""
    # So says gcsfs of 403.
    if type(error) is OSError and str(error).startswith('Forbidden: '):
        return 403
    response = getattr(error, 'response', None)
    if isinstance(response, dict):  # botocore's
        return response.get('ResponseMetadata', {}).get('HTTPStatusCode', 0)
    pairs = ((response, 'status_code'), (error, 'status'), (error, 'code'))
    told = (getattr(*pair, None) for pair in pairs)
    return next((int(one) for one in told if str(one).isdigit()), 0)


def is_answer(error):
    """Did a server say so? s3fs makes errors of the system of what S3 answers."""
    return bool(status(error) or _answer_of_s3(error.__cause__))


def _answer_of_s3(error):
    response = getattr(error, 'response', None)
    return response if isinstance(response, dict) else {}


def is_barred(error):
    """Does it say that the keys of this machine are missing, or do not open?"""
    answer = _answer_of_s3(error.__cause__)
    said = type(error).__name__, str(answer.get('Error', {}).get('Code', ''))
    keyless = any(key in one for key in _KEYS for one in said)
    told = {status(error), answer.get('ResponseMetadata', {}).get('HTTPStatusCode')}
    return isinstance(error, PermissionError) or keyless or bool(told & {401, 403})


def login(address):
    """How to get in at an address, in a sentence or two."""
    how = _LOGINS.get(address.partition(':')[0])
    return f'{how} Else ask its owner for access.' if how else 'Ask its owner for access.'
