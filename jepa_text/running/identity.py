"""Fingerprints of the tokenizer and the model config, stored in checkpoints."""

from jepa_text.files import checksums


def fingerprints(saved, tokenizer):
    """{'tokenizer': sha256, 'model': sha256}, for the meta of a checkpoint.

    `saved` is the content of config.json.
    """
    parts = [phase['objective'] for phase in saved['phases']]
    # The attention kernel depends on the machine and does not change what arrays mean.
    model = {key: x for key, x in saved['model'].items() if key != 'attention'}
    parts += [model, saved['seed'], saved['data']['row_length']]
    # Overrides of phases; left out if there are none, as in versions without overrides.
    overrides = {
        number: [phase.get('rope_theta'), (phase.get('data') or {}).get('row_length')]
        for number, phase in enumerate(saved['phases'])
    }
    parts += [[number, values] for number, values in overrides.items() if any(values)]
    return {'tokenizer': tokenizer.fingerprint, 'model': checksums.checksum(parts)}


def check(workdir, saved, tokenizer, meta):
    """Raises ValueError if the workdir's tokenizer or model config is not that of `meta`.

    `meta` is that of a checkpoint; those of older versions have no fingerprints and pass.
    """
    remedies = {
        'tokenizer': f'the tokenizer.json in {saved["data"]["folder"]} is the same',
        'model': 'running the training command again reports what differs',
    }
    files = {'tokenizer': 'tokenizer.json', 'model': 'config.json'}
    for name, found in fingerprints(saved, tokenizer).items():
        expected = meta.get(name, found)
        if expected != found:
            raise ValueError(
                f'{workdir}/{files[name]} is damaged or was edited: its {name} is not '
                f'the one of its checkpoints (sha256 {found[:16]}..., the checkpoints '
                f'have {expected[:16]}...). Restore it from a backup; {remedies[name]}.'
            )
