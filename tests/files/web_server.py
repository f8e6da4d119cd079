"""A web server of a folder with byte ranges, run as a process of its own.

    python web_server.py FOLDER [--no-ranges] [--no-size]

Prints its port.
"""

import argparse
import hashlib
import http.server
import pathlib
import re
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles GET and HEAD of files, and of pages that list folders."""

    protocol_version = 'HTTP/1.1'
    top = ranges = size = None

    def do_HEAD(self):
        """Responds as to GET, without the content."""
        self.do_GET()

    def do_GET(self):
        """Responds with a file, a range of it, or the list of a folder."""
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        path = self.top / name.lstrip('/')
        if path.is_dir():
            links = (p.name + '/' * p.is_dir() for p in sorted(path.iterdir()))
            page = ''.join(f'<a href="{link}">{link}</a>\n' for link in links)
            return self._answer(200, page.encode(), {'Content-Type': 'text/html'})
        if not path.is_file():
            status = {'/secret': 403, '/busy': 503}.get(name, 404)
            return self._answer(status, b'', {})
        data = path.read_bytes()
        headers = {'ETag': f'"{hashlib.sha1(data).hexdigest()}"'}
        asked = re.fullmatch(r'bytes=(\d+)-(\d+)', self.headers.get('Range', ''))
        if not (asked and self.ranges):
            return self._answer(200, data, headers)
        start, stop = int(asked[1]), min(int(asked[2]) + 1, len(data))
        headers['Content-Range'] = f'bytes {start}-{stop - 1}/{len(data)}'
        return self._answer(206, data[start:stop], headers)

    def _answer(self, status, data, headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if self.size:
            self.send_header('Content-Length', str(len(data)))
        else:
            self.close_connection = True
            self.send_header('Connection', 'close')
        self.end_headers()
        if self.command == 'HEAD':
            return
        self.wfile.write(data)

    def log_message(self, *args):
        """Logs nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Ignores clients that disconnect."""

    def handle_error(self, request, client_address):
        """Logs nothing."""


def main():
    """Serves until the process is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('--no-ranges', action='store_true')
    parser.add_argument('--no-size', action='store_true')
    given = parser.parse_args()
    Handler.top = pathlib.Path(given.folder)
    Handler.ranges, Handler.size = not given.no_ranges, not given.no_size
    server = Server(('127.0.0.1', 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main()
