"""File servers in processes of their own, over real sockets: a web server, S3 and GCS.

Each returns the environment variables that a program needs to reach it.
"""

import contextlib
import http.server
import socket
import subprocess
import sys
import threading
from pathlib import Path

import children

BUCKET = 'shelf'


def environments(url):
    """Returns {kind: environment in which a server of that kind is at `url`}."""
    keys = {'AWS_ACCESS_KEY_ID': 'name', 'AWS_SECRET_ACCESS_KEY': 'word'}
    region = {'AWS_DEFAULT_REGION': 'us-east-1'}
    # Otherwise gcsfs asks Google for the kind of the bucket.
    plain = {'GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT': 'false'}
    orbax = {'TENSORSTORE_GCS_HTTP_URL': url, 'GOOGLE_AUTH_TOKEN': 'none'}
    return {
        'http': {},
        's3': {'AWS_ENDPOINT_URL': url, **keys, **region},
        'gs': {'STORAGE_EMULATOR_HOST': url, **orbax, **plain},
    }


@contextlib.contextmanager
def web(folder, *options):
    """Yields the address of a web server of a folder; see web_server.py."""
    program = Path(__file__).with_name('web_server.py')
    with children.started(program, folder, *options) as server:
        yield f'http://127.0.0.1:{server.stdout.readline().strip()}'


@contextlib.contextmanager
def s3():
    """Yields the environment of an S3 server with one bucket, s3://shelf."""
    program = str(Path(sys.executable).with_name('moto_server'))
    with _served(lambda port: [program, '-H', '127.0.0.1', '-p', str(port)]) as port:
        environment = environments(f'http://127.0.0.1:{port}')['s3']
        made = 'import s3fs; s3fs.S3FileSystem().mkdir("shelf")'
        children.run('-c', made, env=environment)
        yield environment


@contextlib.contextmanager
def gcs():
    """Yields the environment of a GCS server with one bucket, gs://shelf."""
    words = ['start', '--in-memory', f'--default-bucket={BUCKET}', '--host=127.0.0.1']
    program = [sys.executable, str(Path(__file__).with_name('gcs_server.py')), *words]
    with _served(lambda port: [*program, f'--port={port}']) as port:
        yield environments(f'http://127.0.0.1:{port}')['gs']


@contextlib.contextmanager
def closed(status):
    """Yields the URL of a server that responds to every request with this status."""
    bodies = {
        'json': f'{{"error": {{"code": {status}, "message": "no entry"}}}}',
        'xml': '<Error><Code>AccessDenied</Code><Message>no entry</Message></Error>',
    }

    class Door(http.server.BaseHTTPRequestHandler):
        def answer(self):
            google = self.path.startswith(('/b/', '/storage', '/upload'))
            self.send_response(status)
            self.end_headers()
            if self.command != 'HEAD':
                # A client may close the connection after reading the status.
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(bodies['json' if google else 'xml'].encode())

        do_GET = do_HEAD = do_PUT = do_POST = answer

        def log_message(self, *args):
            """Logs nothing."""

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


@contextlib.contextmanager
def _served(command):
    """Waits until a server listens, and returns its port."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    silent = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
    with subprocess.Popen(command(port), **silent) as server:
        try:
            children.until(lambda: _answers(port), 30)
            yield port
        finally:
            server.kill()


def _answers(port):
    try:
        socket.create_connection(('127.0.0.1', port)).close()
    except OSError:
        return False
    return True
