"""A web server of a folder with byte ranges, run as a process of its own.

    python web_server.py FOLDER [--no-ranges] [--no-size]

Prints its port.
"""

import pathlib
import socket
import sys

from aiohttp import web


def main():
    """Serves until the process is killed."""
    folder, options = pathlib.Path(sys.argv[1]), sys.argv[2:]

    async def answer(request):
        path = folder / request.path.lstrip('/')
        if not path.is_file():
            status = {'/secret': 403, '/busy': 503}.get(request.path, 404)
            return web.Response(status=status)
        if not options:
            return web.FileResponse(path)
        response = web.Response(body=path.read_bytes())
        if '--no-size' in options:
            response.enable_chunked_encoding()
        return response

    app = web.Application()
    app.router.add_get('/{name:.*}', answer)
    door = socket.create_server(('127.0.0.1', 0))
    print(door.getsockname()[1], flush=True)
    web.run_app(app, sock=door, print=None)


if __name__ == '__main__':
    main()
