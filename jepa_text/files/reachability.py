"""Does a server answer at all? Found out once for each, before it is asked for anything.

Clients try again by themselves: gcsfs for half a minute, after as long a search for keys,
s3fs five times what botocore does five times, aiohttp for five minutes where packets are
lost. Times the attempts of addresses.patiently, a machine without a network would hear of
it after five minutes, or half an hour. So the first question has a bound of its own,
whatever the client does meanwhile. A server that has answered may be away for longer.
"""

import queue
import threading
import time

WITHIN = 40.0  # seconds
_PAUSE = 0.5  # seconds after the first attempt; each pause is twice the one before
_ANSWERED = set()


def is_known(server):
    """Has this process had an answer of it?"""
    return server in _ANSWERED


def know(server):
    """Another process had an answer of it."""
    _ANSWERED.add(server)


def check(server, ask, failure):
    """Calls `ask` for WITHIN seconds, until it returns or raises an answer: that of which
    `failure(error)`, the error of the network that it stands for, is None.

    Raises TimeoutError, which tells what was tried. A call that has not ended by then
    goes on in a thread, and holds nobody up.
    """
    told, end = queue.SimpleQueue(), time.monotonic() + WITHIN
    given = ask, failure, told, end
    threading.Thread(target=_attempts, args=given, daemon=True).start()
    count, last = 0, None
    while True:
        try:
            error = told.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        if error is None:
            _ANSWERED.add(server)
            return
        count, last = count + 1, error
    said = f'no answer came in {WITHIN:g} s'
    if last is not None:
        said += f' and {count} attempts; the last one: {type(last).__name__}: {last}'
    raise TimeoutError(said) from last


def _attempts(ask, failure, told, end):
    """Tells each error, and None of an answer."""
    pause = _PAUSE
    while time.monotonic() < end:
        try:
            ask()
        except Exception as error:
            if failed := failure(error):
                told.put(failed)
                time.sleep(pause)
                pause *= 2
                continue
        told.put(None)
        return
