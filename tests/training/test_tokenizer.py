"""The command `jepa-text tokenizer`: trained and imported tokenizers, and the report."""

import json
import textwrap
from pathlib import Path

import foreign_tokenizers
import hub_server
import pytest

from jepa_text import main
from jepa_text.data import tokenizers
from jepa_text.data.corpora import corpus
from jepa_text.data.tokenizers import training
from jepa_text.parallel import exits
from jepa_text.settings import config_file
from jepa_text.training import tokenizer

ROOT = Path(__file__).parents[2]
CONFIG = str(ROOT / 'configs' / 'tokenizer.py')
WORDS = 'the whale and the sea, 1851; Queequeg é'


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / 'texts'
    folder.mkdir()
    for name in ('one', 'two'):
        lines = [f'{WORDS} {name} {n}' for n in range(1300)]
        (folder / f'{name}.txt').write_text('\n\n'.join(lines), encoding='utf-8')
    return folder


def tokenize(workdir, argument='', *settings):
    words = [f'--config={CONFIG}:{argument}', f'--workdir={workdir}', *settings]
    return main.main(['jepa-text', 'tokenizer', *words])


def report(workdir):
    return json.loads((workdir / 'report.json').read_text(encoding='utf-8'))


def test_the_same_tokenizer_by_another_process_meanwhile_is_used(
    texts, tmp_path, monkeypatch, capsys
):
    """Another one, or a foreign folder, is still an error."""
    out, make, done = tmp_path / 'out', tokenizer._make, []
    words = [f"--config.source={{'name': 'text', 'path': '{texts}'}}"]

    def late(*given):
        if not done:
            done.append('begun')
            done.append(tokenize(out, f'vocab_size={size}', *words))
        return make(*given)

    size = 400
    monkeypatch.setattr(tokenizer, '_make', late)
    assert tokenize(out, 'vocab_size=400', *words) == 0 and done == ['begun', 0]
    out, size = tmp_path / 'other', 300
    done.clear()
    assert tokenize(out, 'vocab_size=400', *words) != 0 and done == ['begun', 0]
    assert tokenizers.load(out).vocab_size == 300


def test_a_folder_of_text_becomes_a_tokenizer(texts, tmp_path, capsys):
    out = tmp_path / 'out'
    every = f"--config.source={{'name': 'text', 'path': '{texts}', 'heldout_every': 5}}"
    compare = "--config.compare=('bundled',)"
    assert tokenize(out, 'vocab_size=400', every, compare) == 0
    made, said = tokenizers.load(out), report(out)
    assert made.vocab_size <= 400 and said['fingerprint'] == made.fingerprint
    assert sorted(p.name for p in out.iterdir()) == ['report.json', 'tokenizer.json']
    assert said['measured_on']['what'] == 'held-out text'
    assert said['trained_on']['documents'] + said['measured_on']['documents'] == 2600
    ours, bundled = said['tokenizers'].values()
    assert ours['counts']['bytes'] == bundled['counts']['bytes']
    assert ours['counts']['words'] == 10 * said['measured_on']['documents']
    printed = capsys.readouterr().out
    for line in ('tokens per word', 'bytes per token', 'share unknown', 'bundled'):
        assert line in printed
    assert f'{ours["fertility"]["bytes_per_token"]:.3f}' in printed
    assert 'trained bpe on' in printed


def test_the_same_command_again_prints_the_same(texts, tmp_path, capsys):
    out = tmp_path / 'out'
    assert tokenize(out, f'vocab_size=400,text={texts}') == 0
    first, when = (
        capsys.readouterr().out.splitlines(),
        (out / 'report.json').stat().st_mtime_ns,
    )
    assert tokenize(out, f'vocab_size=400,text={texts}') == 0
    assert first[0].startswith('training on ')
    assert capsys.readouterr().out.splitlines() == first[1:]
    assert (out / 'report.json').stat().st_mtime_ns == when
    assert tokenize(out, f'vocab_size=401,text={texts}') != 0
    assert 'contains a tokenizer with other settings' in capsys.readouterr().err
    assert tokenize(texts, f'vocab_size=400,text={texts}') != 0
    assert 'something other than a tokenizer' in capsys.readouterr().err
    content = json.loads((out / 'tokenizer.json').read_text())
    vocabulary = content['model']['vocab']
    one, two = list(vocabulary)[-2:]
    vocabulary |= {one: vocabulary[two], two: vocabulary[one]}
    (out / 'tokenizer.json').write_text(json.dumps(content))
    assert tokenize(out, f'vocab_size=400,text={texts}') != 0
    assert 'tokenizer.json was changed: its fingerprint is' in capsys.readouterr().err
    (out / 'report.json').write_text('{')
    assert tokenize(out, f'vocab_size=400,text={texts}') == exits.USAGE
    assert 'report.json is damaged' in capsys.readouterr().err


def test_the_report_mentions_sampling(texts, tmp_path, capsys, monkeypatch):
    read, documents = [], corpus.Corpus.documents

    def counted(*given):
        for document in documents(*given):
            read.append(document['text'])
            yield document

    monkeypatch.setattr(corpus.Corpus, 'documents', counted)
    sizes = ['--config.sample.bytes=2000', '--config.sample.read_bytes=4000']
    assert tokenize(tmp_path / 'out', f'vocab_size=400,text={texts}', *sizes) == 0
    # Of 130,000 bytes, for both splits.
    assert len(''.join(read)) < 9000
    printed = capsys.readouterr().out
    found = report(tmp_path / 'out')['trained_on']
    assert found['bytes'] <= 2000 and not found['is_all'] and found['share'] < 1
    assert 'a sample of' in printed and 'bytes of the corpus were read' in printed
    assert 'entries instead of 400' in printed


def test_invalid_documents_are_skipped(texts, tmp_path, capsys):
    (texts / 'three.txt').write_bytes(b'caf\xe9\n\na \0')
    assert tokenize(tmp_path / 'out', f'vocab_size=400,text={texts}') == 0
    lines = [
        'documents left out: 1 bad: a NUL in it, 1 bad: not UTF-8',
        f'bad: a NUL in it, such as {texts}/three.txt, document 2',
        f'bad: not UTF-8, such as {texts}/three.txt, document 1',
    ]
    assert report(tmp_path / 'out')['said'][-3:] == lines
    said = capsys.readouterr().out
    assert all(said.count(line) == 1 for line in lines)
    for name in ('one', 'two'):
        (texts / f'{name}.txt').unlink()
    assert tokenize(tmp_path / 'none', f'vocab_size=400,text={texts}') == exits.USAGE
    assert 'no text for a tokenizer' in (told := capsys.readouterr().err)
    assert lines[0] in told and '`iconv`' in told


def test_missing_held_out_text_is_reported(texts, tmp_path, capsys):
    (texts / 'two.txt').unlink()
    (texts / 'one.txt').write_text(WORDS)
    assert tokenize(tmp_path / 'out', f'vocab_size=400,text={texts}') == 0
    assert (
        'Measured on the text that it was trained on (as only 0 bytes are held out): 1 '
        in capsys.readouterr().out
    )


def test_an_existing_tokenizer_is_completed_and_measured(texts, tmp_path, capsys):
    path = foreign_tokenizers.wordpiece(tmp_path / 'theirs' / 'tokenizer.json')
    with pytest.raises(ValueError, match='no pad token.*jepa-text tokenizer'):
        tokenizers.load(path)
    for number, name in enumerate((path, path.parent, f'hf:{path.parent}')):
        out = tmp_path / f'out{number}'
        assert tokenize(out, f'text={texts}', f'--config.tokenizer={name}') == 0
        made = tokenizers.load(out)
        assert made.backend.token_to_id('<pad>') == made.pad_id == 3
        assert made.mask_id == 22
        printed = capsys.readouterr().out
        assert 'pad: <pad> is the reserved token [unused0], id 3' in printed
        assert 'mask: <mask> is new, id 22, after all others' in printed
        assert report(out)['trained_on'] is None
    unknown = report(out)['tokenizers']['out2']['unknown']
    assert 0 < unknown['share'] < 1


def test_a_workdir_named_as_what_it_is_compared_with_is_measured(texts, tmp_path):
    out, compare = tmp_path / 'bundled', "--config.compare=('bundled',)"
    assert tokenize(out, f'vocab_size=300,text={texts}', compare) == 0
    sizes = {k: one['vocab_size'] for k, one in report(out)['tokenizers'].items()}
    assert sizes == {str(out / 'tokenizer.json'): 300, 'bundled': 2048}


EACH = """
    import contextlib, io, json
    from jepa_text import main

    def show(words):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main.main(['jepa-text', 'tokenizer', *words])
        return [code, said.getvalue()]
"""


def ask(address, cache, places, **more):
    """Returns {name: [exit code, output]} of the command for each {name: workdir}, all in
    one new process."""
    asked = {
        name: [f'--config={CONFIG}', f'--workdir={place}', f'--config.tokenizer={name}']
        for name, place in places.items()
    }
    shown = f'print(json.dumps({{k: show(words) for k, words in {asked!r}.items()}}))'
    program = f'{textwrap.dedent(EACH)}{shown}'
    return hub_server.run_program(program, address, cache, **more)


@pytest.mark.slow
def test_a_name_on_the_hub(tmp_path):
    hub = tmp_path / 'hub'
    foreign_tokenizers.wordpiece(hub / 'lab' / 'small' / 'main' / 'tokenizer.json')
    other = foreign_tokenizers.wordpiece(hub / 'lab' / 'small' / 'v1' / 'tokenizer.json')
    whole = training.train(['the sea'] * 9, 300)
    whole.save(other)
    hub_server.write(hub / 'lab' / 'old' / 'main', {'spiece.model': 'x'})
    foreign_tokenizers.wordpiece(hub / 'lab' / 'gated' / 'main' / 'tokenizer.json')
    errors = {
        'hf:lab/none': 'hf:lab/none does not exist',
        'hf:lab/small@v7': 'hf:lab/small at revision v7 does not exist',
        'hf:lab/gated': 'Access to hf:lab/gated is denied',
        f'hf:{hub_server.KEYED}': '`hf auth login`, or set HF_TOKEN',
        'hf:lab/old': 'hf:lab/old has no tokenizer.json',
    }
    names = ('hf:lab/small', 'hf:lab/small@v1', *errors)
    places = {name: tmp_path / name.replace('/', '-') for name in names}
    with hub_server.serving(hub) as (address, _):
        found = ask(address, tmp_path / 'cache', places)
    code, said = found['hf:lab/small']
    assert code == 0 and 'read from hf:lab/small, commit ' in said, said
    assert '[unused0], id 3' in said
    code, said = found['hf:lab/small@v1']
    assert code == 0 and 'nothing added' in said, said
    for name, words in errors.items():
        code, said = found[name]
        assert code in (exits.FAILED, exits.USAGE) and words in said, said
        assert 'Traceback' not in said and not places[name].exists()
    # Without a network, the cache is used.
    again = {'hf:lab/small': tmp_path / 'x'}
    found = ask('', tmp_path / 'cache', again, HF_HUB_OFFLINE='1')
    assert found['hf:lab/small'][0] == 0, found


def test_errors_are_reported_and_leave_no_files(texts, tmp_path, capsys):
    empty, cut = tmp_path / 'empty', tmp_path / 'cut.json'
    empty.mkdir()
    (empty / 'a.txt').write_text('\n \n')
    whole = foreign_tokenizers.wordpiece(
        tmp_path / 'theirs' / 'tokenizer.json'
    ).read_text()
    cut.write_text(whole[: len(whole) // 2])
    cases = [
        ([f'vocab_size=400,text={empty}'], 'The corpus has no text for a tokenizer'),
        ([f'vocab_size=400,text={tmp_path}/none'], str(tmp_path / 'none')),
        (
            [f'vocab_size=100,text={texts}'],
            'train.vocab_size=100 must be an integer at least 264 and at most 4000000',
        ),
        ([f'text={texts}', '--config.train.kind=wordpiece'], "no key 'kind'"),
        ([f'text={texts}', '--config.train.vocab_size=4_000_000_001'], 'at most 4000000'),
        ([f'text={texts}', f'--config.tokenizer={cut}'], 'it is not JSON in UTF-8'),
        ([f'text={texts}', '--config.tokenizer=none.json'], 'No tokenizer at none.json'),
        ([f'text={texts}', '--config.tokenizer=https://a/b'], 'is an address'),
        ([f'text={texts}', '--config.tokenizer=hf:https://a'], 'is an address'),
        (
            [f'text={texts}', "--config.compare=('none.json',)"],
            'No tokenizer at none.json',
        ),
    ]
    before = sorted(p.name for p in tmp_path.iterdir())
    for (argument, *settings), words in cases:
        assert tokenize(tmp_path / 'out', argument, *settings) == exits.USAGE
        said = capsys.readouterr().err
        assert words in said and 'Traceback' not in said, said
        assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_the_config_file_takes_size_and_text():
    get_config = config_file.shared('tokenizer').get_config
    assert get_config().source.name == 'bundled'
    config = get_config(vocab_size=2048, text='a/b.jsonl.gz')
    assert config.train.to_dict() == {'vocab_size': 2048}
    assert config.source.to_dict() == {'name': 'jsonl', 'path': 'a/b.jsonl.gz'}
    assert get_config(text='texts/').source.to_dict() == {'name': 'text', 'path': 'texts'}


@pytest.mark.peer
def test_a_sentencepiece_model_becomes_a_tokenizer(texts, tmp_path, capsys):
    path, out = tmp_path / 'their.model', tmp_path / 'out'
    foreign_tokenizers.sentencepiece(path)
    assert tokenize(out, f'text={texts}', f'--config.tokenizer={path}') == 0
    printed, made = capsys.readouterr().out, tokenizers.load(out)
    assert 'SentencePiece, unigram, 14 pieces' in printed
    assert 'pad: <pad> is the reserved token <unused0>, id 3' in printed
    assert (made.bos_id, made.eos_id, made.pad_id, made.mask_id) == (1, 2, 3, 14)
    assert not set(made.special_ids) & set(made.encode('the <mask> <pad> </s>')) - {0}
