"""Report sections as Markdown, with figures as files."""

from jepa_text.report import markdown, plots


def drawn():
    figure, axes = plots.blank('A loss', 'nats', 'steps')
    axes.plot([0, 1, 2], [3, 2, 1])
    axes.set_xlim(0.5, 1.5)  # clip paths need an id in the file
    return figure


def test_the_same_figures_give_the_same_files_whose_text_is_text(tmp_path):
    files = []
    for place in ('first', 'second'):
        path = tmp_path / place / 'appendix.md'
        markdown.write(path, 'Title', 'Lead.', [{'heading': 'One', 'figures': [drawn()]}])
        assert '![A loss](figures/00-0.svg)' in path.read_text(encoding='utf-8')
        figures = sorted((path.parent / 'figures').iterdir())
        assert [one.name for one in figures] == ['00-0.pdf', '00-0.svg']
        files.append([one.read_bytes() for one in figures])
    assert files[0] == files[1]
    svg = files[0][1]
    assert b'clip-path' in svg and b'>A loss</text>' in svg


def test_names_that_look_like_markup_are_shown_as_they_are():
    names = ['__mlm__', '*a*', '<mask>', '`b`', 'clm_half_1', '~~c~~', '[d](e)']
    text = markdown.table({'columns': ['name'], 'rows': [[name] for name in names]})
    shown = [line[2:-2] for line in text.splitlines()[2:]]
    assert shown == [
        *(r'\_\_mlm\_\_', r'\*a\*', r'\<mask>', r'\`b\`', 'clm_half_1'),
        *(r'\~\~c\~\~', r'\[d](e)'),
    ]
