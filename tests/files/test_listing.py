"""Files, folders and patterns are expanded alike locally and at an address."""

import os

import fsspec
import pytest

from jepa_text.files import listing

TREE = {
    'a.txt': b'a',
    'B.TXT': b'bb',
    'notes.md': b'',
    'deep/c.txt': b'ccc',
    'deep/er/d.txt.gz': b'dddd',
    'deep/er/e.txt': b'',
    'we[i]rd.txt': b'w',
}
ENDINGS = ('.txt', '.txt.gz')  # in any case of letters


@pytest.fixture(params=['here', 'away'])
def top(request, tmp_path, memory):
    """Returns a tree of files as a local path and as an address."""
    address = 'memory://shelf/top'
    for name, content in TREE.items():
        for path in (tmp_path / 'top' / name, tmp_path / 'top2' / 'beside.txt'):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        memory.pipe_file(f'/shelf/top/{name}', content)
        memory.pipe_file('/shelf/top2/beside.txt', b'')
    return str(tmp_path / 'top') if request.param == 'here' else address


def names(found, top):
    return [file.path.removeprefix(f'{top}/') for file in found.files]


def test_folders_are_listed_recursively_and_sorted(top):
    found = listing.expand(top, ENDINGS)
    assert names(found, top) == sorted(set(TREE) - {'notes.md'})
    assert [file.size for file in found.files] == [
        len(TREE[name]) for name in names(found, top)
    ]
    assert str(found) == '6 files read; 1 skipped'


def test_patterns_are_expanded(top):
    def fit(pattern):
        return names(listing.expand(f'{top}/{pattern}', ENDINGS), top)

    assert fit('*.txt') == ['a.txt', 'we[i]rd.txt']
    assert fit('**/*.txt') == ['a.txt', 'deep/c.txt', 'deep/er/e.txt', 'we[i]rd.txt']
    assert fit('**/**/*.txt') == fit('**/*.txt')  # each file once
    assert fit('deep/*/?.txt*') == ['deep/er/d.txt.gz', 'deep/er/e.txt']
    assert fit('[ab].txt') == ['a.txt']
    assert listing.expand(f'{top}/*.*', ENDINGS).skipped == 1


def test_a_single_file_may_have_any_suffix(top):
    for name in ('notes.md', 'we[i]rd.txt'):
        found = listing.expand(f'{top}/{name}', ENDINGS)
        assert names(found, top) == [name] and not found.skipped
        assert found.files[0].size == len(TREE[name])


def test_hidden_files_and_folders_are_skipped(tmp_path, memory):
    for top in (str(tmp_path / '.mine'), 'memory://attic/.mine'):
        system = fsspec.url_to_fs(top)[0]
        for name in ('a.txt', '._a.txt', '.git/b.txt', '.git/c.txt', 'in/.x/d.txt'):
            system.makedirs(os.path.dirname(f'{top}/{name}'), exist_ok=True)
            system.pipe_file(f'{top}/{name}', b'a')
        found = listing.expand(top, ENDINGS)
        assert names(found, top) == ['a.txt']
        assert found.skipped == 4
        assert len(listing.expand(f'{top}/.git/*.txt', ENDINGS).files) == 2
        assert names(listing.expand(f'{top}/a*', ENDINGS), top) == ['a.txt']
        assert names(listing.expand(f'{top}/._a.txt', ENDINGS), top) == ['._a.txt']


def test_an_empty_listing_is_an_error(top):
    with pytest.raises(FileNotFoundError, match='no file that ends in .parquet'):
        listing.expand(top, ('.parquet',))
    for name in ('none', 'none/*.txt', 'none.txt'):
        with pytest.raises(FileNotFoundError, match='none'):
            listing.expand(f'{top}/{name}', ENDINGS)


@pytest.mark.parametrize('path', ['texts/', '', '*.txt', '[a].txt', 'a/?x=.txt'])
def test_folders_and_patterns_of_web_servers_are_refused(path):
    with pytest.raises(FileNotFoundError, match=r'not the address of one file .*wget'):
        listing.expand(f'https://host/{path}', ENDINGS)


def test_links_are_followed(tmp_path):
    top = tmp_path / 'top'
    (top / 'deep').mkdir(parents=True)
    (top / 'a.txt').write_text('a')
    (tmp_path / 'outside').mkdir()
    (tmp_path / 'outside' / 'o.txt').write_text('o')
    (top / 'b.txt').symlink_to(top / 'a.txt')
    (top / 'deep' / 'round').symlink_to(top)
    (top / 'out').symlink_to(tmp_path / 'outside')
    (top / 'deep' / '.store').mkdir()
    (top / 'deep' / '.store' / 's.txt').write_text('s')
    (top / 'seen').symlink_to(top / 'deep' / '.store')
    for path in (top, f'{top}/**/*.txt', f'{top}/*/../**/*.txt'):
        found = [
            os.path.normpath(file.path) for file in listing.expand(path, ENDINGS).files
        ]
        wanted = 'a.txt', 'b.txt', 'out/o.txt', 'seen/s.txt'
        assert found == [str(top / name) for name in wanted]
    (top / 'broken.txt').symlink_to(top / 'none')
    with pytest.raises(FileNotFoundError, match='broken.txt'):
        listing.expand(top, ENDINGS)
