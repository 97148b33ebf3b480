"""What a run came to, as tables of Markdown, and where they go in a document.

The document has a comment before and one after the part that a run writes; a run that is done
again replaces what is between them.
"""

import statistics
from collections.abc import Iterable, Sequence

from bench.peers.acceptance import CPU, RATE, Verdict
from bench.peers.cells import (
    CHANCE,
    FAILOVER,
    FLOOD,
    FLOOR,
    FLOORS,
    HALF,
    IDLE,
    KIB,
    MARK,
    MEMORY,
    MIB,
    NATS,
    OURS,
    REDIS,
    RING,
    STEADY,
    THEIRS,
    TUNE,
    UDP,
    Cell,
    tuned,
)
from bench.peers.ledger import Figures, Ledger

LATENCIES = {
    STEADY: "at 100/s, 100 B, one sender",
    CHANCE: "at 1000/s by chance, 1 KiB, one sender",
    HALF: "at half of the own saturation, 1 KiB, all send",
}


def marks_of(name: str) -> tuple[str, str]:
    """Return the comments around the part that a run of this name writes."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def replaced(document: str, name: str, part: str) -> str:
    """Return the document with another part between the marks; they must be there, once each."""
    begin, end = marks_of(name)
    before, _, rest = document.partition(begin)
    _, found, after = rest.partition(end)
    if not found or document.count(begin) != 1 or document.count(end) != 1:
        raise ValueError(f"the document has no part between {begin} and {end}, or several")
    return f"{before}{begin}\n\n{part.strip()}\n\n{end}{after}"


def size_of(size: int) -> str:
    """Write a size for people."""
    if size >= MIB:
        return f"{size // MIB} MiB"
    return f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Write a median, with the least and the most of several."""
    if not values:
        return ""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Write the ratio of two medians."""
    if not ours or not theirs or not statistics.median(theirs):
        return ""
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}"


def _cells(ledger: Ledger, kind: str, system: str = "") -> list[Cell]:
    found = {
        one.cell: None
        for one in ledger.entries
        if one.cell.kind == kind and one.cell.system in (system or one.cell.system,)
    }
    return sorted(found, key=lambda one: (one.nodes, one.mtu, one.size, one.way, one.service))


def throughput(ledger: Ledger) -> str:
    """Return the table of messages a second."""
    rows = []
    seen = {one._replace(system="", way="") for one in _cells(ledger, FLOOD)}
    order = sorted(seen, key=lambda one: (one.nodes, one.mtu, one.service, one.size))
    for place in order:
        batch = ledger.values(place._replace(system=OURS, way="batch"), RATE)
        singly = ledger.values(place._replace(system=OURS, way="message"), RATE)
        theirs = ledger.values(place._replace(system=THEIRS), RATE)
        service = "" if place.service == "agreed" else f", {place.service}"
        rows.append(
            [
                str(place.nodes),
                str(place.mtu),
                size_of(place.size) + service,
                spread(batch),
                spread(singly),
                spread(theirs),
                ratio(batch, theirs),
                ratio(singly, theirs),
            ]
        )
    headings = ["nodes", "MTU", "size", "by batches", "one by one", THEIRS, "ratio", "one by one"]
    return table(headings, rows)


def cpu(ledger: Ledger) -> str:
    """Return the table of what the daemons take for a message."""
    rows = []
    for cell in _cells(ledger, FLOOD, OURS):
        theirs = cell._replace(system=THEIRS, way="")
        if cell.way == "batch" and cell.service == "agreed" and ledger.values(theirs, CPU):
            ours_us, theirs_us = ledger.values(cell, CPU), ledger.values(theirs, CPU)
            place = [str(cell.nodes), str(cell.mtu), size_of(cell.size)]
            figures = [spread(ours_us, 2), spread(theirs_us, 2), ratio(ours_us, theirs_us)]
            rows.append([*place, *figures])
    return table(["nodes", "MTU", "size", OURS, THEIRS, "ratio"], rows)


def latency(ledger: Ledger) -> str:
    """Return the table of how long a message takes."""
    rows = []
    for kind, said in LATENCIES.items():
        for cell in _cells(ledger, kind):
            told = ledger.latency(cell)
            rates = ledger.values(cell, "rate")
            if told:
                rows.append(
                    [
                        str(cell.nodes),
                        str(cell.mtu),
                        said + (f" ({statistics.median(rates):,.0f}/s)" if rates else ""),
                        f"{cell.system}, clients in Python" if cell.way else cell.system,
                        *(f"{told[name]:,.0f}" if name in told else "" for name in QUANTILES),
                        f"{len(ledger.samples(cell)):,}",
                    ]
                )
    return table(["nodes", "MTU", "load", "", *QUANTILES, "samples"], rows)


QUANTILES = ("p50", "p90", "p99", "p99.9")


def others(ledger: Ledger) -> str:
    """Return the sentences about what has one figure each."""
    lines: list[str] = []
    for cell in _cells(ledger, IDLE):
        shares = [100 * one for one in ledger.values(cell, "cpu_share")]
        lines.append(
            f"- an idle daemon of {cell.system}, {cell.nodes} nodes, MTU {cell.mtu}: "
            f"{spread(shares, 1)} %"
        )
    for cell in _cells(ledger, RING):
        packets = spread(ledger.values(cell, "packets_per_s"))
        lines.append(
            f"- the ring alone, {cell.nodes} nodes, MTU {cell.mtu}, no clients: {packets} packets/s"
        )
    for way in FLOORS:
        for cell in [one for one in _cells(ledger, FLOOR, UDP) if one.way == way]:
            packets = spread(ledger.values(cell, "packets_per_s"))
            lines.append(f"- plain UDP, {way}, MTU {cell.mtu}: {packets} datagrams/s, no order")
    for cell in _cells(ledger, MEMORY):
        for one in ledger.figures(cell):
            said = f"{one['rss_mib']} MiB, {one['growth']} of what it was after the first minute"
            lines += [f"- memory of the largest daemon of {cell.system} at saturation: {said}"]
    for system in (NATS, REDIS):
        for cell in _cells(ledger, MARK, system):
            rates = ledger.values(cell, RATE)
            if rates:
                lines.append(f"- {system}, {size_of(cell.size)}: {spread(rates)} messages/s")
    for cell in _cells(ledger, FAILOVER):
        for one in [one for one in ledger.figures(cell) if "candidates" not in one]:
            said = f"corosync {one['corosync_ms']} ms, ours with `lan` {one['lan_ms']} ms"
            lines += [f"- fail-over, {one['kills']} kills: `fast` {one['fast_ms']} ms, {said}"]
    return "\n".join(lines)


def candidates(told: Figures) -> str:
    """Return the table of the settings that were tried for fail-over, and who won."""
    rows: list[list[str]] = []
    tried = told["candidates"]
    assert isinstance(tried, list)
    for one in sorted(tried, key=lambda one: str(one["system"]), reverse=True):
        took, flood, long = one["took_ms"], one["flood"], one["long"]
        kills = took["samples"] if took else 0
        rows.append(
            [
                one["system"],
                one["settings"],
                *(f"{took[key]:.1f}" if took else "" for key in ("p50", "least", "p90", "most")),
                f"{kills}, {one['disturbed']}",
                _stood(flood),
                _stood(long) if long else "",
                "wins" if one["wins"] else "" if one["stands"] else one["failed"] or "out",
            ]
        )
    headings = ["", "settings (ms)", "median", "least", "p90", "most", "kills, into a broken ring"]
    headings += ["false suspicions, excused ones, seconds", "in the long flood", ""]
    ratio = told["ratio"]
    said = "one of the systems has none" if ratio is None else f"{ratio}, medians"
    return f"{table(headings, rows)}\n\nRatio of the winners: {said}."


def _stood(flood: Figures) -> str:
    return f"{flood['false']}, {flood['excused']}, {flood['seconds']:.0f}"


def tunings(ledger: Ledger) -> str:
    """Return the table of the settings of corosync that were tried."""
    rows = []
    for cell in _cells(ledger, TUNE):
        settings = "; ".join(tuned(cell.way, cell.mtu)) or "as it comes"
        rows.append(
            [str(cell.mtu), size_of(cell.size), settings, spread(ledger.values(cell, RATE))]
        )
    return table(["MTU", "size", "settings", "messages/s"], rows)


def bars(verdicts: Iterable[Verdict]) -> str:
    """Return the table of the bars."""
    rows = []
    for one in verdicts:
        sign = "≥" if one.bar.is_least else "≤"
        aim = "" if one.bar.aim is None else f"{sign} {one.bar.aim:g}"
        value = "" if one.value is None else f"{one.value:.3g}"
        rows.append([one.bar.name, f"{sign} {one.bar.bound:g}", aim, value, one.word()])
    return table(["", "bar", "aim", "is", ""], rows)


def _cores(ledger: Ledger, which: str) -> str:
    return spread(ledger.noise(which), 2) or "an unknown number of"


def part(ledger: Ledger, verdicts: Sequence[Verdict], pictures: Iterable[tuple[str, str]]) -> str:
    """Return all of it: what goes between the marks."""
    about = "; ".join(f"{name} {said}" for name, said in ledger.about.items())
    drawn = "\n\n".join(f"![{title}]({file})" for title, file in pictures)
    turns = 1 + max((one.turn for one in ledger.entries), default=0)
    paragraphs = [
        f"{about}. {turns} turn{'s' * (turns != 1)}, in which the systems alternate; medians, "
        "with the least and the most turn in parentheses. Messages a second are what one client "
        "hears while a client at every node sends as fast as it may; both systems are encrypted. "
        "Other things took "
        f"{_cores(ledger, 'others_cores')} cores meanwhile; the host of a virtual machine took "
        f"{_cores(ledger, 'stolen_cores')}.",
        "Bars:",
        bars(verdicts),
        "Messages a second:",
        throughput(ledger),
        drawn,
        "CPU of all daemons for a delivered message, us:",
        cpu(ledger),
        "From the moment at which a message is due until its sender hears it, us:",
        latency(ledger),
        "Besides:",
        others(ledger),
        "Settings of corosync (`knet`) that were tried, of which the best for each MTU was used:",
        tunings(ledger),
    ]
    for cell in _cells(ledger, FAILOVER):
        for one in [one for one in ledger.figures(cell) if "candidates" in one]:
            paragraphs += ["Fail-over, three settings of each, ms:", candidates(one)]
    failures = ledger.failures()
    if failures:
        paragraphs += ["Not measured:", "\n".join(f"- {one}" for one in failures)]
    return "\n\n".join(paragraphs)
