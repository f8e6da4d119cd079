"""What is known of a run, for the card of its export."""

from jepa_text.files import checksums
from jepa_text.hf import card
from jepa_text.report import frequencies
from jepa_text.running import metrics

INIT_FROM = 'init_from.json'


def of_run(workdir, step, config, history, kind):
    """The card.Facts of a run at a step, given its config and its phases until then.

    `kind` is the loss that it is judged by. The checkpoint of the step may be gone, as a
    run that continues deletes older ones.
    """
    measured_at, measured = metrics.newest(workdir, frequencies.PREFIX, step)
    return card.Facts(
        name=f'{workdir.name}-{step}',
        step=step,
        history=tuple(history),
        measured=measured,
        measured_at=measured_at,
        sentences=tuple(frequencies.sentences(measured, kind)),
        init_from=_init_from(workdir, config),
    )


def _init_from(workdir, config):
    """The record of the model that a run started from, with paths reduced to names."""
    path = (config.get('init_from') or {}).get('path')
    if not path or not (workdir / INIT_FROM).is_file():
        return None
    record = checksums.read_json(workdir / INIT_FROM)
    # The record of an imported folder does not contain the prefix 'hf:'.
    for text in (path, path.removeprefix('hf:')):
        public = str(card.public_name(text))
        record['lines'] = [line.replace(text, public) for line in record['lines']]
    return record
