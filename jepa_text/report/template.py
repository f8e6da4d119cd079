"""The HTML around a report, and its style sheet."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header>
{subtitle}
<h1>{title}</h1>
<p class="lead">{lead}</p>
</header>
{sections}
</main>
</body>
</html>
"""

STYLE = """
:root {
  --paper: #fdfdfc; --ink: #1f2328; --muted: #6a737d; --line: #e3e5e8; --panel: #f5f6f7;
  --accent: #0072b2; --hit: #00795a; --mark: #ffe9a8;
  --sans: Inter, system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif;
  --serif: Charter, 'Iowan Old Style', Georgia, 'Liberation Serif', serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --ink: #e4e7ea; --muted: #98a1ab; --line: #2c3238; --panel: #1d2126;
    --accent: #6cb6ff; --hit: #4cc79b; --mark: #5c4a12;
  }
  figure svg { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 var(--sans); -webkit-text-size-adjust: 100%;
}
main { max-width: 60rem; margin: 0 auto; padding: 3.5rem 1.5rem 5rem; }
header { margin-bottom: 3rem; max-width: 46rem; }
.over { margin: 0 0 .6rem; color: var(--muted); font-size: .85rem; }
h1 { font-size: 2.1rem; line-height: 1.15; letter-spacing: -.02em; margin: 0 0 1rem; }
.lead { font-size: 1.22rem; line-height: 1.5; margin: 0; text-wrap: pretty; }
section { margin: 0 0 3.2rem; }
h2 {
  font-size: 1.2rem; line-height: 1.3; letter-spacing: -.01em; margin: 0 0 .8rem;
  padding-top: 1.1rem; border-top: 1px solid var(--line);
}
section > p { max-width: 44rem; margin: 0 0 1rem; text-wrap: pretty; }
code { font: .88em ui-monospace, Menlo, 'DejaVu Sans Mono', monospace; }
.facts {
  display: grid; gap: 1px; background: var(--line); border: 1px solid var(--line);
  border-radius: 10px; overflow: hidden; margin: 0 0 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
}
.facts div { background: var(--paper); padding: 1rem 1.2rem; }
.facts b { display: block; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums; }
.facts span { display: block; font-size: .9rem; }
.facts small { color: var(--muted); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .94rem; }
th, td { text-align: left; padding: .5rem .8rem; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
th { color: var(--muted); font-weight: 500; font-size: .84rem; vertical-align: bottom; }
thead tr { border-bottom: 1px solid var(--muted); }
tbody tr { border-bottom: 1px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; }
td { vertical-align: top; }
.long { white-space: normal; min-width: 12rem; }
td b { color: var(--accent); font-weight: 650; }
.note { color: var(--muted); font-size: .85rem; margin: .6rem 0 0; max-width: 44rem; }
.figures {
  display: grid; gap: 1.6rem 2rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr));
}
figure { margin: 0; }
figure svg { display: block; width: 100%; height: auto; max-width: 36rem; }
figure svg text { font-family: var(--sans) !important; }
.cloze { padding: 1.1rem 0 1.3rem; border-bottom: 1px solid var(--line); }
.cloze:last-child { border: 0; padding-bottom: 0; }
.cloze p { font: 1.15rem/1.55 var(--serif); margin: 0 0 .9rem; max-width: 44rem; }
mark { background: var(--mark); color: inherit; border-radius: 4px; padding: .05em .3em; }
.guesses {
  display: grid; gap: 1rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(13rem, 100%), 1fr));
}
h3 { font-size: .8rem; font-weight: 500; color: var(--muted); margin: 0 0 .3rem; }
ol { list-style: none; margin: 0; padding: 0; font-size: .92rem; }
li {
  display: flex; justify-content: space-between; padding: .2rem .5rem; margin-bottom: 2px;
  border-radius: 4px;
  background: linear-gradient(to right, color-mix(in srgb, var(--muted) 24%, transparent)
    var(--p), var(--panel) var(--p));
}
li.hit {
  color: var(--hit); font-weight: 650;
  background: linear-gradient(to right, color-mix(in srgb, var(--hit) 24%, transparent)
    var(--p), var(--panel) var(--p));
}
li em { font-style: normal; font-variant-numeric: tabular-nums; }
details { border: 1px solid var(--line); border-radius: 8px; margin: 0 0 .5rem; }
details .scroll { margin: 0 .9rem .6rem; }
summary { cursor: pointer; padding: .55rem .9rem; font-size: .92rem; }
pre {
  margin: 0; padding: .9rem; overflow-x: auto; border-top: 1px solid var(--line);
  font: .8rem/1.5 ui-monospace, Menlo, 'DejaVu Sans Mono', monospace;
}
@media (max-width: 40rem) {
  main { padding: 2rem 1.1rem 3rem; }
  h1 { font-size: 1.7rem; }
  .lead { font-size: 1.1rem; }
  .facts b { font-size: 1.5rem; }
}
@media print { section { break-inside: avoid; } }
"""
