"""How a page looks: light, dark and on paper, on a screen and on a phone.

Every colour is named once for each theme. Words stand out from what is behind them by at least 4.5
to 1, bars and lines by at least 3 to 1; a test computes it. No look differs from another by colour alone.
"""

from typing import Final

LIGHT: Final = {
    "paper": "#fdfcfa",
    "card": "#ffffff",
    "ink": "#1d2328",
    "soft": "#59636e",
    "line": "#dcdfe3",
    "grid": "#e8eaed",
    "link": "#1b5a9e",
    "s0": "#3b78b5",
    "s1": "#c0661a",
    "s2": "#3f8456",
    "s3": "#a34e7c",
    "before": "#8a929b",
    "gather": "#c0661a",
    "recover": "#3b78b5",
    "alone": "#d9dde2",
    "start": "#1f7a44",
    "crash": "#b3202a",
    "pass": "#1b6639",
    "pass-back": "#e5f2e9",
    "fail": "#9c1722",
    "fail-back": "#fbe8e9",
    "vacuous": "#4b5560",
    "vacuous-back": "#eceff2",
    "inconclusive": "#744700",
    "inconclusive-back": "#fcf0da",
    "c0": "#a9cbe8",
    "c1": "#f4c698",
    "c2": "#a8d9b4",
    "c3": "#edb2bd",
    "c4": "#c9bbe6",
    "c5": "#e2d883",
    "c6": "#9dd9d5",
    "c7": "#e0bca3",
    "c8": "#bdd48a",
    "c9": "#e5b8db",
}
DARK: Final = {
    "paper": "#15181b",
    "card": "#1c2024",
    "ink": "#e7eaed",
    "soft": "#a3adb7",
    "line": "#353b41",
    "grid": "#2a2f35",
    "link": "#8abdf0",
    "s0": "#6aa5dd",
    "s1": "#e39a55",
    "s2": "#71b88a",
    "s3": "#d588b2",
    "before": "#8b949e",
    "gather": "#e39a55",
    "recover": "#6aa5dd",
    "alone": "#3c434b",
    "start": "#6fcf92",
    "crash": "#ff7a80",
    "pass": "#8ad7a6",
    "pass-back": "#173021",
    "fail": "#ff9ca1",
    "fail-back": "#3d191c",
    "vacuous": "#b3bcc5",
    "vacuous-back": "#2a3036",
    "inconclusive": "#f0c274",
    "inconclusive-back": "#392b12",
    "c0": "#2f5f8c",
    "c1": "#84501f",
    "c2": "#2b6b41",
    "c3": "#86394a",
    "c4": "#5b4a91",
    "c5": "#645b14",
    "c6": "#1d6663",
    "c7": "#74492e",
    "c8": "#4c661a",
    "c9": "#793c70",
}

RULES: Final = """
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
body > * { max-width: 60rem; margin-inline: auto; padding-inline: 1.25rem; }
header { padding-top: 3rem; }
h1 { font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 .4rem; font-weight: 650; }
h2 { font-size: 1.35rem; line-height: 1.3; letter-spacing: -0.01em; margin: 3.5rem 0 .8rem;
  font-weight: 650; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 2.4rem 0 .5rem; font-weight: 650; }
p { margin: .5rem 0; max-width: 44rem; }
a { color: var(--link); text-underline-offset: .15em; }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .small { font-size: .875rem; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 1rem; top: 1rem; background: var(--card); padding: .5rem 1rem; }
nav ul { list-style: none; margin: 1rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.25rem; font-size: .95rem; }

.banner { display: flex; gap: .9rem; align-items: baseline; border-radius: 10px; padding: 1rem 1.25rem; margin: 1.5rem 0; }
.banner p { margin: 0; } .banner .sign { font-size: 1.3rem; font-weight: 700; line-height: 1; }
.banner strong { display: block; font-size: 1.1rem; }
.is-pass { background: var(--pass-back); color: var(--pass); } .is-fail { background: var(--fail-back); color: var(--fail); }
.is-vacuous { background: var(--vacuous-back); color: var(--vacuous); }
.is-inconclusive { background: var(--inconclusive-back); color: var(--inconclusive); }

.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1px; margin: 1.5rem 0;
  background: var(--line); border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.tiles div { background: var(--card); padding: .8rem 1rem; }
.tiles dt { font-size: .82rem; color: var(--soft); } 
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600; letter-spacing: -0.01em; font-variant-numeric: tabular-nums; }

.verdicts { list-style: none; padding: 0; margin: 1rem 0; border-top: 1px solid var(--line); }
.verdicts > li { border-bottom: 1px solid var(--line); padding: .55rem 0; }
.verdicts summary, .plain-verdict { display: grid; grid-template-columns: 7.8rem 4.6rem 1fr auto; gap: .25rem .75rem; align-items: baseline; }
.verdicts summary { cursor: pointer; list-style: none; } .verdicts summary::-webkit-details-marker { display: none; }
.verdicts .figures { color: var(--soft); font-size: .875rem; font-variant-numeric: tabular-nums; text-align: right; }
.verdicts .id { font-weight: 600; font-variant-numeric: tabular-nums; }
.badge { display: inline-block; border-radius: 99px; padding: .05rem .6rem; font-size: .82rem; font-weight: 600; white-space: nowrap; justify-self: start; }
.verdicts .inside { padding: .4rem 0 .6rem; } .verdicts .inside p { color: var(--soft); }
.witness { border-left: 3px solid var(--fail); background: var(--card); padding: .5rem .9rem; margin: .6rem 0; white-space: pre-wrap;
  font: .84rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
dl.words { display: grid; grid-template-columns: auto 1fr; gap: .5rem 1rem; align-items: baseline; } dl.words dd { margin: 0; }

figure { margin: 1.5rem 0 2rem; } figcaption { margin-bottom: .75rem; max-width: 44rem; }
figcaption span { color: var(--soft); font-size: .925rem; display: block; }
svg { display: block; overflow: visible; } svg svg { overflow: hidden; } svg svg[overflow=visible] { overflow: visible; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--ink); }
svg .tick { fill: var(--soft); font-variant-numeric: tabular-nums; } svg .name { font-weight: 600; }
.grid { stroke: var(--grid); } .base { stroke: var(--soft); } .lane { stroke: var(--line); stroke-dasharray: 2 4; }
.plot { display: flex; gap: .5rem; } .plot > svg:first-child { flex: none; } .plot > svg + svg { flex: 1; min-width: 0; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem 2rem; }
.panel-name { font-weight: 600; margin: 0; font-size: .9rem; }
.s0 { fill: var(--s0); } .s1 { fill: url(#hatch-s1); } .s2 { fill: url(#dots-s2); } .s3 { fill: var(--s3); }
.area { fill-opacity: .22; } .curve { fill: none; stroke-width: 2; } .half { stroke-width: 1.5; stroke-dasharray: 2 3; }
.s0-line { stroke: var(--s0); } .s1-line { stroke: var(--s1); stroke-dasharray: 6 3; }
.s2-line { stroke: var(--s2); stroke-dasharray: 2 2; } .s3-line { stroke: var(--s3); stroke-dasharray: 8 3 2 3; }
.hatch-back-s1 { fill: var(--s1); fill-opacity: .3; } .hatch-s1 { stroke: var(--s1); stroke-width: 2.2; }
.dots-back-s2 { fill: var(--s2); fill-opacity: .35; } .dots-s2 { fill: var(--s2); }
.phase-before { fill: url(#hatch-before); } .phase-gather { fill: var(--gather); } .phase-recover { fill: var(--recover); }
.hatch-before { stroke: var(--before); stroke-width: 2; }
.install-line { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; } rect.install-line { fill: none; }
.ring { stroke: var(--paper); stroke-width: 1; } .alone { fill: var(--alone); } .in-ring { font-weight: 600; }
.transitional { fill: url(#hatch-seam); } .hatch-seam { stroke: var(--ink); stroke-width: 1.6; }
.crash { stroke: var(--crash); stroke-width: 2.5; stroke-linecap: round; fill: none; } .start { fill: var(--start); }
.left { fill: var(--paper); stroke: var(--soft); stroke-width: 2; }
.legend { list-style: none; margin: .75rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; font-size: .875rem; color: var(--soft); }
.legend li { display: flex; gap: .5rem; align-items: baseline; } .legend svg { flex: none; position: relative; top: 1px; }
.defs { position: absolute; width: 0; height: 0; }

details.numbers { margin-top: .75rem; font-size: .875rem; } details > summary { cursor: pointer; }
details.numbers > summary { color: var(--soft); }
.scroll { overflow-x: auto; max-height: 26rem; overflow-y: auto; margin: .5rem 0; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; font-size: .875rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .75rem; border-bottom: 1px solid var(--line); white-space: nowrap; vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; } th { font-weight: 600; color: var(--soft); position: sticky; top: 0; background: var(--card); }
.number { text-align: right; }
.stories { padding: 0; list-style: none; margin: 1rem 0; }
.stories > li { border-left: 3px solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 0 0 1.2rem; }
.stories > li:target { border-left-color: var(--link); }
.stories p { margin: .15rem 0; } .stories .when { color: var(--soft); font-size: .875rem; }
.stories details { font-size: .875rem; color: var(--soft); margin-top: .3rem; } .stories ul { padding-left: 1.1rem; margin: .4rem 0; }
footer { margin-top: 4rem; padding-block: 1.5rem 3rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .875rem; }

@media (max-width: 40rem) {
  body { font-size: 15px; } header { padding-top: 1.75rem; } h1 { font-size: 1.5rem; } h2 { margin-top: 2.5rem; }
  .verdicts summary, .plain-verdict { grid-template-columns: auto auto 1fr; }
  .verdicts .title { grid-column: 1 / -1; grid-row: 2; }
  dl.words { grid-template-columns: 1fr; gap: .2rem; } dl.words dd { margin-bottom: .6rem; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@media print {
  body { font-size: 10.5pt; } nav, .skip { display: none; } h2 { break-after: avoid; } figure, .stories > li { break-inside: avoid; }
  .scroll { max-height: none; overflow: visible; } a { color: inherit; text-decoration: none; }
}
"""


def style() -> str:
    """Return the style sheet."""
    rings = " ".join(f".c{number} {{ fill: var(--c{number}); }}" for number in range(10))
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ @media not print {{ :root {{ {dark} }} }} }}\n"
        f"{rings}{RULES}"
    )


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
