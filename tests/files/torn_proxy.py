"""A network that breaks: what a server of this machine says, passed on and cut midway.

    python torn_proxy.py PORT CUT

At random, a connection ends at most CUT bytes after the first that it brought. Prints its
own port. Every cut is a line of standard error.
"""

import contextlib
import random
import select
import socket
import struct
import sys
import threading

LINGER = struct.pack('ii', 1, 0)  # closing resets, as a broken network does


def serve(port, cut):
    """Passes on connections until the process ends."""
    with socket.create_server(('127.0.0.1', 0), backlog=64) as door:
        print(door.getsockname()[1], flush=True)
        rng = random.Random(0)
        while True:
            client, _ = door.accept()
            server = socket.create_connection(('127.0.0.1', port))
            given = client, server, rng.randint(cut // 10, cut)
            threading.Thread(target=pass_on, args=given, daemon=True).start()


def pass_on(client, server, left):
    """Passes on all that the client says, and `left` bytes of the answers."""
    with client, server, contextlib.suppress(OSError):
        while left > 0:
            for said in select.select([client, server], [], [])[0]:
                data = said.recv(2**16)
                if not data:
                    return
                if said is client:
                    server.sendall(data)
                else:
                    client.sendall(data[:left])
                    left -= len(data)
        print('cut', file=sys.stderr, flush=True)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)


if __name__ == '__main__':
    serve(int(sys.argv[1]), int(sys.argv[2]))
