"""A bounded first request per server, so that an unreachable one fails within seconds.

Clients retry by themselves: gcsfs for half a minute after an equally long search for
credentials, s3fs five times what botocore does five times, aiohttp for five minutes if
packets are lost. Multiplied by the retries of addresses.with_retries, a machine without a
network would report it after 5 to 30 minutes. The first request to each server therefore
has a time limit of its own, whatever the client does. A server that has responded once
may be unavailable for longer.
"""

import queue
import threading
import time

WITHIN = 40.0  # seconds
_PAUSE = 0.5  # seconds after the first attempt; each pause is twice the previous one
_REACHABLE = set()


def is_reachable(server):
    """Returns whether the server has responded in this process."""
    return server in _REACHABLE


def mark_reachable(server):
    """Records that the server has responded, possibly in another process."""
    _REACHABLE.add(server)


def check(server, request, network_error):
    """Calls `request` until the server responds, for at most WITHIN seconds.

    The server has responded if `request` returns, or raises an error for which
    `network_error(error)` is None; else that is the network's error. Raises TimeoutError
    with the last one. A call that has not ended by then continues in a daemon thread,
    which blocks nothing.
    """
    errors, end = queue.SimpleQueue(), time.monotonic() + WITHIN
    arguments = request, network_error, errors, end
    threading.Thread(target=_attempts, args=arguments, daemon=True).start()
    count, last = 0, None
    while True:
        try:
            error = errors.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        if error is None:
            mark_reachable(server)
            return
        count, last = count + 1, error
    message = f'no response within {WITHIN:g} s'
    if last is not None:
        message += f' and {count} attempts; last error: {type(last).__name__}: {last}'
    raise TimeoutError(message) from last


def _attempts(request, network_error, errors, end):
    """Puts the network's error of each attempt into a queue, and None on a response."""
    pause = _PAUSE
    while time.monotonic() < end:
        try:
            request()
        except Exception as raised:
            if error := network_error(raised):
                errors.put(error)
                time.sleep(pause)
                pause *= 2
                continue
        errors.put(None)
        return
