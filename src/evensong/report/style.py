"""How a page looks: light, dark and on paper, on a screen and on a phone.

Every colour is named once for each theme, the rules are in `page.css`. Words stand out from what is
behind them by at least 4.5 to 1, bars and lines by at least 3 to 1; a test computes it. No look
differs from another by colour alone.
"""

from importlib.resources import files
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


def style() -> str:
    """Return the style sheet."""
    rings = " ".join(f".c{number} {{ fill: var(--c{number}); }}" for number in range(10))
    light, dark = _variables(LIGHT), _variables(DARK)
    rules = (files("evensong.report") / "page.css").read_text(encoding="utf-8")
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ @media not print {{ :root {{ {dark} }} }} }}\n"
        f"{rings}\n{rules}"
    )


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
