"""The first signal requests a stop, the second ends the process."""

import os
import signal
import sys
import threading
import time

import children
import pytest

from jepa_text.parallel import signals


@pytest.mark.parametrize('number', signals.SIGNALS)
def test_the_first_signal_requests_a_stop_and_handlers_are_restored(number, capfd):
    before = [signal.getsignal(each) for each in signals.SIGNALS]
    with signals.StopRequests() as requests:
        assert not requests.requested
        os.kill(os.getpid(), number)
        assert children.until(lambda: requests.requested)
    assert [signal.getsignal(each) for each in signals.SIGNALS] == before
    assert f'{number.name}: the state will be saved' in capfd.readouterr().err


def test_the_second_signal_ends_a_hanging_process():
    program = """
        import ctypes, os
        from jepa_text.parallel import signals
        with signals.StopRequests():
            print('ready', flush=True)
            # Sleeps without returning to Python, like a hanging collective.
            libc = ctypes.CDLL(None)
            while True:
                libc.sleep(60)
    """
    with children.started('-c', program) as process:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGTERM)
        line = process.stderr.readline() + process.stderr.readline()
        assert 'A second signal ends it at once' in line
        # Forwarded by a launcher: the same request again.
        process.send_signal(signal.SIGTERM)
        time.sleep(signals.SAME_WITHIN + 0.1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert 'SIGTERM again: ending at once' in stderr


def test_in_a_notebook_a_second_interrupt_leaves_the_process(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, 'ipykernel', None)
    monkeypatch.setattr(signals, 'SAME_WITHIN', 0.05)
    with signals.StopRequests() as requests:
        os.kill(os.getpid(), signal.SIGINT)
        assert children.until(lambda: requests.requested)
        time.sleep(0.1)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    assert 'ending at once' not in capfd.readouterr().err


def test_other_threads_are_allowed():
    made = []

    def run():
        with signals.StopRequests() as requests:
            made.append(requests.requested)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert made == [False]


def test_within_another_context_requests_are_those_of_the_outer_one():
    with signals.StopRequests() as outer:
        with signals.StopRequests() as inner:
            assert inner is outer
            os.kill(os.getpid(), signal.SIGTERM)
            assert children.until(lambda: inner.requested)
        assert outer.requested
        assert signal.getsignal(signal.SIGTERM).__self__ is outer
