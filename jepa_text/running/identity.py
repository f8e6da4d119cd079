"""What a checkpoint knows of the files beside it that say what its arrays mean."""

from jepa_text.files import checksums


def sums(saved, tokenizer):
    """{'tokenizer': sha256, 'model': sha256}, for the meta of a checkpoint.

    `saved` is what config.json says.
    """
    said = [phase['objective'] for phase in saved['phases']]
    # By which kernel a model attends is a matter of the machine.
    model = {key: x for key, x in saved['model'].items() if key != 'attention'}
    said += [model, saved['seed'], saved['data']['row_length']]
    # What a phase changes of the two; none of them, as long as there was no such thing.
    changed = {
        number: [phase.get('rope_theta'), (phase.get('data') or {}).get('row_length')]
        for number, phase in enumerate(saved['phases'])
    }
    said += [[number, own] for number, own in changed.items() if any(own)]
    return {'tokenizer': tokenizer.fingerprint, 'model': checksums.checksum(said)}


def check(workdir, saved, tokenizer, meta):
    """Raises ValueError, which names the file, unless config.json and tokenizer.json of a
    workdir are those of a checkpoint with this meta. Older ones do not know them."""
    remedies = {
        'tokenizer': f'the tokenizer.json in {saved["data"]["folder"]} is the same',
        'model': 'the training command, run again, says what differs',
    }
    files = {'tokenizer': 'tokenizer.json', 'model': 'config.json'}
    for name, found in sums(saved, tokenizer).items():
        known = meta.get(name, found)
        if known != found:
            raise ValueError(
                f'{workdir}/{files[name]} is damaged or was edited: its {name} is '
                f'not the one of the checkpoints beside it (sha256 {found[:16]}..., they '
                f'say {known[:16]}...). Bring it back from a copy; {remedies[name]}.'
            )
