"""The command `export`: writes a run or an 'hf:' model as a folder of Hugging Face."""

import contextlib
import tempfile

from jepa_text.files import addresses
from jepa_text.pretrained import export, load


def run(options, workdir):
    """Exports the model of a workdir to `options['to']`, a folder or an address.

    Other options: step, family, license, dtype. Raises as `load.load` and `export.write`
    do.
    """
    keys = ('step', 'family', 'license', 'dtype', 'to')
    given = {key: options.get(key) for key in keys}
    if not given['to']:
        raise ValueError('--to is missing: the folder to write, such as exports/first.')
    export.check_free(given['to'])
    place = addresses.location('--workdir', workdir, model=True)
    model = load.load(place, given['step'])
    settings = {'family': given['family'], 'license_name': given['license']}
    settings['dtype'] = given['dtype'] or 'float32'
    with _place(given['to']) as folder:
        info = export.write(model, folder, **settings)
    print(
        f'{given["to"]}: {info["architecture"]}, {info["parameters"]:,} parameters; '
        f'verified after reading it back (largest difference {info["difference"]:.1e})'
    )


@contextlib.contextmanager
def _place(folder):
    """Yields where to write a folder: there, or for an address a temporary folder.

    The temporary folder is uploaded at the end.
    """
    if not addresses.is_address(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield f'{temporary}/model'
        addresses.upload_folder(f'{temporary}/model', folder)
