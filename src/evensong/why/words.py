"""Small words of stories."""

from collections.abc import Iterable, Sequence

from evensong.core.ids import ProcessorId


def ms(us: int) -> str:
    """Return a time as people say it."""
    if us >= 10_000_000:
        return f"{us / 1_000_000:.1f} s"
    return f"{us / 1_000:.0f} ms" if us >= 10_000 else f"{us / 1_000:.1f} ms"


def listed(parts: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def names(nodes: Iterable[ProcessorId]) -> str:
    """Return nodes by name."""
    return listed([f"n{node}" for node in sorted(nodes)])


def members_text(nodes: Iterable[ProcessorId]) -> str:
    """Return nodes as a set is written."""
    return "{" + ",".join(map(str, sorted(nodes))) + "}"
