"""Words of tokens, against word_ids of transformers in ten languages."""

import json

import pytest
import tokenizers as library
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from jepa_text.data import tokenizers
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import base, tags

pytestmark = pytest.mark.peer
SENTENCES = {
    'English': 'The quick fox isn\'t afraid of Ishmael \'s 3,000 whales ; " Aye "',
    'German': 'Der Donaudampfschifffahrtskapitän aß am 3. Oktober für 5 € .',
    'French': "L' été où l' on s' est aimé à Noël coûtait 3\u00a0000 € .",
    'Russian': 'Москва — столица России , где живёт Фёдор .',
    'Arabic': 'ذهب مُحَمَّدٌ إلى القاهرة في عام ٢٠٢٠ .',
    'Hebrew': 'בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם .',
    'Hindi': 'भारत की राजधानी नई दिल्ली में प्रधानमंत्री हैं ।',
    'Thai': 'นาย สมชาย เดินทาง ไป กรุงเทพ วันที่ ๕ มกราคม',
    'Chinese': '北京 是 中华人民共和国 的 首都 ， 天气 很 好 。',
    'Japanese': '東京 は 日本 の 首都 で 、 ｱｲｳ さん が ガ 住む 。',
    'Korean': '서울 은 한국 의 수도 이다 \u1112\u1161\u11ab .',
    'marks': 'a e\u0301\u0301 \u0301 \U0001f469\u200d\U0001f467 ½ ﬁ ㎞ x',
}
SPECIAL = ['<pad>', '<s>', '</s>', '<mask>', '<unk>']


def _bytes():
    backend = library.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    letters = pre_tokenizers.ByteLevel.alphabet()
    options = dict(vocab_size=420, initial_alphabet=letters)
    return backend, trainers.BpeTrainer(special_tokens=SPECIAL, **options)


def _metaspace():
    backend = library.Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    options = dict(vocab_size=330, unk_token='<unk>')
    return backend, trainers.UnigramTrainer(special_tokens=SPECIAL, **options)


def _wordpiece():
    backend = library.Tokenizer(models.WordPiece(unk_token='<unk>'))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend, trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL)


@pytest.mark.parametrize('make', [_bytes, _metaspace, _wordpiece])
def test_words_of_tokens_equal_those_of_transformers(make):
    transformers = pytest.importorskip('transformers')
    backend, trainer = make()
    trainer.show_progress = False
    backend.train_from_iterator(SENTENCES.values(), trainer)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    ours = tokenizers.parse(json.loads(backend.to_str()), 'ours')
    sentences = [sentence.split(' ') for sentence in SENTENCES.values()]
    reader = base.Reader(ours, (ours.bos_id,), (ours.eos_id,), 256)
    rows = tags.Tags(labels=('O',)).rows(reader, tasks.Examples(sentences))
    for words, row in zip(sentences, rows):
        read = theirs(words, is_split_into_words=True, add_special_tokens=False)
        assert row.tokens[1:-1].tolist() == read['input_ids']
        assert row.notes[1:-1].tolist() == read.word_ids()
