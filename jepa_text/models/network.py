"""The network of an objective: the encoder and the modules on top of it."""

import zlib

import jax
import jax.numpy as jnp

# Of all random keys, whatever JAX_DEFAULT_PRNG_IMPL says: each draws other numbers.
PRNG = 'threefry2x32'


class Modules:
    """Modules by name, applied to parameters by name."""

    def __init__(self, modules):
        self.modules = modules

    def apply(self, name, params, *inputs, **options):
        """Runs one module with params[name]; its name is also the scope in profiles."""
        with jax.named_scope(name):
            return self.modules[name].apply(
                {'params': params.get(name, {})}, *inputs, **options
            )

    def only(self, names):
        """Returns the Modules of these names, which may be equal for two objectives."""
        return Modules({name: self.modules[name] for name in names})


class Network(Modules):
    """The encoder and the modules of an objective, by name in `modules`."""

    def __init__(self, encoder, objective):
        self.encoder, self.objective = encoder, objective
        super().__init__({'encoder': encoder, **objective.modules(encoder)})

    def init(self, seed):
        """Returns initial parameters of all modules, given a seed or its key.

        Those of a module depend only on the seed and the module's name, so runs with
        different objectives start from the same encoder.
        """
        return {
            name: init_module(name, module, seed) for name, module in self.modules.items()
        }


def init_module(name, module, seed):
    """Returns initial parameters of the module of this name, given a seed or its key."""
    # Parameters do not depend on the attention backend, and kernels may not support the
    # small example inputs.
    if hasattr(module, 'attention'):
        module = module.clone(attention='xla')
    key = jax.random.fold_in(key_of(seed), zlib.crc32(name.encode()))
    if name == 'encoder':
        ids_BL = jnp.zeros((1, 2), jnp.int32)
        variables = module.init(key, ids_BL, ids_BL, ids_BL, causal=False)
    else:
        variables = module.init(key, *module.example())
    return variables.get('params', {})


def key_of(seed):
    """Returns the random key of an integer seed of any size; a key is returned as it is.

    jax.random.key uses only the last 32 bits of a seed.

    >>> keys = [jax.random.key_data(key_of(seed)) for seed in (1, 2**32 + 1)]
    >>> print(keys[0], bool((keys[0] == keys[1]).all()))
    [0 1] False
    """
    if isinstance(seed, jax.Array):
        return seed
    low, high = seed % 2**32, seed >> 32
    key = jax.random.key(low, impl=PRNG)
    while high:
        key = jax.random.fold_in(key, high % 2**32)
        high >>= 32
    return key


def key_from(data):
    """Returns the random key of its data, as jax.random.key_data of `key_of` gives it."""
    return jax.random.wrap_key_data(data, impl=PRNG)
