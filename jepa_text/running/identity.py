"""Fingerprints of the tokenizer and the network, stored in checkpoints."""

from jepa_text.files import checksums

# Keys of a model and of objectives that change how values are computed, not which.
HOW = ('attention', 'remat', 'logits_mib')


def fingerprints(saved, tokenizer):
    """{'tokenizer': sha256, 'network': sha256}, for the meta of a checkpoint.

    `saved` is the content of config.json.
    """
    parts = [_essential(phase['objective']) for phase in saved['phases']]
    parts += [_essential(saved['model']), saved['seed'], saved['data']['row_length']]
    # Overrides of phases; left out if there are none, as in versions without overrides.
    overrides = {
        number: [phase.get('rope_theta'), (phase.get('data') or {}).get('row_length')]
        for number, phase in enumerate(saved['phases'])
    }
    parts += [[number, values] for number, values in overrides.items() if any(values)]
    return {'tokenizer': tokenizer.fingerprint, 'network': checksums.checksum(parts)}


def _essential(section):
    """A section without the keys of how its values are computed."""
    if isinstance(section, list | tuple):
        return [_essential(value) for value in section]
    if not isinstance(section, dict):
        return section
    return {key: _essential(x) for key, x in section.items() if key not in HOW}


def check(workdir, saved, tokenizer, meta):
    """Raises ValueError if the workdir's tokenizer or network is not that of `meta`.

    `meta` is that of a checkpoint. What those of older versions lack is not checked.
    """
    remedies = {
        'tokenizer': f'the tokenizer.json in {saved["data"]["folder"]} is the same',
        'network': 'running the training command again reports what differs',
    }
    files = {'tokenizer': 'tokenizer.json', 'network': 'config.json'}
    for name, current in fingerprints(saved, tokenizer).items():
        expected = meta.get(name, current)
        if expected != current:
            raise ValueError(
                f'{workdir}/{files[name]} is damaged or was edited: its {name} is not '
                f'the one of its checkpoints (sha256 {current[:16]}..., the checkpoints '
                f'have {expected[:16]}...). Restore it from a backup; {remedies[name]}.'
            )
