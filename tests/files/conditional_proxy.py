"""A proxy that adds what the emulator of Google Cloud Storage lacks.

Uploads with ifGenerationMatch=0 fail with 412 if the object exists. Content that ends
with a carriage return keeps that byte, which the emulator loses, as gcsfs ends a part
with a bare line feed.

    python conditional_proxy.py PORT

Prints its port. Serves one request at a time, so that checking and writing are atomic.
"""

import http.client
import http.server
import json
import re
import sys
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    """Forwards every request except those that the condition forbids."""

    port = None

    def do_GET(self):
        """Forwards the request."""
        self._answer(*self._ask(self.command, self.path))

    do_DELETE = do_GET

    def do_POST(self):
        """Forwards the request unless it requires that an existing object is absent."""
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        at = urllib.parse.urlsplit(self.path)
        if 'ifGenerationMatch=0' in at.query.split('&'):
            metadata = json.loads(re.search(rb'\n\n(\{.*?\})\n--', body, re.DOTALL)[1])
            name = urllib.parse.quote(metadata['name'], safe='')
            path = at.path.removeprefix('/upload')
            if self._ask('GET', f'{path}/{name}')[0] == 200:
                self._answer(412, b'{"error": {"code": 412}}', {})
                return
        kind = {'Content-Type': self.headers.get('Content-Type', '')}
        if kind['Content-Type'].startswith('multipart/related'):
            body = re.sub(rb'\n(--[^\n]*--\s*)\Z', rb'\r\n\1', body)
        self._answer(*self._ask('POST', self.path, body, kind))

    def _ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port)
        given = {'Range': self.headers['Range']} if 'Range' in self.headers else {}
        connection.request(method, path, body, given | (headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())

    def _answer(self, status, data, headers):
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() in ('content-type', 'content-range', 'x-goog-hash', 'etag'):
                self.send_header(key, value)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Logs nothing."""


if __name__ == '__main__':
    Handler.port = int(sys.argv[1])
    with http.server.HTTPServer(('127.0.0.1', 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
