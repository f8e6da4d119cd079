"""The first signal is a wish, the second an order."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from jepa_text.running import signals


def until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize('number', signals.SIGNALS)
def test_the_first_signal_asks_and_the_handlers_come_back(number, capfd):
    before = [signal.getsignal(each) for each in signals.SIGNALS]
    with signals.Requests() as requests:
        assert not requests.asked
        os.kill(os.getpid(), number)
        assert until(lambda: requests.asked)
    assert [signal.getsignal(each) for each in signals.SIGNALS] == before
    assert f'{number.name}: the state will be saved' in capfd.readouterr().err


def test_the_second_ends_the_process_though_its_main_thread_hangs():
    program = """
        import ctypes, os
        from jepa_text.running import signals
        with signals.Requests():
            print('ready', flush=True)
            # Sleeps without ever coming back to Python, as a hung collective would.
            libc = ctypes.CDLL(None)
            while True:
                libc.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGTERM)
        line = process.stderr.readline() + process.stderr.readline()
        assert 'A second signal ends it at once' in line
        # Passed on by a launcher: the same wish once more.
        process.send_signal(signal.SIGTERM)
        time.sleep(signals.SAME_WITHIN + 0.1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert 'SIGTERM again: ending at once' in said


def test_another_thread_may_train_too():
    made = []

    def run():
        with signals.Requests() as requests:
            made.append(requests.asked)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert made == [False]
