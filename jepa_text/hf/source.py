"""A folder of theirs, checked: its tensors are those of its config."""

import functools

import jax
import jax.numpy as jnp

from jepa_text.config import resolve
from jepa_text.data import tokenizers
from jepa_text.hf import configs, families, files, layout, names, placement, task_head
from jepa_text.models import heads

LM_MODELS = ('ForCausalLM', 'ForMaskedLM', 'LMHeadModel', 'ForPreTraining')


class Described:
    """What the json files of a folder say: config, section, names, tokenizer, how it
    reads; `of_task` is the task_head.Class that its config names, or None."""

    def __init__(self, folder, family):
        self.folder = folder
        config = files.read_json(folder / 'config.json')
        if config.get('quantization_config') is not None:
            raise ValueError(
                f'{folder / "config.json"} has a quantization_config: its weights are '
                'quantized. Take the folder of the whole ones.'
            )
        self.family, self.config = families.complete(config, family)
        self.section = configs.to_section(self.config, self.family)
        self.names = names.FAMILIES[self.family]
        is_causal = families.KINDS[self.family].causal or self.config.get('is_decoder')
        self.causal = bool(self.config.get('is_causal', is_causal))
        self.shift = families.shift_of(config, self.causal)
        self.tokenizer = self._tokenizer()
        self.of_task, _ = task_head.class_of(self.config, self.family)

    def _tokenizer(self):
        found = tokenizers.load(self.folder / 'tokenizer.json', optional=('mask',))
        if found.vocab_size > self.section['vocab_rows']:
            raise ValueError(
                f'{self.folder}: the tokenizer has {found.vocab_size} tokens, but the '
                f'embedding {self.section["vocab_rows"]} rows (vocab_size): '
                'they do not belong together.'
            )
        return found


class Source(Described):
    """The same with its tensors, which are those that its config wants."""

    def __init__(self, folder, family):
        super().__init__(folder, family)
        self.tensors = files.Tensors(folder)
        self.spelt = layout.canonical(self.names, self.tensors.names)
        self.tied = self._is_tied()
        self.has_head = self._has_head()
        self.shapes = shapes_of(self.section, self.tied, self.has_head)
        sizes = {new: self.shape(new) for new in self.spelt}
        bound = layout.bindings(self.names, self.shapes)
        placement.check(bound, self.shapes, sizes, self._unneeded())

    def _is_tied(self):
        """Whatever the config says, transformers unties a head with other values."""
        paths = 'encoder/embedding', 'lm_head/output/kernel'
        found = [self.spelt.get(name) for name in map(self.names.theirs, paths)]
        wanted = bool(self.config['tie_word_embeddings'])
        return wanted and (None in found or self.tensors.alike(*found))

    def _has_head(self):
        if self.of_task is not None:
            return False
        if self.names.of_head() & set(self.spelt):
            return True
        usual = families.KINDS[self.family].architecture
        listed = self.config.get('architectures') or [usual]
        return self.tied and self.plain_head and listed[0].endswith(LM_MODELS)

    @property
    def plain_head(self):
        """Tokens are scored by one product, so that a tied head has no tensors."""
        return encoder_of(self.section).head is None

    def _unneeded(self):
        """Tensors of tasks and poolers, and a tied head that was saved all the same."""
        return {
            name
            for name in self.spelt
            if self.names.is_left_out(name)
            or (self.tied and name == self.names.theirs('lm_head/output/kernel'))
            or (self.of_task is not None and task_head.is_of(self.of_task, name))
        }

    def task(self):
        """The head of a task, if there is one of ours."""

        def tensor(name):
            return self.read(name, *map(slice, self.shape(name)))

        return task_head.read(self.config, self.family, self.spelt, tensor)

    def left_out(self, used):
        """The file's names of what the model as read does not have."""
        taken = {self.spelt[name] for name in used if name in self.spelt}
        return sorted(set(self.tensors.names) - taken)

    def read(self, name, *index):
        return self.tensors.read(self.spelt[name], *index)

    def shape(self, name):
        return self.tensors.shape(self.spelt[name])


def encoder_of(section):
    """The module of a canonical section."""
    section = {'vocab_size': section['vocab_rows'], **section}
    return resolve.build('models', section)


def shapes_of(section, tied, has_head):
    """{path: shape} of the parameters of the encoder, and of its head if it has one."""
    encoder = encoder_of(section)
    ids_BL = jnp.zeros((1, 1), jnp.int32)
    run = functools.partial(init, encoder, ids_BL, ids_BL, ids_BL, causal=False)
    tree = {'encoder': jax.eval_shape(run)}
    if has_head:
        head = heads.lm_head(encoder, tied)
        tree['lm_head'] = jax.eval_shape(lambda: init(head, *head.example()))
    return {
        jax.tree_util.keystr(path, simple=True, separator='/'): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def init(module, *inputs, **options):
    """The parameters of a module, of seed 0."""
    return module.init(jax.random.key(0), *inputs, **options).get('params', {})
