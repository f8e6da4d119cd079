"""Configs of the shipped studies."""

from pathlib import Path

from jepa_text.config import config_file
from jepa_text.study import study

FOLDER = Path(__file__).parents[2] / 'configs' / 'studies'
NAMES = sorted(path.stem for path in FOLDER.glob('*.py'))


def shipped(name, scale, seeds=None):
    """Returns the complete config of a shipped study as plain dicts."""
    argument = f'scale={scale}' + (f',seeds={seeds}' if seeds else '')
    path = FOLDER / f'{name}.py'
    return study.plain(config_file.read(f'{path}:{argument}'))
