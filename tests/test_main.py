"""The command line: commands, help texts, errors and exit codes."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jepa_text import commands, main
from jepa_text.evaluation import train_command
from jepa_text.files import paths
from jepa_text.objectives import mlm
from jepa_text.parallel import exits
from jepa_text.running import restore
from jepa_text.settings import config_file, display

ROOT = Path(__file__).parents[1]
QUICKSTART = str(ROOT / 'configs' / 'quickstart.py')
TOY = str(ROOT / 'configs' / 'toy.py')
TRAIN = f'train --config={TOY} --workdir=x'


def read(*words):
    return main.read(['jepa-text', *words])


def run(*words):
    return main.main(['jepa-text', *words])


def test_help_shows_commands_and_examples_that_parse(capsys):
    assert run('--help') == 0
    text = capsys.readouterr().out
    assert all(command in text for command in commands.COMMANDS)
    examples = [line.split() for line in text.splitlines() if '--workdir=runs' in line]
    assert len(examples) >= 3
    for _, command, *flags in examples:
        flags = [f.replace('=configs/', f'={ROOT}/configs/') for f in flags]
        call = read(command, *flags)
        assert call.command == command and call.workdir.startswith('runs/')
        assert call.config


@pytest.mark.parametrize('command', commands.COMMANDS)
def test_help_of_a_command_lists_its_own_flags(command, capsys):
    about = commands.COMMANDS[command]
    assert run(command, '--help') == 0
    text = capsys.readouterr().out
    assert about.summary.lower() in text.lower()
    assert f'jepa-text {command} {about.example}' in text
    flags = {*about.keys, *about.switches}
    assert all(f'--{flag}' in text for flag in (*flags, 'traceback'))
    assert ('--workdir ' in text) == (command != 'plan')  # which writes nothing
    if command in config_file.shipped():
        word = 'WORD' if command == 'benchmark' else 'KEY=VALUE,...'
        assert f'{command}:{word}\n' in text and '\nKeys:\n' in text
    others = {f for one in commands.COMMANDS.values() for f in (*one.keys, *one.switches)}
    others = {f'--{flag}' for flag in others - flags}
    assert not any(re.search(rf'^  {other} ', text, re.M) for other in others)
    if about.config_module is None:
        assert 'Config keys' not in text
        return
    for key, default, doc in display.fields(commands.root_of(command, {})):
        assert f'  {key} = {default}' in text if default else f'  {key}  ' in text
        assert doc in text and len(doc) > 3, f'{key}: {doc}'


def test_help_fits_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv('COLUMNS', '72')
    monkeypatch.setattr('sys.stdout.isatty', lambda: True, raising=False)
    assert run('train', '--help') == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 72
    at = next(n for n, line in enumerate(lines) if line.startswith('  --tokenizer '))
    assert lines[at + 1].startswith(' ' * len('  --tokenizer       ') + '.model file')
    assert '  seed = 0' + ' ' * 38 + 'seed of all random' in lines


def test_the_version_is_that_of_the_package(capsys):
    assert run('--version') == 0
    assert re.fullmatch(r'jepa_text \d+\.\d+\.\d+\n', capsys.readouterr().out)


def test_help_lists_available_names():
    text = commands.usage(['train'])
    assert re.search(r'model = .*transformer', text)
    assert re.search(r'objective = .*clm.*mlm', text)
    assert 'data.batch_size = (required)' in text and 'init_from.step = None' in text
    assert '--hardware' not in text


@pytest.mark.parametrize(
    'word, words',
    [
        ('objective', ('objective: one of', '  hybrid ', '  mlm ')),
        ('mlm', ("objective: dict(name='mlm', ...)", '  rate = 0.3', 'mask_share')),
        ('optimizer', ('  adamw ', '  muon ', 'lr_multipliers')),
        ('muon', ('  momentum = 0.95', '  b1 = 0.9')),
        ('mntp', ('  shift = 1', '  rate = 0.3')),
        ('transformer', ('one of: tiny, toy', '  kv_heads = (required)', 'remat  ')),
        ('latent', ("  momentum = {'name': 'linear'", "  distance = 'cosine'")),
        ('gradient_ratio', ("balance: dict(name='gradient_ratio'", '  ratio = 1.0')),
        ('adapt', ("  head = 'keep'",)),
        ('task', ('  labeled ', '  glue            sst2, cola, ')),
        ('sst2', ("task: dict(name='glue', ...)",)),
        ('sentences', ('one of: bigram_shift, word_order, ',)),
        ('init', ('  toy  ', '  clm_mlm  ')),
        (
            'cpt',
            (
                '  start = (required)',
                "  size = 'paper'  one of: paper, toy",
                '  steps = ',
            ),
        ),
        ('wsd', ('  peak = (required)', 'warmup_steps = (required), or warmup_fraction')),
        ('bundled', ("source: dict(name='bundled'", "task: dict(name='bundled'")),
        ('quickstart', ('quickstart\n',)),
    ],
)
def test_parts_of_a_config_are_documented(word, words, capsys):
    assert run('help', word) == 0
    out = capsys.readouterr().out
    assert all(part in out for part in words) and 'tokenizer =' not in out


def test_overrides_reach_the_config():
    flags = [f'--config={QUICKSTART}', '--workdir=x', '--config.steps=7']
    flags += ['--config.runs[0].phases[0].objective.rate=0.5']
    flags += ['--config.watchdog.seconds=60', '--config.data={"mixture": []}']
    flags += ['--jobs', '2', '--dry-run']
    call = read('study', *flags)
    assert call.workdir == 'x' and call.switches == {'dry_run': True}
    config = call.config
    assert config['steps'] == 7 and config['engine'] == {'jobs': 2}
    assert config['runs'][0]['phases'][0]['objective']['rate'] == 0.5
    # Sections that the file does not have, or only in part.
    assert config['watchdog'] == {'seconds': 60}
    assert config['data'] == {
        'row_length': 64,
        'batch_size': 16,
        'repeat': True,
        'mixture': [],
    }


@pytest.mark.parametrize('first', (True, False))
def test_a_shipped_config_is_found_by_name_in_any_folder(tmp_path, monkeypatch, first):
    (tmp_path / 'toy.py').write_text('raise RuntimeError')  # not this one
    monkeypatch.chdir(tmp_path)
    place = 'toy:clm' if first else '--config=toy:clm'
    call = read('train', place, '--workdir=x', '--config.steps=3')
    by_path = f'--config={TOY}:clm'
    expected = read('train', by_path, '--workdir=x')
    assert call.config == expected.config | {'steps': 3}
    assert {'quickstart', 'studies/pfs'} < {*config_file.shipped()}
    assert 'presets' not in config_file.shipped()


@pytest.mark.parametrize(
    'words, same, workdir',
    [
        (
            'evaluate --model=runs/a,hf:b/c --task=x/y.csv --steps=9',
            'evaluate:models=runs/a,hf:b/c,tasks=x/y.csv --config.finetuning.steps=9',
            'runs/evaluate-a-c-y-a82f60e4',
        ),
        ('analyze --model=runs/a/', 'analyze:models=runs/a/', 'runs/analyze-a'),
        (
            'finetune --model=a --task=b@c',
            'finetune:model=a,task=b@c',
            'runs/finetune-a-c-add36677',
        ),
        (
            'analyze --model=runs/a --task=b',
            'analyze:models=runs/a,tasks=b',
            'runs/analyze-a-b',
        ),
        ('finetune --model=a --workdir=w', 'finetune:model=a,task=bundled', 'w'),
    ],
)
def test_models_and_tasks_are_a_whole_command(words, same, workdir):
    command, *_ = words.split()
    call = read(*words.split())
    longer = read(command, *same.split(), '--workdir=w')
    assert call.config == longer.config and call.workdir == workdir


@pytest.mark.parametrize(
    'command, words, values',
    [
        ('evaluate', '--model=a,hf:b/c', dict(models=['a', 'hf:b/c'])),
        ('six_sets', '--model=a --task=sst2@x', dict(models=['a'])),
        ('analyze', '--model=a --task=b,c@d', dict(models=['a'])),
        ('finetune', '--model=a --task=b.csv', dict(model='a')),
    ],
)
def test_a_written_config_takes_models_and_tasks(
    command, words, values, tmp_path, capsys
):
    path = str(tmp_path / 'my.py')
    assert run('init', command, path) == 0
    said = capsys.readouterr().out
    assert f'{path} --model=... --workdir=' in said
    name = 'evaluate' if command == 'six_sets' else command
    words = [*words.split(), '--workdir=w']
    call = read(name, path, *words)
    assert {key: call.config[key] for key in values} == values
    if command != 'six_sets':  # which writes its tasks itself
        longer = read(name, *words).config
        keys = ('tasks',) if 'tasks' in longer else ('task',)
        assert [call.config[key] for key in keys] == [longer[key] for key in keys]


MANY = ','.join(f'runs/study/mlm/seed_{number}' for number in range(60))


@pytest.mark.parametrize(
    'first, second',
    [
        ('--model=runs/q/mlm/seed_0', '--model=runs/q/clm/seed_0'),
        ('--model=runs/a --task=b/train.csv', '--model=runs/a --task=c/train.csv'),
        ('--model=runs/a --task=b.csv', '--model=runs/a --task=b'),
        ('--model=runs/small', '--model=small'),
        ('--model=runs/a,b', '--model=runs/a --task=b'),
        (f'--model={MANY},x', f'--model={MANY},y'),
    ],
)
def test_different_models_and_tasks_have_different_workdirs(first, second):
    one, other = (read('evaluate', *x.split()) for x in (first, second))
    assert one.workdir != other.workdir and len(one.workdir) < 255
    # It may begin with the same words, and the next call has it again.
    assert read('evaluate', *first.split()) == one


@pytest.mark.slow
def test_texts_are_a_whole_command(tmp_path, monkeypatch, capsys):
    """Rows and tokenizer are made of them, and made once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'texts').mkdir()
    lines = [json.dumps({'text': f'{n} whales and {n % 7} ships'}) for n in range(400)]
    (tmp_path / 'texts' / 'a.jsonl').write_text('\n'.join(lines))
    (tmp_path / 'texts' / 'notes.md').write_text('no text')
    words = (
        'train toy:mlm --text=texts --workdir=r --steps=2 --config.evaluate.every_steps=0'
    )
    words += ' --config.model.preset=tiny --config.checkpoint.every_steps=0'
    for _ in range(2):
        assert run(*words.split()) == 0
    out = capsys.readouterr().out
    assert out.count('r-rows: prepared') == 1 and 'settings differ' not in out.lower()
    assert restore.steps('r/checkpoints') == [2]
    config = json.loads((tmp_path / 'r' / 'config.json').read_text())
    source = {'name': 'jsonl', 'path': 'texts'}
    assert config['prepare']['source'] == source
    assert config['prepare']['tokenizer'] == 'bpe:8192'
    assert (tmp_path / 'r-rows-tokenizer' / 'tokenizer.json').is_file()
    words = 'train toy:mlm --text=texts --workdir=r --tokenizer=bundled --print-config'
    assert run(*words.split()) == 0
    assert "prepare.tokenizer = 'bundled'" in capsys.readouterr().out


def test_folders_beside_a_workdir_are_named_after_it(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    call = read('train', 'toy', '--text=a.csv', '--workdir=~/run//')
    found = call.workdir, call.config['data']['folder']
    assert found == (f'{tmp_path}/run', f'{tmp_path}/run-rows')


def test_texts_need_no_section_prepare(tmp_path):
    file = tmp_path / 'my.py'
    file.write_text(
        """from jepa_text.settings.config_file import shared

def get_config():
    config = shared('toy').get_config()
    config.prepare = None
    return config
"""
    )
    call = read('train', str(file), '--text=a.csv', '--workdir=w')
    source = {'name': 'csv', 'path': 'a.csv'}
    expected = {'source': source, 'tokenizer': 'bpe:8192', 'row_length': 64}
    assert call.config['prepare'] == expected
    assert call.config['data']['folder'] == 'w-rows'
    named = 'train pretrain:mlm,size=35m --text=a.csv --workdir=w'
    assert read(*named.split()).config['prepare']['tokenizer'] == 'bpe:8192'


def test_a_flag_may_be_separate_from_its_value(tmp_path, monkeypatch):
    # An absolute path after a bare file name is no address.
    (tmp_path / 'my.py').write_text(
        """from jepa_text.settings.config_file import shared

def get_config(name):
    config = shared('toy').get_config()
    config.name = name
    return config
"""
    )
    monkeypatch.chdir(tmp_path)
    words = ['train', '--config', 'my.py:/data/x', '--workdir', 'x']
    call = read(*words)
    assert call.config['name'] == '/data/x' and call.workdir == 'x'
    choices = []
    monkeypatch.setattr('jepa_text.parallel.processes.start', choices.append)
    monkeypatch.setattr('jepa_text.evaluation.train_command.run', lambda *_: None)
    assert run(*words, '--distributed', 'off') == 0
    assert run(*words, '--distributed=on') == 0
    assert choices == ['off', 'on']


@pytest.mark.parametrize('workdir', ['runs/a b/', 'memory://b/run'])
def test_what_is_printed_after_training_can_be_run(workdir, monkeypatch, capsys):
    """Also of a run at an address, whose evaluation and analysis are local."""
    monkeypatch.setattr(train_command, 'trained', lambda *_: None)
    train_command.run({}, workdir)
    lines = re.findall('^  (jepa-text .*)', capsys.readouterr().out, re.M)
    calls = [main.read(shlex.split(line)) for line in lines]
    assert [call.command for call in calls] == ['evaluate', 'analyze', 'export']
    for call in calls[:2]:
        assert paths.local('--workdir', call.workdir)


def test_print_config_shows_everything_and_where_it_is_from(tmp_path, capsys):
    words = [f'--config={TOY}:lejepa_mlm', f'--workdir={tmp_path}/x', '--print-config']
    words += ['--config.optimizer.weight_decay=0.2', '--config.clip_norm=1.0']
    assert run('train', *words) == 0
    out = re.sub(r'\n {20,}', '  ', capsys.readouterr().out)  # of a long key
    lines = out.splitlines()
    for value, origin in (
        ('steps = 1300', 'file'),
        ("optimizer.name = 'adamw'", 'file'),
        ('optimizer.weight_decay = 0.2', 'command line'),
        ('clip_norm = 1.0', 'command line'),
        ('log_every_steps = 10', 'default'),
        ('watchdog.seconds = 900.0', 'default'),
        ('optimizer.b1 = 0.9', 'default'),
        ('model.width = 128', 'default'),
        ('phases[0].objective.mlm.rate = 0.3', 'file'),
        ('phases[0].objective.mlm.logits_mib = 512', 'default'),
        ('phases[0].objective.latent.beta = 1.0', 'default'),
        ('phases[0].objective.latent.regularizer.name', 'file'),
        ('phases[0].objective.latent.regularizer.sample', 'default'),
    ):
        (line,) = [line for line in lines if line.strip().startswith(value)]
        assert line.endswith(f' {origin}'), line
    # Defaults follow in the order of the function, in every process.
    shown = re.findall(r'phases\[0\]\.objective\.mlm\.(\w+) = ', '\n'.join(lines))
    known = [name for name in inspect.signature(mlm.make).parameters if name != 'tied']
    assert shown[-4:] == known[-4:]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('command', ['prepare', 'study', 'plan', 'analyze', 'benchmark'])
def test_print_config_of_other_commands(command, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = commands.COMMANDS[command].example.split()
    if command == 'study':  # also of a run that is invalid
        words.append('--config.runs[0].phases[0].objective.name=None')
    assert run(command, *words, '--print-config') == 0
    out = capsys.readouterr().out
    assert ' file\n' in out and ' default\n' in out
    assert (' command line\n' in out) == (command in ('plan', 'study'))


@pytest.mark.parametrize(
    'arguments, words',
    [
        ('', 'jepa-text COMMAND CONFIG'),
        ('trian', "'train'"),
        (
            'train --workdir=x',
            'The config is missing, as in `jepa-text train toy:clm_mlm',
        ),
        ('train quikstart --workdir=x', "Did you mean 'quickstart'?"),
        ('train --config=quikstart --workdir=x', "mean 'quickstart'?"),
        ('train README.md --workdir=x', "'README.md' is neither the name"),
        ('train toy:clm_mlm toy --workdir=x', "'toy'"),
        ('train toy --workdir=x --config=toy', "'toy' and --config are two configs"),
        ('evaluate evaluate:models=a --model=b', "'models' is given twice"),
        ('train toy:no --workdir=x', "preset='no'. Available: clm"),
        (f'train --config={TOY}', '--workdir is missing'),
        (f'train --config={TOY} --workdir={TOY}/x', 'toy.py is a file, but'),
        (f'train --config={TOY} --wrkdir=x', 'workdir'),
        (f'{TRAIN} --config.steps', "'config.steps'. Config keys are set as"),
        (f'{TRAIN} --config.steps 3', 'Config keys are set as --config.KEY=VALUE'),
        (f'{TRAIN} --noconfig.data.repeat', 'are set as --config.KEY=VALUE'),
        (f'{TRAIN} --config.model.deth=1', 'deth'),
        (f'{TRAIN} --config.steps=many', "steps='many' must be an integer"),
        (f'{TRAIN} --config.phases[7].steps=3', 'there is no [7], but 2 items'),
        (f'{TRAIN} --config.clip_norm=-1', 'clip_norm=-1 must be a number above 0'),
        (f'train --config={QUICKSTART} --workdir=x', 'use `jepa-text study`'),
        ('evaluate small', 'use `jepa-text train`. A model is --model=MODEL.\n'),
        ('evaluate six_sets', 'needs models, as --model=runs/a,hf:NAME.\n'),
        ('plan toy --distributed=on', "no flag 'distributed'"),
        ('plan toy --print_config', "mean 'print-config'? Available: compile"),
        (f'{TRAIN} more', "'more' is not a flag. Config keys are set as"),
        (f'{TRAIN} docs', ' A text is --text=docs.\n'),
        ('train docs --workdir=x', ' A text is --text=docs.\n'),
        ('evaluate runs/no', ' A model is --model=MODEL, a task --task=TASK.\n'),
        ('evaluate small a.csv', ' A model is --model=MODEL, a task --task=TASK.\n'),
        (f'{TRAIN} --learning=1', 'verbose, workdir. Config keys are set as --config.'),
        (f'{TRAIN} --config.batch_size=2', 'watchdog. It may be data.batch_size.\n'),
        (f'{TRAIN} --config.learning_rate=2', 'watchdog. It may be schedule.\n'),
        ('export --workdir=a --to=b --config.no=3', '--config.no: export has no config'),
        ('export small --to=b', "'small' is not a flag. A model is --workdir=MODEL."),
        ('train --workdir=x toy:mlm', "'toy:mlm' is not a flag. A config is the first"),
        ('train toy --config.steps 3 --workdir=x', 'are set as --config.KEY=VALUE'),
        ('train toy --text= --workdir=x', '--text is empty'),
        ('train toy --text=README.md --workdir=.', 'give a folder with a name'),
        ('evaluate --model=small --task=', '--task is empty'),
        (f'{TRAIN} --distributed=x', 'one of <auto|on|off>.\n'),
        (
            'train toy --text=a --text=b --workdir=x',
            '--text is given more than once. Keep',
        ),
        ('evaluate --model=a --model b', 'than once. Several: --model=A,B.'),
        (f'{TRAIN} --config.steps=1 --config.steps=2', 'config.steps is given more than'),
        (f'{TRAIN} --steps=1 --config.steps=2', 'than once (--steps is short for it).'),
        (f'{TRAIN} --config.steps=2 --steps=1', 'than once (--steps is short for it).'),
        ('evaluate --model=a --steps=1 --steps=2', '--steps is given more than once. K'),
        ('finetune --model=a --config.model=b', 'than once (--model is short for it).'),
        ('study speed --steps=3 --workdir=x', 'but muon_420 (runs[4]) would keep the'),
        ('study studies/pfs --config.steps=3 --workdir=x', '(runs[3]) and 11 more would'),
        ('study toy --workdir=x', 'has `phases`, so use `jepa-text train`.\n'),
        ('plan benchmark', 'has `cases`, so use `jepa-text benchmark`.\n'),
        ('help muom', "no help on 'muom'. Did you mean 'muon'?"),
        ('train toy --workdir=x --config.data={[]:1}', "data='{[]:1}' must be a section"),
        ('train toy --workdir=x --config.prepare.source={1:2}', "does not take '1'"),
    ],
)
def test_wrong_usage_is_explained(arguments, words, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert run(*arguments.split()) == 2
    error = capsys.readouterr().err
    assert words in error and 'Traceback' not in error


@pytest.mark.parametrize(
    'error, code',
    [
        (None, 0),
        (RuntimeError('broken'), 1),
        (OSError('disk'), 1),
        (FloatingPointError('nan'), 1),
        (KeyboardInterrupt(), 1),
        # Of a library, such as jax if a process died: a retry may help.
        (ValueError('Gloo all-reduce failed'), 1),
        (FileNotFoundError('rows'), 1),
        (exits.ConfigError('config'), 2),
        (exits.Diverged('nan'), 2),
        (exits.Stopped('stopped after step 3'), 75),
    ],
)
def test_exit_codes(error, code, monkeypatch, capsys):
    def train(config, workdir, evaluations):
        if error is not None:
            raise error

    monkeypatch.setattr('jepa_text.training.train.train', train)
    command = TRAIN.split()
    assert run(*command) == code
    error_output = capsys.readouterr().err
    assert str(error or '') in error_output and 'Traceback' not in error_output
    is_foreign = type(error) in (RuntimeError, FloatingPointError, ValueError)
    named = f'({type(error).__name__} in {__file__}, line'
    assert (named in error_output) == is_foreign
    assert ('--traceback shows all calls' in error_output) == is_foreign
    if isinstance(error, Exception) and not isinstance(error, exits.Stopped):
        # The flag only changes what is printed.
        assert run(*command, '--traceback') == code
        assert 'Traceback' in capsys.readouterr().err


EXPORT = ['export', *commands.COMMANDS['export'].example.split()]


@pytest.mark.parametrize(
    'where, words, says',
    [
        ('running.xla_flags.apply', ['plan'], 'before the command was started'),
        ('main.read', ['train'], 'before the command was started'),
        (
            'pretrained.export_command.run',
            EXPORT,
            'interrupted; the same command continues',
        ),
        ('pretrained.export_command.run', EXPORT, 'files of an unfinished upload first'),
    ],
)
def test_an_interrupt_is_one_line(where, words, says, monkeypatch, capsys):
    """While modules are imported, before the start, and in a command."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f'jepa_text.{where}', interrupted)
    with pytest.raises(SystemExit) as ended:
        main.run(['jepa-text', *words])
    assert ended.value.code == exits.FAILED
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith('jepa-text: interrupted') and says in line


@pytest.mark.slow
@pytest.mark.parametrize('flag', ['--help', '--print-config'])
def test_output_into_a_closed_pipe_prints_no_error(flag):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, '-m', 'jepa_text.main', 'train', f'--config={TOY}', flag]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == exits.FAILED and done.stderr == ''
