"""The house rules that a program can check."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'jepa_text'
SOURCES = sorted(PACKAGE.rglob('*.py'))
# Also what runs beside the package: it is read and copied by people all the same.
PROGRAMS = [*SOURCES, *sorted((ROOT / 'configs').rglob('*.py')), ROOT / 'setup.py']

LONGEST_FILE = 500
LONGEST_FUNCTION = 60

# Code that comes with data; ruff finds eval, exec and pickle.
CODE_OF_DATA = re.compile(r'(allow_pickle|trust_remote_code)=(?!False)|torch\.load\(')
# Importing does nothing: no device, no random state, no flag, no setting.
FORBIDDEN_AT_IMPORT = re.compile(
    r'(jax\.(random|numpy|config|device|local_|distributed|make_mesh).*'
    r'|jnp\..*|np\.random\..*|random\..*|flags\.DEFINE.*|logging\.basicConfig'
    r'|os\.environ\..*|os\.makedirs|open)'
)


def short(path):
    return path.relative_to(ROOT).as_posix()


def parse(path):
    return ast.parse(path.read_text(encoding='utf-8'))


@functools.lru_cache(maxsize=1)
def nodes(tree):
    """All nodes of a tree: what walking costs is most of the cost of a rule."""
    return tuple(ast.walk(tree))


def dotted(node):
    """'np.random.default_rng' of the expression; '' of one that is not a dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f'{dotted(node.value)}.{node.attr}'.lstrip('.')
    return ''


def long_functions(tree):
    """(name, lines) of functions over their budget."""
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield node.name, lines


def at_import(node):
    """Nodes that run when the module is imported: not the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and '__main__' in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


def import_effects(tree):
    """(line, what) of state made or changed by importing the module."""
    for node in at_import(tree):
        if isinstance(node, ast.Call) and FORBIDDEN_AT_IMPORT.fullmatch(
            dotted(node.func)
        ):
            yield node.lineno, dotted(node.func)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and mutable(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in map(dotted, targets):
                if name != '__all__' and name != name.upper():
                    yield node.lineno, f'{name} can change; a constant is in capitals'


def mutable(value):
    made = isinstance(value, ast.Call) and dotted(value.func) in ('list', 'dict', 'set')
    return made or isinstance(value, ast.List | ast.Dict | ast.Set)


def over_budget(tree, path):
    """What is too long in a file."""
    lines = len(path.read_text(encoding='utf-8').splitlines())
    if lines > LONGEST_FILE:
        yield f'{lines} lines: split it along the line of data'
    for name, lines in long_functions(tree):
        yield f'{name} has {lines} lines, allowed are {LONGEST_FUNCTION}'


def dangerous(tree, path):
    """Code from data."""
    for found in CODE_OF_DATA.finditer(path.read_text(encoding='utf-8')):
        yield f'{found[0]} runs what a file says'


def done_at_import(tree, path):
    """What importing a file does."""
    for line, what in import_effects(tree):
        yield f'{line}: {what}'


def british(tree, path):
    """Names that are not spelled as in the US."""
    if path.name != 'test_style.py':
        if BRITISH.search(path.stem):
            yield 'the name of the file is British'
        for line, name in british_names(tree):
            yield f'{line}: {name} is British'


def test_every_file_keeps_the_rules():
    rules = {
        over_budget: {*SOURCES},
        dangerous: {*PROGRAMS},
        done_at_import: {*SOURCES},
        british: {*CODE},
    }
    found = []
    for path in sorted({*PROGRAMS, *CODE}):
        tree = parse(path)
        for rule, paths in rules.items():
            if path in paths:
                found += [f'{short(path)}:{what}' for what in rule(tree, path)]
    assert not found, '\n'.join(found)


def test_no_drawers():
    drawers = {'utils', 'util', 'helpers', 'common', 'misc'}
    found = [short(path) for path in PACKAGE.rglob('*') if path.stem in drawers]
    assert not found, f'{found}: name a file after what is in it'


def test_the_rules_catch_what_they_forbid():
    assert CODE_OF_DATA.search('np.load(f, allow_pickle=True)')
    assert not CODE_OF_DATA.search('np.load(f, allow_pickle=False)')

    def effects(source):
        return len(list(import_effects(ast.parse(source))))

    assert effects('key = jax.random.key(0)\nzero = jnp.zeros(3)') == 2
    assert effects('class A:\n  x = jnp.zeros(3)') == 1
    assert effects('cache = {}\nseen: list = []') == 2
    assert effects('NAMES = {}\ndef f(): return jnp.zeros(3)\ng = jax.jit(f)') == 0

    body = 'def f():\n' + '  g()\n' * LONGEST_FUNCTION
    assert list(long_functions(ast.parse(body))) == [('f', 61)]
    assert not list(long_functions(ast.parse(body.replace('  g()\n', '', 1))))


def test_files_of_tests_have_names_of_their_own():
    """Else pytest collects none."""
    names = [path.name for path in (ROOT / 'tests').rglob('test_*.py')]
    assert len({*names}) == len(names)


# Written in parts, so that this file does not match itself.
PLACES = re.compile(
    r'(?<![\w.}/])/(?:wo' + r'rk|op' + r't|ro' + r'ot|ho' + r'me|Us' + r'ers|tm' + r'p)/'
    r'|\b(?:py' + r'pi\.org|pytho' + r'nhosted)'
)
TEXT = {'.py', '.md', '.sh', '.toml', '.txt', '.ipynb', '.html', '.in', '.cfg', ''}
FOLDERS = (
    *('jepa_text', 'configs', 'launch', 'tests', 'colabs', '.ci', 'docs', 'benchmarks'),
)


def repository_texts():
    """Text files of the repository; what is ignored or generated lies elsewhere."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob('*')]
    # In a linked worktree, .git is a file.
    for path in [*ROOT.iterdir(), *files]:
        if path.name == '.git':
            continue
        if path.is_file() and path.suffix in TEXT and '__pycache__' not in path.parts:
            yield path


def test_no_path_of_a_machine_and_no_registry():
    texts = list(repository_texts())
    assert len(texts) > len(PROGRAMS)
    found = []
    for path in texts:
        text = path.read_text(encoding='utf-8')
        for match in PLACES.finditer(text):
            number = text.count('\n', 0, match.start()) + 1
            found.append(f'{short(path)}:{number}: {match[0]}')
    assert not found, '\n'.join(found)


def test_the_places_that_it_finds():
    assert PLACES.search('open("/' + 'tmp/x")') and PLACES.search('see /ho' + 'me/me/x')
    assert not PLACES.search('https://site/work' + '/x') and not PLACES.search(
        'a/opt' + '/b'
    )


# In names, config keys, metrics, commands and files; texts are free.
BRITISH = re.compile(
    r'analys(?:e|ed|er|ing)\b|(?:normal|regular|initial|optim|token|material)is[aei]'
    r'|colour|neighbour|centre|behaviour|labelled'
)
CODE = [
    *SOURCES,
    *sorted((ROOT / 'configs').rglob('*.py')),
    *sorted((ROOT / 'tests').rglob('*.py')),
]


@functools.cache
def name_fields(kind):
    """The fields with identifiers of a kind of node."""
    return [name for name in ('id', 'attr', 'arg', 'name') if name in kind._fields]


def british_names(tree):
    """(line, name) of every identifier, keyword and key in British spelling."""
    for node in nodes(tree):
        given = [getattr(node, field) for field in name_fields(type(node))]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            given.append(node.value if re.fullmatch(r'[\w.:/-]+', node.value) else None)
        for name in given:
            if isinstance(name, str) and BRITISH.search(name.lower()):
                yield getattr(node, 'lineno', 0), name


def test_british_names_are_found():
    def found(source):
        return {name for _, name in british_names(ast.parse(source))}

    assert found("f(x={'normalise': 2}, is_labelled=1)") == {'normalise', 'is_labelled'}
    assert found("main(['analyse']); NEIGHBOUR = analysis") == {'NEIGHBOUR', 'analyse'}
    assert not found("'a colour in a text'; normal_is = optimistic; labels; tokens_is")


# Where arrays are named after their shape.
SHAPED = ('losses', 'models', 'objectives', 'measures', 'data/masking')


def dimension_key(text):
    """{letter: meaning} of the key in the docstring of the package."""
    table = re.search(r'everywhere.*?:\n\n(.*?)\n\n', text, re.DOTALL)[1]
    entries = re.findall(r'(?:^|\s{2,})([A-Z0-9])  ?(\S+(?: \S+)*)', table, re.MULTILINE)
    assert len({letter for letter, _ in entries}) == len(entries), 'one meaning a letter'
    return dict(entries)


def shape_letters(tree):
    """Letters of the shapes in names such as hidden_BLD."""
    for node in nodes(tree):
        for field in name_fields(type(node)):
            name = getattr(node, field)
            is_array = isinstance(name, str) and not name.isupper()
            if is_array and (found := re.search(r'_([A-Z0-9]*[A-Z][A-Z0-9]*)$', name)):
                yield from found[1]


def test_every_letter_of_a_shape_is_in_the_key():
    key = dimension_key(ast.get_docstring(parse(PACKAGE / '__init__.py')))
    trees = [
        parse(path) for folder in SHAPED for path in (PACKAGE / folder).rglob('*.py')
    ]
    used = {letter for tree in trees for letter in shape_letters(tree)}
    assert used <= set(key), f'{sorted(used - set(key))} have no meaning in the key'
    assert set(shape_letters(ast.parse('hidden_BLD = mean_1D + LEFT_OVER_B'))) == set(
        'BLD1'
    )
