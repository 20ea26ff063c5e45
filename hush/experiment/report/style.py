"""The page's style sheet: system fonts, light and dark, colours that colour-blind readers can distinguish."""

CSS = """
:root { color-scheme: light dark; --back: #fbfaf8; --card: #ffffff; --ink: #1d1f23; --soft: #62666e;
  --rule: #e4e2dd; --s1: #0068b5; --s2: #c2570c; --s3: #8a3fa0; --warn: #9a3412; }
@media (prefers-color-scheme: dark) { :root { --back: #15171a; --card: #1e2125; --ink: #e9e8e4;
  --soft: #a0a4ab; --rule: #33373d; --s1: #5fb2f2; --s2: #f29a4b; --s3: #d48ee6; --warn: #fdba74; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.015em; }
h2 { font-size: 1.05rem; margin: 0 0 .5rem; }
section { margin-top: 2.5rem; }
section > h2 { font-size: 1.25rem; }
p { max-width: 46rem; margin: .4rem 0; }
.soft, figcaption p { color: var(--soft); font-size: .92rem; }
.warn { color: var(--warn); }
progress { width: 100%; height: .45rem; margin: 1rem 0 0; accent-color: var(--s1); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; }
.tiles:first-of-type { margin: 1.5rem 0 .8rem; }
.tile, figure { background: var(--card); border: 1px solid var(--rule); border-radius: .6rem; }
.tile { padding: .8rem 1rem; margin: 0; }
.tile dt { color: var(--soft); font-size: .85rem; }
.tile dd { margin: 0; color: var(--soft); font-size: .82rem; line-height: 1.4; }
.tile dd.value { color: var(--ink); font-size: 1.7rem; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.tile dd.value small { font-size: .9rem; font-weight: 400; color: var(--soft); letter-spacing: 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr));
  gap: .8rem; }
figure { display: flex; flex-direction: column; margin: 0; padding: 1rem 1rem .6rem; }
figcaption p { margin: 0 0 .4rem; }
svg { display: block; width: 100%; height: auto; margin-top: auto; }
svg text { font-size: 13px; fill: var(--ink); font-variant-numeric: tabular-nums; }
svg text.tick { fill: var(--soft); font-size: 12px; }
svg .grid { stroke: var(--rule); }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
svg .ring { fill: none; stroke-width: 1.5; }
.s1 { --own: var(--s1); }
.s2 { --own: var(--s2); }
.s3 { --own: var(--s3); }
svg g[class^=s] { stroke: var(--own); } svg g[class^=s] circle:not(.ring) { fill: var(--own); }
svg text.name { fill: var(--own); }
svg g.s2 .line { stroke-dasharray: 8 4; } svg g.s3 .line { stroke-dasharray: 2 4; stroke-linecap: round; }
svg .band rect { fill: transparent; } svg .band line { stroke: var(--soft); opacity: 0; }
svg .band:hover line { opacity: .8; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .94rem; }
th, td { text-align: left; padding: .38rem 1.4rem .38rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; font-weight: 400; }
thead th { color: var(--soft); font-size: .85rem; }
tbody th { white-space: nowrap; }
tbody th strong, tr.head th { font-weight: 600; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr:target { background: color-mix(in srgb, var(--s1) 12%, transparent); }
.settings { columns: 2 22rem; column-gap: 3rem; }
.settings table { width: 100%; table-layout: fixed; break-inside: avoid; margin: 0 0 1.2rem; }
.settings td { overflow-wrap: anywhere; }
code { font: .9em ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; }
a { color: inherit; text-underline-offset: .15em; text-decoration-color: var(--soft); }
@media print { body { background: #fff; } .tile, figure { break-inside: avoid; } }
"""
