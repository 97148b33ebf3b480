"""Numbers for people: durations, sizes, and the ticks of axes."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Final

MS: Final = 1_000
SECOND: Final = 1_000_000
STEPS_S: Final = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    21600,
    43200,
    86400,
)


def duration(us: float) -> str:
    """Return a time with two or three figures: `850 µs`, `2.2 ms`, `302 ms`, `3 min 20 s`."""
    if us < 0:
        return "-" + duration(-us)
    if us < MS:
        return f"{us:.0f} µs"
    if us < 9.95 * MS:
        return f"{us / MS:.1f} ms"
    if us < 999.5 * MS:
        return f"{us / MS:.0f} ms"
    if us < 9.95 * SECOND:
        return f"{us / SECOND:.1f} s"
    seconds = round(us / SECOND)
    if seconds < 120:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def moment(us: float) -> str:
    """Return a place on a time axis: `0.250 s`, to be compared with others."""
    return f"{us / SECOND:,.3f} s"


def amount(number: float) -> str:
    """Return a number that may be large: `950`, `12,400`, `1.2 million`."""
    if abs(number) >= 999_950:
        return f"{number / 1_000_000:,.1f} million"
    return f"{number:,.0f}"


def size(n_bytes: float) -> str:
    """Return an amount of bytes: `950 B`, `12.3 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5 or unit == "GB":
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:,.1f} {unit}"
        n_bytes /= 1000
    raise AssertionError("the last unit takes everything")


def percent(share: float) -> str:
    """Return a share: `21.5 %`."""
    return f"{share * 100:.1f} %"


def count(number: int, what: str) -> str:
    """Return a number of things: `1 node`, `3 nodes`, `2 deliveries`."""
    if number == 1:
        return f"1 {what}"
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{amount(number)} {plural}"


def nodes(names: Sequence[int]) -> str:
    """Return nodes as a list: `n1 n2 n4`."""
    return " ".join(f"n{name}" for name in names)


def nice_step(span: float, n_steps: int) -> float:
    """Return 1, 2 or 5 times a power of ten, such that at most so many steps fill the span."""
    least = max(span, 1e-9) / n_steps
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.9999)


def ticks(top: float, n_steps: int) -> list[float]:
    """Return round numbers from 0 to the first that is not below `top`."""
    step = nice_step(top, n_steps)
    return [at * step for at in range(ceil(max(top, step) / step - 1e-9) + 1)]


def time_ticks(span_us: float, n_steps: int) -> list[tuple[float, str]]:
    """Return times within a span that people count in, with their labels."""
    if span_us < 2 * SECOND:
        step = nice_step(span_us, n_steps)
        unit, name = (MS, "ms") if step >= MS else (1, "µs")
        numbers = [at * step for at in range(floor(span_us / step + 1e-9) + 1)]
        return [(at, f"{at / unit:,.0f} {name}") for at in numbers]
    step_s = next((one for one in STEPS_S if span_us / SECOND / one <= n_steps), STEPS_S[-1])
    seconds = range(0, floor(span_us / SECOND) + 1, step_s)
    return [(at * SECOND, f"{at} s" if at < 120 else duration(at * SECOND)) for at in seconds]


def decades(low: float, high: float) -> list[tuple[float, str]]:
    """Return the powers of ten microseconds between two times, with their labels."""
    labels = {0: "1 µs", 1: "10 µs", 2: "100 µs", 3: "1 ms", 4: "10 ms", 5: "100 ms", 6: "1 s"}
    first, last = ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9)
    return [(10.0**at, labels.get(at, duration(10.0**at))) for at in range(first, last + 1)]
