"""The command `export`: writes a run or an 'hf:' model as a folder of Hugging Face."""

import tempfile

from jepa_text.files import addresses
from jepa_text.pretrained import export, load


def run(options, workdir):
    """Exports the model of a workdir to `options['to']`, a folder or an address.

    The others are `step` and those of `export.write`. Raises as it and `load.load` do.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not given.get('to'):
        raise ValueError('--to is missing: the folder to write, such as exports/first.')
    to = given.pop('to')
    if addresses.is_address(to):
        addresses.check_free(addresses.location('--to', to))
    else:
        export.check_free(to)
    place = addresses.location('--workdir', workdir, model=True)
    model = load.load(place, given.pop('step', None))
    with tempfile.TemporaryDirectory() as temporary:
        folder = f'{temporary}/model' if addresses.is_address(to) else to
        info = export.write(model, folder, **given)
        if addresses.is_address(to):
            addresses.upload_folder(folder, to)
    print(
        f'{to}: {info["architecture"]}, {info["parameters"]:,} parameters; '
        f'verified after reading it back (largest difference {info["difference"]:.1e})'
    )
