"""A web server of a folder with byte ranges, run as a process of its own.

    python web_server.py FOLDER [--no-ranges] [--no-size]

Prints its port.
"""

import argparse
import pathlib
import socket

from aiohttp import web


def main():
    """Serves until the process is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--no-ranges', action='store_true')
    parser.add_argument('--no-size', action='store_true')
    given = parser.parse_args()

    async def answer(request):
        path = given.folder / request.path.lstrip('/')
        if not path.is_file():
            status = {'/secret': 403, '/busy': 503}.get(request.path, 404)
            return web.Response(status=status)
        if not given.no_ranges and not given.no_size:
            return web.FileResponse(path)
        response = web.Response(body=path.read_bytes())
        if given.no_size:
            response.enable_chunked_encoding()
        return response

    app = web.Application()
    app.router.add_get('/{name:.*}', answer)
    door = socket.create_server(('127.0.0.1', 0))
    print(door.getsockname()[1], flush=True)
    web.run_app(app, sock=door, print=None)


if __name__ == '__main__':
    main()
