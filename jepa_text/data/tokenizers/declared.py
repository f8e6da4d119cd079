"""Special tokens as transformers declares them, in files beside a tokenizer.json.

Names of special tokens vary, and one token may have several roles, such as the end of a
text and padding. Where a role is not that of the first known name, the entry of its token
in `added_tokens` gets `"roles": ["eos", "pad"]`, so that a saved tokenizer.json keeps it.
"""

from pathlib import Path

from jepa_text.files import checksums

# The later file takes precedence, as in transformers.
FILES = ('special_tokens_map.json', 'tokenizer_config.json')
# Their names of the roles. An encoder's begin and end are its class and separator tokens.
THEIRS = {
    'pad': ('pad',),
    'bos': ('cls', 'bos'),
    'eos': ('sep', 'eos'),
    'mask': ('mask',),
}
MARK = 'roles'


def names(folder):
    """Returns {role: name of its token} of the roles that a folder's files declare.

    Raises ValueError for a file that is not a JSON object.
    """
    declared = {}
    for file in FILES:
        path = Path(folder, file)
        if path.is_file():
            declared |= _read(path)
    by_role = {}
    for role, theirs in THEIRS.items():
        given = [name for name in theirs if f'{name}_token' in declared]
        by_role |= {role: declared[f'{given[0]}_token']} if given else {}
    return by_role


def vocabulary(content):
    """Returns {token: id} of a tokenizer.json's content."""
    ids = content['model']['vocab']
    if isinstance(ids, list):
        ids = {piece[0]: i for i, piece in enumerate(ids)}
    added = content.get('added_tokens') or ()
    return ids | {token['content']: token['id'] for token in added}


def _read(path):
    """Returns {'eos_token': '</s>', ...} of a file."""
    tokens = {}
    for key, value in checksums.read_json(path, dict).items():
        name = value.get('content') if isinstance(value, dict) else value
        if key.endswith('_token') and isinstance(name, str):
            tokens[key] = name
    return tokens


def special(i, name):
    """Returns the entry of a special token in `added_tokens`."""
    flags = dict.fromkeys(('single_word', 'lstrip', 'rstrip', 'normalized'), False)
    return {'id': i, 'content': name, **flags, 'special': True}


def marked(content, role, i, name):
    """Returns the content of a tokenizer.json in which the token has the role."""
    entries = {token['id']: token for token in unmarked(content, role)['added_tokens']}
    entry = entries.get(i) or special(i, name)
    entries[i] = entry | {MARK: sorted([*entry.get(MARK, ()), role])}
    return content | {'added_tokens': [entries[i] for i in sorted(entries)]}


def unmarked(content, role):
    """Returns the content of a tokenizer.json in which no token is marked by a role."""
    entries = []
    for token in content.get('added_tokens') or []:
        others = [one for one in token.get(MARK, ()) if one != role]
        token = {key: value for key, value in token.items() if key != MARK}
        entries.append(token | ({MARK: others} if others else {}))
    return content | {'added_tokens': entries}
