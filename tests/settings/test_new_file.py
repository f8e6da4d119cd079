"""`jepa-text init` writes the shipped configs as files to edit, which train."""

import random

import draws
import pytest
import tiny

from jepa_text import commands, main
from jepa_text.parallel import exits
from jepa_text.pretrained import load
from jepa_text.settings import config_file, schema

PLACES = [
    *(name for name in config_file.shipped() if name not in ('cpt', 'toy')),
    *('cpt:runs/a', 'cpt:hf:a/b,size=toy', 'evaluate:models=a,b,tasks=c.csv,size=toy'),
    f'small:mlm,sets={config_file.PACKAGE / "data" / "bundled"}',  # has prepare.clean
    *(f'toy:{name}' for name in config_file.shared('toy').PRESETS),
    *(f'pretrain:mlm,size={size}' for size in ('35m', '210m', '1b')),
]


def init(path, place):
    """Writes a file and returns (command, config) as the command line reads them."""
    assert main.main(['jepa-text', 'init', place, str(path)]) == 0
    config = config_file.read(str(path))
    return commands.command_of(place, config), config


@pytest.mark.parametrize('place', PLACES)
def test_a_new_file_equals_the_shipped_config(place, tmp_path):
    command, config = init(tmp_path / 'my.py', place)
    root, shipped = commands.root_of(command, config), config_file.read(place)
    if shipped.get('models') != [] and place != 'finetune':  # a required key
        assert schema.resolved(root, config) == schema.resolved(root, shipped)


def test_a_section_that_is_none_and_a_file_named_as_a_command(tmp_path):
    """`export` has no config, so the file is for training."""
    first, second = tmp_path / 'export.py', tmp_path / 'my.py'
    init(first, 'toy')
    with open(first, 'a', encoding='utf-8') as file:
        file.write('\n\ntoy = get_config\n\n\ndef get_config():\n')
        file.write('    config = toy()\n    config.prepare = None\n')
        file.write('    config.clip_norm = float("inf")\n')
        file.write(
            '    config.optimizer = {"eps": -config.clip_norm}\n    return config\n'
        )
    command, config = init(second, str(first))
    assert command == 'train' and config['prepare'] is None
    assert config['clip_norm'] == -config['optimizer']['eps'] == float('inf')


def test_errors_of_init_are_explained(tmp_path, capsys):
    path = tmp_path / 'my.py'
    path.write_text('mine')
    typo = tmp_path / 'typo.py'
    typo.write_text('def get_config():\n    return {"clip_nrom": 0.5}\n')
    for words, message in (
        ([str(path)], 'File exists'),
        ([str(tmp_path / 'none' / 'my.py')], 'No such file or directory'),
        ([str(tmp_path / 'my.txt')], 'must end in .py, as in my.py'),
        (['toy:clm_mml', 'b.py'], "Did you mean 'clm_mlm'"),
        (['adapt', 'b.py'], '  cpt                         Continued pretraining'),
        (['pretrain:mlm,size=2b', 'b.py'], "size='2b'. Did you mean '1b'"),
        (['b.py', '--preset=mlm,210m'], 'takes a config and the file to write'),
        (['toy', 'b.py', 'c.py'], 'takes a config and the file to write'),
        ([str(typo), 'b.py'], "key='clip_nrom'. Did you mean 'clip_norm'"),
        ([], '  clm_mlm                     a quarter of CLM, then MLM'),
    ):
        assert main.main(['jepa-text', 'init', *words]) == exits.USAGE
        assert message in capsys.readouterr().err
    assert path.read_text() == 'mine'
    assert {*tmp_path.glob('*.*')} == {path, typo}


def toy(config, folder):
    """Returns the config reduced to four steps, small rows and a small model."""
    small = [
        ('steps', '4'),
        ('data', f'{{"folder": {tiny.rows(folder)!r}, "row_length": {tiny.LENGTH}}}'),
        ('data', '{"batch_size": 4}'),
        ('evaluate.every_steps', '0'),
        ('model.dtype', 'float32'),
    ]
    if 'name' in config['model']:
        model = "{'name': 'transformer', 'preset': 'tiny', 'depth': 3, 'scan': False}"
        small.append(('model', model))
        config = config | {'model': {}}
    small += [(f'schedule.{k}', '0') for k in config['schedule'] if k.endswith('steps')]
    return config_file.with_settings(commands.root_of('train', config), config, small)


@pytest.mark.long
def test_adapting_trains(folder, tmp_path, capsys):
    _, first = init(tmp_path / 'first.py', 'toy:mlm')
    tiny.train(toy(first, folder), tmp_path / 'first')
    _, config = init(tmp_path / 'my.py', f'cpt:{tmp_path / "first"},steps=9')
    config = toy(config, folder)
    config['prepare']['tokenizer'] = 'bundled'
    assert int(tiny.train(config, tmp_path / 'run').step) == 4
    assert load.load(tmp_path / 'run').network is not None
    # Values of init_from are shown with that origin.
    words = [f'--config={tmp_path / "my.py"}', '--print-config', '--workdir=x']
    assert main.main(['jepa-text', 'train', *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("  model.preset = 'tiny'")]
    assert line.endswith(' init_from')


@pytest.mark.parametrize(
    'place, words',
    [
        # As written before 0.2.
        ('pretrain:jepa_mlm,610m', "'610m' has no key; write size=610m"),
        ('cpt:runs/a,20,mlm,toy', "'20' has no key; write steps=20"),
        ('tokenizer:32768', "'32768' has no key; write vocab_size=32768"),
        ('finetune:model=a,task=b,small', "'small' has no key.*Available: size"),
        ('evaluate:a,b', "'a' has no key; write models=a"),
        ('studies/pfs:smoke', "'smoke' has no key; write scale=smoke"),
        # Others.
        ('toy:mlmm', "preset='mlmm'. Did you mean 'mlm'"),
        ('toy:mlm,clm', "'clm' has no key; write KEY=clm. Available: none"),
        ('pretrain:sise=35m', "does not take 'sise'. Did you mean 'size'"),
        ('pretrain:size=7b', "size='7b'.* Available: 1b, 210m"),
        ('cpt', "cpt requires 'start'"),
        ('cpt:runs/a,steps=2k', "steps='2k' must be an integer"),
        ('evaluate:models=a,models=b', "'models' is given twice"),
        ('benchmark:batch', "comparison='batch'.* Available: objectives, peer"),
        ('speed:only=muno', "Did you mean 'muon'"),
        ('speed:scale=paper', "scale='paper'.* Available: desk, tune"),
        ('studies/pfs:seeds=x', "seeds='x' must be an integer"),
        *(
            (f'{study}:seeds=-1', 'seeds=-1 must be a number at least 0')
            for study in ('studies/pfs', 'studies/downstream', 'speed')
        ),
    ],
)
def test_an_invalid_argument_is_named(place, words):
    with pytest.raises(ValueError, match=words):
        config_file.read(place)


def test_arguments_have_the_types_of_the_signature():
    def get_config(first='', *, steps=1, rate=0.5, on=False, many=(), x: int | None = 3):
        pass

    for text, expected in {
        '': {},
        'hf:a/b=c': {'first': 'hf:a/b=c'},
        'a,steps=3,on=True,x=None': dict(first='a', steps=3, on=True, x=None),
        'many=a/x=1,b@c,rate=1,first=1': dict(many=['a/x=1', 'b@c'], rate=1, first='1'),
    }.items():
        assert config_file.arguments('it', get_config, text) == expected


TRAINED = (
    *(f'toy:{name}' for name in config_file.shared('toy').PRESETS),
    *('pretrain:mlm,size=210m', 'pretrain:clm_jepa_mlm,size=35m'),
)


@pytest.mark.long
@pytest.mark.parametrize('part', [0, 1])
def test_any_trains(folder, tmp_path, part):
    place = random.Random(draws.seed()).sample(TRAINED, 2)[part]
    print(place)
    _, config = init(tmp_path / 'my.py', place)
    state = tiny.train(toy(config, folder), tmp_path / 'run')
    assert (int(state.step), int(state.skipped)) == (4, 0)
