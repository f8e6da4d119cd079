"""A local HTTP server with the part of the hub's API that huggingface_hub uses.

`folder`/NAME/REVISION/... are the files of a dataset or model at a revision; its commit
is derived from both names. It supports listings of revisions, files, with byte ranges,
and, with the token TOKEN of the user `me`, commits to `main`, with LFS for safetensors.
The terms of the dataset GATED are not accepted, and no token grants access to KEYED. For
files named in `faults`, one response that does not begin with the first byte is cut off.
`heads`, such as {'main': 'v2'}, maps branches to the revisions they moved to.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
import urllib.parse

import children

GATED, KEYED = 'lab/gated', 'lab/keyed'
TOKEN = 'hf_token_that_may_write'
INVALID = 'Invalid credentials in Authorization header'  # the hub's message
ROOT = pathlib.Path(__file__).parents[2]


def commit(name, revision):
    """Returns a commit of 40 hexadecimal digits."""
    return hashlib.sha1(f'{name}@{revision}'.encode()).hexdigest()


def write(folder, files):
    """Writes {path in the folder: text or bytes}."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def environment(address, cache):
    """Returns the environment variables that select this hub and a cache folder."""
    quiet = {'HF_HUB_DISABLE_XET': '1', 'HF_HUB_DISABLE_TELEMETRY': '1'}
    return {
        'HF_ENDPOINT': address,
        'HF_HOME': str(cache),
        'JEPA_TEXT_CACHE': f'{cache}/copies',
        'PYTHONPATH': str(ROOT),
    } | quiet


def run_program(program, address, cache, **more):
    """Runs a program in a new process; returns the last line it prints, parsed as
    JSON."""
    done = children.run('-c', program, env=environment(address, cache) | more)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def serving(folder, faults=(), heads=None):
    """Serves the datasets of a folder; yields (address, requested paths)."""
    asked = []

    class Handler(_Handler):
        top, log, uploaded = pathlib.Path(folder), asked, {}
        cut, moved = set(faults), {} if heads is None else heads

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}', asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _tree(place, folder, recursive):
    """The entries of a folder of a dataset, or of all folders below it."""
    top, made = place / folder, []
    for path in sorted(top.rglob('*') if recursive else top.iterdir()):
        named = {'path': path.relative_to(place).as_posix()}
        if path.is_dir():
            made.append(named | {'type': 'directory', 'size': 0, 'oid': '0' * 40})
        else:
            digest = hashlib.sha1(path.read_bytes()).hexdigest()
            size = path.stat().st_size
            made.append(named | {'type': 'file', 'size': size, 'oid': digest})
    return made


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    # Head and body in one packet, as a second one would be delayed by 40 ms.
    wbufsize = -1

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        self.log.append(path)
        if path == '/api/whoami-v2':
            may_write = self._may_write()
            return self._send(200 if may_write else 401, b'{"name": "me"}', {})
        listing = re.fullmatch(
            r'/api/(?:datasets|models)/(?P<name>[^/]+/[^/]+)'
            r'(/(?P<what>revision|tree)(/(?P<revision>[^/]+))?)?(/(?P<folder>.*))?',
            path,
        )
        file = re.fullmatch(
            r'(?:/datasets)?/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)',
            path,
        )
        if not listing and not file:
            return self._refuse(404, '')
        found = (listing or file).groupdict()
        name = found['name']
        if name == KEYED:
            return self._refuse(401, INVALID)
        if not (self.top / name).is_dir():
            return self._refuse(401, 'RepoNotFound')
        if name == GATED and (file or path.endswith('/auth-check')):
            return self._refuse(403, 'GatedRepo')
        asked = urllib.parse.unquote(found['revision'] or 'main')
        known = {r: r for r in self._revisions(name)}
        known |= {commit(name, r): r for r in known}
        known |= {k: r for k, r in self.moved.items() if r in known}
        if asked not in known:
            return self._refuse(404, 'RevisionNotFound')
        place = self.top / name / known[asked].replace('/', '%')
        if file:
            return self._file(place / urllib.parse.unquote(found['file']), name, asked)
        recursive = 'recursive=true' in self.path.lower()
        folder = urllib.parse.unquote(found['folder'] or '')
        if not (place / folder).is_dir():
            return self._refuse(404, 'EntryNotFound')
        revision = known[asked]
        return self._list(place, name, revision, found['what'], folder, recursive)

    def do_PUT(self):
        self.uploaded[self.path.rpartition('/')[2]] = self._body()
        self._send(200, b'', {})

    def do_POST(self):
        """Commits of create_repo and upload_folder."""
        body, path = self._body(), urllib.parse.urlsplit(self.path).path
        self.log.append(path)
        if not self._may_write():
            return self._refuse(401, INVALID)
        address = f'http://{self.headers["Host"]}'
        lines = [json.loads(line) for line in body.splitlines()]
        if path == '/api/repos/create':
            name = f'{lines[0]["organization"]}/{lines[0]["name"]}'
            (self.top / name / 'main').mkdir(parents=True, exist_ok=True)
            answer = {'url': f'{address}/{name}', 'id': name}
        elif path.endswith('/preupload/main'):
            answer = {'files': [{'shouldIgnore': False, **x} for x in lines[0]['files']]}
            for one in answer['files']:
                is_weights = one['path'].endswith('.safetensors')
                one['uploadMode'] = 'lfs' if is_weights else 'regular'
        elif path.endswith('/objects/batch'):
            answer = {'objects': lines[0]['objects'], 'transfer': 'basic'}
            for one in answer['objects']:
                one['actions'] = {'upload': {'href': f'{address}/lfs/{one["oid"]}'}}
        elif path.endswith('/commit/main'):
            name = path.split('/', 3)[3].removesuffix('/commit/main')
            self._commit(self.top / name / 'main', lines)
            answer = {'commitUrl': f'{address}/{name}/commit/1', 'commitOid': '1' * 40}
        else:
            answer = {'errors': [], 'warnings': []}  # of the card's front matter
        return self._send(200, json.dumps(answer).encode(), {})

    def _commit(self, place, lines):
        for line in lines:
            made = line['value']
            if line['key'] == 'deletedFile':
                (place / made['path']).unlink()
            elif line['key'] == 'file':
                write(place, {made['path']: base64.b64decode(made['content'])})
            elif line['key'] == 'lfsFile':
                write(place, {made['path']: self.uploaded[made['oid']]})

    def _may_write(self):
        return self.headers['Authorization'] == f'Bearer {TOKEN}'

    def _body(self):
        return self.rfile.read(int(self.headers.get('Content-Length', 0)))

    def _revisions(self, name):
        return [p.name.replace('%', '/') for p in (self.top / name).iterdir()]

    def _list(self, place, name, revision, what, folder, recursive):
        if what == 'tree':
            answer = _tree(place, folder, recursive)
        else:
            answer = {'id': name, 'sha': commit(name, revision), 'gated': name == GATED}
        self._send(200, json.dumps(answer).encode(), {'Content-Type': 'application/json'})

    def _file(self, path, name, revision):
        if not path.is_file():
            return self._refuse(404, 'EntryNotFound')
        data = path.read_bytes()
        moved = self.moved.get(revision, revision)
        sha = revision if len(revision) == 40 else commit(name, moved)
        headers = {'X-Repo-Commit': sha, 'ETag': f'"{hashlib.sha1(data).hexdigest()}"'}
        part = re.fullmatch(r'bytes=(\d+)-(\d*)', self.headers.get('Range', ''))
        if not part:
            return self._send(200, data, headers)
        start, stop = int(part[1]), min(int(part[2] or len(data)) + 1, len(data))
        headers['Content-Range'] = f'bytes {start}-{stop - 1}/{len(data)}'
        self.log.append(f'{path.name} from {start}')
        if start and path.name in self.cut:
            self.cut.remove(path.name)
            self.log.append(f'{path.name} cut')
            self.close_connection = True
            return self._send(206, data[start:stop], headers, (stop - start) // 2)
        return self._send(206, data[start:stop], headers)

    def _refuse(self, status, code):
        self._send(status, b'{}', {'X-Error-Code': code, 'X-Error-Message': code})

    def _send(self, status, data, headers, sent=None):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(data[:sent])

    def log_message(self, *args):
        """Silent."""
