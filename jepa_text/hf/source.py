"""A Hugging Face model folder, whose tensors are checked against its config."""

import functools
import json

import jax
from flax import traverse_util

from jepa_text.data import tokenizers
from jepa_text.hf import configs, files, task_head, weights
from jepa_text.hf.configs import encoder_of
from jepa_text.hf.families import FAMILIES
from jepa_text.models import heads, memo
from jepa_text.models.network import init_module

# {key of tokenizer_config.json: (key of a BertNormalizer in tokenizer.json, default)}.
NORMALIZER = {
    'do_lower_case': ('lowercase', True),
    'strip_accents': ('strip_accents', None),
    'tokenize_chinese_chars': ('handle_chinese_chars', True),
}
AS_STORED = ('PreTrainedTokenizerFast', 'TokenizersBackend')
LM_MODELS = ('ForCausalLM', 'ForMaskedLM', 'LMHeadModel', 'ForPreTraining')


class Source:
    """A folder: config, section, families.Family, tokenizer, attention, and its tensors.

    `task_class` is the families.TaskClass that its config names, or None. Raises
    ValueError for tensors that do not match the config; without `has_weights`, they are
    not read.
    """

    def __init__(self, folder, family=None, has_weights=True):
        self.folder = folder
        config = files.read_json(folder / 'config.json')
        if config.get('quantization_config') is not None:
            raise ValueError(
                f'{folder / "config.json"} has a quantization_config: its weights are '
                'quantized. Use the folder with the unquantized ones.'
            )
        self.family, self.config = configs.complete(config, family)
        self.section = configs.to_section(config, family)
        self.kind = FAMILIES[self.family]
        is_causal = self.kind.causal or self.config.get('is_decoder')
        self.causal = bool(self.config.get('is_causal', is_causal))
        self.shift = _shift_of(config, self.causal)
        self.tokenizer = self._tokenizer()
        self.task_class, _ = task_head.class_of(self.config, self.family)
        if has_weights:
            self._open()

    def _open(self):
        self.tensors = files.Tensors(self.folder)
        self.file_names = weights.canonical(self.kind, self.tensors.names)
        self.tied = self._is_tied()
        self.has_head = self._has_head()
        shapes = shapes_of(self.section, self.tied, self.has_head)
        sizes = {name: self.shape(name) for name in self.file_names}
        bound = weights.bindings(self.kind, shapes)
        weights.check(bound, shapes, sizes, self._ignored())

    def _tokenizer(self):
        tokenizer = tokenizers.load(self.folder / 'tokenizer.json', optional=('mask',))
        if tokenizer.vocab_size > self.section['vocab_rows']:
            raise ValueError(
                f'{self.folder}: the tokenizer has {tokenizer.vocab_size} tokens, but '
                f'the embedding has {self.section["vocab_rows"]} rows (vocab_size): they '
                'do not belong together.'
            )
        self._check_normalizer(json.loads(tokenizer.content).get('normalizer') or {})
        return tokenizer

    def _check_normalizer(self, stored):
        """transformers sets a BertNormalizer anew, unless the class is in AS_STORED."""
        file = self.folder / 'tokenizer_config.json'
        if stored.get('type') != 'BertNormalizer' or not file.is_file():
            return
        given = files.read_json(file)
        settings = {} if given.get('tokenizer_class') in AS_STORED else NORMALIZER
        for key, (ours, usual) in settings.items():
            value, has = given.get(key, usual), stored.get(ours)
            # strip_accents=None stands for the value of lowercase.
            meant = {stored.get('lowercase') if x is None else x for x in (value, has)}
            if len(meant) > 1:
                raise ValueError(
                    f'{file}: {key}={value}, but tokenizer.json has {ours}={has}. '
                    'transformers takes the first, set or not: make them agree.'
                )

    def _is_tied(self):
        """Whether the head is tied; as in transformers, not if its values differ."""
        names = self.kind.embedding, self.kind.output
        stored = [self.file_names.get(name) for name in names]
        wanted = bool(self.config['tie_word_embeddings'])
        return wanted and (None in stored or self.tensors.equal(*stored))

    def _has_head(self):
        if self.task_class is not None:
            return False
        if any(map(self.kind.is_of_head, self.file_names)):
            return True
        listed = self.config.get('architectures') or [self.kind.architecture]
        # A tied head that is a single matrix has no tensors.
        is_plain = encoder_of(self.section).head is None
        return self.tied and is_plain and listed[0].endswith(LM_MODELS)

    def _ignored(self):
        """Tensors of task heads and poolers, and a tied head that was saved anyway."""
        of_task = self.task_class.names.values() if self.task_class else ()
        return {
            name
            for name in self.file_names
            if self.kind.is_left_out(name)
            or (self.tied and name == self.kind.output)
            or name.rpartition('.')[0] in of_task
        }

    def task(self):
        """The TaskHead of the model, or None if it has none that is supported."""

        def tensor(name):
            return self.read(name, *map(slice, self.shape(name)))

        return task_head.read(self.config, self.family, self.file_names, tensor)

    def left_out(self, used):
        """The names in the file of tensors that were not `used`."""
        taken = {self.file_names[name] for name in used if name in self.file_names}
        return sorted(set(self.tensors.names) - taken)

    def read(self, name, *index):
        return self.tensors.read(self.file_names[name], *index)

    def shape(self, name):
        return self.tensors.shape(self.file_names[name])


def _shift_of(config, causal):
    """How many positions before a token the LM head predicts it: 0 or 1.

    Given by the `jepa_text` entry of our exports, else 1 if causal.
    """
    own = config.get('jepa_text', {})
    shift = own.get('shift', int(causal)) if isinstance(own, dict) else None
    if shift not in (0, 1):
        raise ValueError(
            f'config.json: jepa_text={own!r} must be {{"shift": 0}} or {{"shift": 1}}, '
            'or be left out.'
        )
    return shift


# An export reads back the model that it wrote.
@memo.memoize
def shapes_of(section, tied, has_head):
    """{path: shape} of the parameters of the encoder, and of its head if it has one."""
    encoder = encoder_of(section)
    modules = {'encoder': encoder}
    if has_head:
        modules['lm_head'] = heads.lm_head(encoder, tied)
    tree = {
        name: jax.eval_shape(functools.partial(init_module, name, module, 0))
        for name, module in modules.items()
    }
    leaves = traverse_util.flatten_dict(tree, sep='/')
    return {path: leaf.shape for path, leaf in leaves.items()}
