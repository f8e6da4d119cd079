"""hf:// over a socket: files of a repository are read, or an error says why not."""

import os
import subprocess
import sys
from pathlib import Path

import hub_server
import pytest

pytest.importorskip('huggingface_hub')

PROGRAM = """
import sys
from jepa_text.files import listing, streams
for address in sys.argv[1:]:
    try:
        for file in listing.expand(address, ('.jsonl',)).files:
            with streams.open_bytes(file) as stream:
                print(file, stream.read())
    except OSError as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""
TEXT = '{"text": "%s"}\n'
# Address below hf://datasets/ -> start of the output.
SAID = {
    'lab/set/data': f'data/a.jsonl {(TEXT % "lab/set/main").encode()!r}',
    'lab/set@v1/data': f'data/a.jsonl {(TEXT % "lab/set/v1").encode()!r}',
    'lab/none/data': 'FileNotFoundError',
    'lab/set@v9/data': 'FileNotFoundError',
    'lab/set/none': 'FileNotFoundError',
    hub_server.GATED + '/data': 'PermissionError',
}


def test_files_of_a_repository_are_read_or_an_error_explains(tmp_path):
    for name in ('lab/set/main', 'lab/set/v1', hub_server.GATED + '/main'):
        folder = tmp_path / name / 'data'
        folder.mkdir(parents=True)
        (folder / 'a.jsonl').write_text(TEXT % name)
        (folder / 'notes.md').write_text('')
    addresses = [f'hf://datasets/{name}' for name in SAID]
    with hub_server.serving(tmp_path) as (hub, _):
        # A new process, as the Hub's address is read at startup.
        done = subprocess.run(
            [sys.executable, '-c', PROGRAM, *addresses],
            env={**os.environ, 'HF_ENDPOINT': hub},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    for line, address, wanted in zip(
        done.stdout.splitlines(), addresses, SAID.values(), strict=True
    ):
        assert address.split('@')[0] in line and wanted in line, done.stdout
