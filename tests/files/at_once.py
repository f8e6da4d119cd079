"""Runs a program in several processes at once."""

import subprocess
import sys


def printed(program):
    """Returns what each of three processes prints, as bytes; none may fail."""
    running = [
        subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 3
    return outputs
