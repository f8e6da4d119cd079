"""The emulator of Google Cloud Storage, which here names the version of what it sends.

TensorStore needs that header: the emulator alone only serves clients in Python.
"""

import contextlib

from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

download = objects.download


def with_generation(request, response, storage, *args, **kwargs):
    """Sends a file with its generation."""
    names = (request.params['bucket_name'], request.params['object_id'])
    with contextlib.suppress(NotFound):
        response['X-Goog-Generation'] = storage.get_file_obj(*names)['generation']
    download(request, response, storage, *args, **kwargs)


objects.download = with_generation

if __name__ == '__main__':
    from gcp_storage_emulator.__main__ import main

    main()
