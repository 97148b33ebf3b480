import pytest

from evensong.report.style import DARK, LIGHT, style

WORDS = [
    ("ink", "paper"),
    ("ink", "card"),
    ("soft", "paper"),
    ("soft", "card"),
    ("link", "paper"),
    ("link", "card"),
    *[(name, f"{name}-back") for name in ("pass", "fail", "vacuous", "inconclusive")],
    *[("ink", f"c{number}") for number in range(10)],
]
SHAPES = [
    (name, "paper")
    for name in ("s0", "s1", "s2", "s3", "before", "gather", "recover", "start", "crash")
]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_shapes_stand_out_in_both_themes(theme: dict[str, str]) -> None:
    for one, behind in WORDS:
        assert contrast(theme[one], theme[behind]) >= 4.5, (one, behind)
    for one, behind in SHAPES:
        assert contrast(theme[one], theme[behind]) >= 3, (one, behind)


def test_both_themes_name_the_same_colours_and_all_that_are_used_are_named() -> None:
    assert set(LIGHT) == set(DARK)
    sheet = style()
    used = {part.partition(")")[0] for part in sheet.split("var(--")[1:]}
    assert used <= set(LIGHT)


def test_paper_is_light() -> None:
    assert "prefers-color-scheme: dark) { @media not print" in style()
