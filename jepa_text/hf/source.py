"""A Hugging Face model folder, whose tensors are checked against its config."""

import functools

import jax
import jax.numpy as jnp
from flax import traverse_util

from jepa_text.config import resolve
from jepa_text.data import tokenizers
from jepa_text.hf import configs, families, files, layout, names, placement, task_head
from jepa_text.models import heads, memo
from jepa_text.models.network import key_of

LM_MODELS = ('ForCausalLM', 'ForMaskedLM', 'LMHeadModel', 'ForPreTraining')


class SourceConfig:
    """The JSON files of a folder: config, section, tensor names, tokenizer, attention.

    `task_class` is the task_head.Class that its config names, or None.
    """

    def __init__(self, folder, family):
        self.folder = folder
        config = files.read_json(folder / 'config.json')
        if config.get('quantization_config') is not None:
            raise ValueError(
                f'{folder / "config.json"} has a quantization_config: its weights are '
                'quantized. Use the folder with the unquantized ones.'
            )
        self.family, self.config = families.complete(config, family)
        self.section = configs.to_section(self.config, self.family)
        self.names = names.FAMILIES[self.family]
        is_causal = families.KINDS[self.family].causal or self.config.get('is_decoder')
        self.causal = bool(self.config.get('is_causal', is_causal))
        self.shift = families.shift_of(config, self.causal)
        self.tokenizer = self._tokenizer()
        self.task_class, _ = task_head.class_of(self.config, self.family)

    def _tokenizer(self):
        tokenizer = tokenizers.load(self.folder / 'tokenizer.json', optional=('mask',))
        if tokenizer.vocab_size > self.section['vocab_rows']:
            raise ValueError(
                f'{self.folder}: the tokenizer has {tokenizer.vocab_size} tokens, but '
                f'the embedding has {self.section["vocab_rows"]} rows (vocab_size): they '
                'do not belong together.'
            )
        return tokenizer


class Source(SourceConfig):
    """A SourceConfig with its tensors, which match the config."""

    def __init__(self, folder, family):
        super().__init__(folder, family)
        self.tensors = files.Tensors(folder)
        self.file_names = layout.canonical(self.names, self.tensors.names)
        self.tied = self._is_tied()
        self.has_head = self._has_head()
        self.shapes = shapes_of(self.section, self.tied, self.has_head)
        sizes = {name: self.shape(name) for name in self.file_names}
        bound = layout.bindings(self.names, self.shapes)
        placement.check(bound, self.shapes, sizes, self._ignored())

    def _is_tied(self):
        """Whether the head is tied; as in transformers, not if its values differ."""
        paths = 'encoder/embedding', 'lm_head/output/kernel'
        stored = [self.file_names.get(name) for name in map(self.names.theirs, paths)]
        wanted = bool(self.config['tie_word_embeddings'])
        return wanted and (None in stored or self.tensors.equal(*stored))

    def _has_head(self):
        if self.task_class is not None:
            return False
        if self.names.of_head() & set(self.file_names):
            return True
        usual = families.KINDS[self.family].architecture
        listed = self.config.get('architectures') or [usual]
        return self.tied and self.plain_head and listed[0].endswith(LM_MODELS)

    @property
    def plain_head(self):
        """Whether the LM head is a single matrix; if tied, it then has no tensors."""
        return encoder_of(self.section).head is None

    def _ignored(self):
        """Tensors of task heads and poolers, and a tied head that was saved anyway."""
        return {
            name
            for name in self.file_names
            if self.names.is_left_out(name)
            or (self.tied and name == self.names.theirs('lm_head/output/kernel'))
            or (self.task_class is not None and task_head.is_of(self.task_class, name))
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


def encoder_of(section):
    """The encoder module of a canonical section."""
    section = {'vocab_size': section['vocab_rows'], **section}
    return resolve.build('models', section)


def shapes_of(section, tied, has_head):
    """{path: shape} of the parameters of the encoder, and of its head if it has one."""
    return dict(_shapes_of(encoder_of(section), tied, has_head))


# An export reads back the model that it wrote.
@memo.memoize
def _shapes_of(encoder, tied, has_head):
    ids_BL = jnp.zeros((1, 1), jnp.int32)
    run = functools.partial(init, encoder, ids_BL, ids_BL, ids_BL, causal=False)
    tree = {'encoder': jax.eval_shape(run)}
    if has_head:
        head = heads.lm_head(encoder, tied)
        tree['lm_head'] = jax.eval_shape(lambda: init(head, *head.example()))
    leaves = traverse_util.flatten_dict(tree, sep='/')
    return {path: leaf.shape for path, leaf in leaves.items()}


def init(module, *inputs, **options):
    """The parameters of a module, initialized with seed 0."""
    return module.init(key_of(0), *inputs, **options).get('params', {})
