"""Runs launch scripts where nothing real can be reached: fake programs record calls."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
# All that the scripts may take for granted; gcloud, docker and others are not among them.
TOOLS = (
    *('bash', 'cat', 'cut', 'dirname', 'env', 'flock', 'git', 'grep', 'gzip', 'head'),
    *('id', 'mkdir', 'mktemp', 'nohup', 'printf', 'rm', 'sed', 'sleep', 'tail', 'tar'),
    *('touch', 'wc', 'xargs'),
)
JOB = ('train', '--config=toy:mlm', '--workdir=/data/first')

RECORD = """#!/usr/bin/env bash
{ printf '%s\\037' "${0##*/}" "$@"; printf '\\036'; } >>"$CALLS"
"""


class Machine:
    """A PATH of basic tools, to which `fake` adds programs that record their calls."""

    def __init__(self, folder):
        self.folder, self.bin = folder, folder / 'bin'
        self.calls_file = folder / 'calls'
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.env = {
            'PATH': str(self.bin),
            'HOME': str(folder),
            'CALLS': str(self.calls_file),
            'JEPA_TEXT': str(self.fake('jepa-text')),
        }

    def fake(self, name, script=''):
        """A program that records its call and then runs `script`; returns its path."""
        path = self.bin / name
        path.write_text(RECORD + script)
        path.chmod(0o755)
        return path

    def start(self, script, *words, **env):
        """The running script, its standard output and errors in one pipe."""
        return subprocess.Popen(
            [self.bin / 'bash', ROOT / 'launch' / script, *words],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script, *words, **env):
        """(exit code, output) of a script."""
        process = self.start(script, *words, **env)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def shell(self, text, folder=ROOT, **env):
        """(exit code, output) of a line of bash in a folder."""
        ended = subprocess.run(
            [self.bin / 'bash', '-c', text],
            cwd=folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def calls(self):
        """[[program, word, ...], ...] of the fakes, in order."""
        text = self.calls_file.read_text() if self.calls_file.exists() else ''
        return [call.split('\037')[:-1] for call in text.split('\036')[:-1]]

    def called(self, name):
        """The calls of one program, without its name."""
        return [words for program, *words in self.calls() if program == name]


def documented(script):
    """The lines of the comment at the top of a script."""
    lines = (ROOT / 'launch' / script).read_text().splitlines()[1:]
    return lines[: next(i for i, line in enumerate(lines) if not line.startswith('#'))]
