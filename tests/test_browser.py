"""Pages of the documentation and reports, as a reader sees them in a browser."""

import os
from pathlib import Path

import browser
import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[1]
# Folders with pages, separated as those of PATH.
FOLDERS = os.environ.get('PAGES', str(ROOT / 'runs' / 'site')).split(os.pathsep)
PAGES = [page for folder in FOLDERS for page in sorted(Path(folder).rglob('*.html'))]
# It has addresses from the root of a server.
PAGES = [page for page in PAGES if page.name != '404.html']
NARROW, WIDE = 400, 1280
# What is shown outside of the window, of its box, over another text, or not to everyone.
FAULTS = """(() => {
  const faults = [], wide = document.documentElement.clientWidth > 1000
  const all = (selector) => [...document.querySelectorAll(selector)]
  const name = (e) => `${e.tagName} ${(e.innerText || e.outerHTML).trim().slice(0, 60)}`
  all('details').forEach((e) => { e.open = true })
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) {
    const edge = document.documentElement.clientWidth + 1
    const over = all('body *').filter((e) => e.getBoundingClientRect().right > edge)
    faults.push(`wider than the window: ${over.slice(-3).map(name).join('; ')}`)
  }
  for (const e of wide ? all('pre, pre code, table, .scroll, .md-typeset__table') : []) {
    const clips = getComputedStyle(e).overflowX != 'visible'
    if (clips && e.clientWidth && e.scrollWidth > e.clientWidth + 1)
      faults.push(`cut at ${e.clientWidth} of ${e.scrollWidth} pixels: ${name(e)}`)
  }
  for (const e of all('article img, main img'))
    if (!e.alt || !e.naturalWidth) faults.push(`an image without text: ${e.src}`)
  for (const e of all('figure svg')) {
    if (!e.ariaLabel) faults.push('a figure without text')
    const texts = [...e.querySelectorAll('text')]
    texts.forEach((one, index) => texts.slice(index + 1).forEach((two) => {
      const [a, b] = [one, two].map((text) => text.getBoundingClientRect())
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left)
      const up = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
      if (across > 2 && up > 3)
        faults.push(`${e.ariaLabel}: ${one.textContent} overlaps ${two.textContent}`)
    }))
  }
  return faults
})()"""


@pytest.fixture(scope='module')
def opened():
    path = browser.find()
    if not path:
        pytest.skip(f'none of {", ".join(browser.NAMES)} is installed')
    with browser.Browser(path) as started:
        yield started


@pytest.mark.skipif(not PAGES, reason=f'no pages in {FOLDERS}: bash launch/docs.sh')
@pytest.mark.parametrize('page', PAGES, ids=lambda page: '-'.join(page.parts[-3:]))
def test_a_page_is_whole_on_a_phone_and_on_a_desk(opened, page):
    faults = {
        width: opened.open(page.absolute().as_uri(), width) + opened.run(FAULTS)
        for width in (NARROW, WIDE)
    }
    assert faults == {NARROW: [], WIDE: []}


def test_faults_are_found(opened, tmp_path):
    """A page with one fault of each kind."""
    words = 'word ' * 300
    page = tmp_path / 'bad.html'
    page.write_text(
        '<main><script>console.error("an error"); undefined_name()</script>'
        '<div style="width: 500px">broad</div><img src="none.png">'
        f'<div class="scroll" style="overflow: auto"><nobr>{words}</nobr></div>'
        '<figure><svg><text y="20">one</text><text y="20">two</text></svg></figure>'
    )
    found = '\n'.join(opened.open(page.as_uri(), NARROW) + opened.run(FAULTS))
    for said in ('an error', 'undefined_name', 'wider than the window: DIV broad'):
        assert said in found
    for said in ('without text: file', 'figure without text', 'one overlaps two'):
        assert said in found
    opened.open(page.as_uri(), WIDE)
    assert any(fault.startswith('cut at ') for fault in opened.run(FAULTS))
