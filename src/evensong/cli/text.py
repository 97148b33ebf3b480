"""Small pieces of text that several commands print."""


def table(rows: list[list[str]]) -> list[str]:
    """Return the rows as lines of aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def printable(text: str) -> str:
    """Return what others chose as one line, with everything escaped that a terminal acts on."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def long_ago(ms: int) -> str:
    """Say how long something is past; on an idle ring nobody says a word for seconds."""
    return f"{ms} ms ago" if ms < 1_000 else f"{ms / 1e3:.1f} s ago"


def counts(by_reason: object) -> str:
    """Return counters by reason on one line."""
    if not isinstance(by_reason, dict) or not by_reason:
        return "none"
    return ", ".join(f"{reason} {count}" for reason, count in by_reason.items())
