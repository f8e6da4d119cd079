"""A proxy that breaks connections to a local server midway.

    python torn_proxy.py PORT CUT

A connection ends at random, at most CUT bytes after its first byte. Prints its port.
Every cut is logged as a line of standard error.
"""

import contextlib
import random
import select
import socket
import struct
import sys
import threading

# Closing resets the connection, as a broken network does.
LINGER = struct.pack('ii', 1, 0)


def serve(port, cut):
    """Forwards connections until the process ends."""
    with socket.create_server(('127.0.0.1', 0), backlog=64) as door:
        print(door.getsockname()[1], flush=True)
        rng = random.Random(0)
        while True:
            client, _ = door.accept()
            server = socket.create_connection(('127.0.0.1', port))
            given = client, server, rng.randint(cut // 10, cut)
            threading.Thread(target=pass_on, args=given, daemon=True).start()


def pass_on(client, server, left):
    """Forwards everything from the client, and `left` bytes of the responses."""
    with client, server, contextlib.suppress(OSError):
        while left > 0:
            for readable in select.select([client, server], [], [])[0]:
                data = readable.recv(2**16)
                if not data:
                    return
                if readable is client:
                    server.sendall(data)
                else:
                    client.sendall(data[:left])
                    left -= len(data)
        print('cut', file=sys.stderr, flush=True)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)


if __name__ == '__main__':
    serve(int(sys.argv[1]), int(sys.argv[2]))
