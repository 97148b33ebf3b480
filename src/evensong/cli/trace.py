"""`evensong trace`: look into traces, put them together, hold them against the promises."""

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.cli.command import (
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.cli.targets import states_of
from evensong.errors import BadRequest, BadTrace, Unreachable

if TYPE_CHECKING:
    from evensong.sim.evs import Verdict
    from evensong.trace.assembly import TracedLife
    from evensong.trace.directory import Place
    from evensong.trace.judge import Judgement

TABLES: Final = ("deliveries", "sends", "events")
FORMATS: Final = ("jsonl", "csv")


def register(subparsers: Subparsers) -> None:
    """Declare the command and what it can do."""
    parser = add_command(
        subparsers,
        "trace",
        run,
        summary="look into traces, merge and export them, check what they prove",
        example="evensong trace check cluster",
    )
    parser.set_defaults(trace_parser=parser)
    acts = parser.add_subparsers(title="what to do", metavar="act")
    inspect = add_command(
        acts,
        "inspect",
        run_inspect,
        summary="show what is in traces: nodes, lives, configurations, counts, gaps",
        example="evensong trace inspect cluster/n1",
    )
    check = add_command(
        acts,
        "check",
        run_check,
        summary="hold traces against extended virtual synchrony; "
        "exit with 1 if they break it, with 3 if they do not suffice to tell",
        example="evensong trace check cluster --json",
    )
    check.add_argument(
        "--quiesced",
        action="store_true",
        help="daemons that still run are quiet: what they sent is delivered, nothing is to come",
    )
    merge = add_command(
        acts,
        "merge",
        run_merge,
        summary="write the traces of several daemons as one run of Parquet files",
        example="evensong trace merge n1 n2 n3 --output merged --run monday",
    )
    merge.add_argument("--output", type=Path, required=True, metavar="DIR", help="where to")
    merge.add_argument("--run", dest="run_id", metavar="ID", help="its name (default: the cluster)")
    export = add_command(
        acts,
        "export",
        run_export,
        summary="print a table of traces as JSON lines or CSV",
        example="evensong trace export cluster --table events --node 2 --format csv",
    )
    export.add_argument("--table", choices=TABLES, default="events", help="which (default: events)")
    export.add_argument("--format", choices=FORMATS, default="jsonl", help="how (default: jsonl)")
    export.add_argument("--node", type=int, metavar="N", help="rows of this node only")
    export.add_argument("--conf", metavar="ID", help="rows in this configuration only, as 8.1")
    flight = add_command(
        acts,
        "flight",
        run_flight,
        summary="print what a running daemon remembers of its last state changes and troubles",
        example="evensong trace flight n1.toml",
    )
    flight.add_argument(
        "target",
        type=Path,
        metavar="CONFIG|STATE_DIR",
        help="a daemon's settings or its state directory",
    )
    flight.add_argument("--json", action="store_true", help="print JSON lines")
    for act in (inspect, check, merge, export):
        act.add_argument(
            "paths",
            type=Path,
            nargs="+",
            metavar="PATH",
            help="settings or state directory of a daemon, a directory of such, or a trace",
        )
        act.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Say what there is to do."""
    args.trace_parser.print_help(sys.stderr)
    return EXIT_USAGE


# Reading


def _places(paths: list[Path]) -> "list[Place]":
    from evensong.daemon.settings import load
    from evensong.trace.directory import Place, find

    places: list[Place] = []
    for path in paths:
        if path.is_file():
            settings = load(path)
            places.append(Place(settings.trace_dir, settings.state))
        else:
            places += find(path)
    return places


def _is_running(place: "Place") -> bool:
    """Whether a daemon still writes there; if so, let it write down what it has."""
    from evensong.daemon.control import ask, is_listening

    if place.state is None or not is_listening(place.state):
        return False
    with suppress(Unreachable, BadRequest):  # suspended, or on its way out: then without
        ask(place.state, {"do": "flush"})
    return True


def _read(paths: list[Path], running_end: str) -> "dict[str, list[TracedLife]]":
    """Return all lives, by run."""
    from evensong.trace.directory import read_place, settle

    runs: dict[str, list[TracedLife]] = {}
    seen: dict[tuple[str, int], Path] = {}
    for place in _places(paths):
        is_running = _is_running(place)
        for (run_id, node), lives in read_place(place).items():
            if (run_id, node) in seen:
                first = seen[run_id, node]
                raise BadTrace(f"{place.directory}: has node {node} of {run_id}, as {first} has")
            seen[run_id, node] = place.directory
            if is_running:
                settle(lives, running_end)
            else:  # of a trace that was copied away nobody knows whether its daemon lives
                settle(lives, "lost" if place.state is not None else "")
            runs.setdefault(run_id, []).extend(lives)
    return runs


# Inspect


def run_inspect(args: argparse.Namespace) -> int:
    """Show what is in there."""
    runs = _read(args.paths, "")
    told = {run_id: [_about(one) for one in lives] for run_id, lives in sorted(runs.items())}
    if args.json:
        print(json.dumps({"runs": told}))
        return EXIT_OK
    for run_id, lives in told.items():
        print(f"run {run_id}: {len({life['node'] for life in lives})} nodes, {len(lives)} lives")
        for life in lives:
            print(_line(life))
    return EXIT_OK


def _about(one: "TracedLife") -> dict[str, object]:
    life = one.life
    events = life.events
    start = dict(events[0].aux) if events else {}
    counts: dict[str, int] = {}
    for event in events:
        counts[event.etype] = counts.get(event.etype, 0) + 1
    return {
        "node": life.node,
        "incarnation": life.incarnation,
        "level": one.level,
        "ended": life.ended or "open",
        "from_us": events[0].t_us if events else None,
        "to_us": max(
            (rows[-1].t_us for rows in (events, life.deliveries, life.sends) if rows), default=None
        ),
        "wall_offset_us": int(start["wall_offset_us"]) if "wall_offset_us" in start else None,
        "configurations": [str(conf.conf_id) for conf in life.confs],
        "deliveries": len(life.deliveries),
        "sends": len(life.sends),
        "sessions": counts.get("open", 0),
        "frames_told": sum(map(len, life.heard.values())),
        "frames_sent": len(life.said),
        "events": dict(sorted(counts.items())),
        "has_beginning": one.has_beginning,
        "gaps": one.gaps,
        "left_out": one.left_out,
        "torn": one.is_torn,
    }


def _line(life: dict[str, object]) -> str:
    confs = life["configurations"]
    assert isinstance(confs, list)
    start, end = life["from_us"], life["to_us"]
    took = (end - start) / 1_000_000 if isinstance(start, int) and isinstance(end, int) else 0.0
    notes = [
        note
        for note, is_so in (
            ("its beginning was deleted", not life["has_beginning"]),
            (f"{life['gaps']} gaps, {life['left_out']} rows left out", life["gaps"]),
            ("torn at its end", life["torn"]),
        )
        if is_so
    ]
    return (
        f"  node {life['node']}, incarnation {life['incarnation']}: {life['level']}, "
        f"{life['ended']} after {took:.1f} s; {len(confs)} configurations"
        + (f", the last {confs[-1]}" if confs else "")
        + f"; {life['deliveries']} deliveries, {life['sends']} sends"
        + (
            f"; {life['sessions']} sessions, {life['frames_told']} frames told to them"
            if life["sessions"]
            else ""
        )
        + "".join(f"; {note}" for note in notes)
    )


# Check


def run_check(args: argparse.Namespace) -> int:
    """Judge every run."""
    from evensong.trace.judge import BROKEN, HOLDS, INCONCLUSIVE, judge

    runs = _read(args.paths, "quiesce" if args.quiesced else "")
    judged = {run_id: (lives, judge(lives)) for run_id, lives in sorted(runs.items())}
    verdicts = {judgement.verdict for _, judgement in judged.values()}
    verdict = next((word for word in (BROKEN, INCONCLUSIVE) if word in verdicts), HOLDS)
    if args.json:
        told = {
            "holds": verdict == HOLDS,
            "verdict": verdict,
            "complete": all(judgement.is_complete for _, judgement in judged.values()),
            "runs": {run_id: _told(*one) for run_id, one in judged.items()},
        }
        print(json.dumps(told))
    else:
        for run_id, (lives, judgement) in judged.items():
            _print_judgement(run_id, lives, judgement)
    return {BROKEN: EXIT_VIOLATION, INCONCLUSIVE: EXIT_UNREACHABLE}.get(verdict, EXIT_OK)


def _print_judgement(run_id: str, lives: "list[TracedLife]", judgement: "Judgement") -> None:
    deliveries = sum(len(one.life.deliveries) for one in lives)
    print(f"run {run_id}: {len(lives)} lives, {deliveries} deliveries")
    blank = [one for one in lives if one in judgement.blank]
    for one in lives:
        name = f"node {one.life.node}/{one.life.incarnation}"
        if one in blank:
            why = f"level {one.level}" if one.has_beginning else "its beginning was deleted"
            print(f"  {name} is not judged: {why if one.gap is None else 'it begins with a gap'}")
        elif one.gap is not None:
            print(f"  {name} has a gap: judged up to it")
        if one.is_late and one.has_beginning:
            print(f"  {name} is judged, what its node did before it was deleted")
    for node, incarnation in judgement.absent:
        print(f"  node {node} lived, about as {node}/{incarnation}: no trace of it here")
    verdicts = judgement.verdicts
    print(verdicts.explain())
    doubts = "; ".join(judgement.doubts)
    if not verdicts.holds:
        print(f"BROKEN; unknown: {verdicts.n_unknown} rows")
    elif doubts:
        what = "membership holds" if len(blank) == len(lives) else "what could be judged holds"
        if not any(one.n_checked for one in verdicts.by_property.values()):
            what = "nothing could be judged"
        print(f"INCONCLUSIVE: {what}; {doubts}; unknown: {verdicts.n_unknown} rows")
    else:
        print(f"holds; unknown: {verdicts.n_unknown} rows")


def _told(lives: "list[TracedLife]", judgement: "Judgement") -> dict[str, object]:
    verdicts = judgement.verdicts
    return {
        "holds": judgement.verdict == "holds",
        "verdict": judgement.verdict,
        "doubts": judgement.doubts,
        "complete": judgement.is_complete,
        "lives": len(lives),
        "not_judged": [[one.life.node, one.life.incarnation] for one in judgement.blank],
        "absent": [list(key) for key in judgement.absent],
        "left_out": sum(one.left_out for one in lives),
        "unknown": verdicts.n_unknown,
        "properties": {name: plain_verdict(one) for name, one in verdicts.by_property.items()},
    }


def plain_verdict(verdict: "Verdict") -> dict[str, object]:
    """Return a verdict as values that JSON can carry."""
    return {
        "status": verdict.status.value,
        "checked": verdict.n_checked,
        "unknown": verdict.n_unknown,
        "violations": verdict.n_violations,
        "witnesses": [sample.text for sample in verdict.samples],
    }


# Merge and export


def run_merge(args: argparse.Namespace) -> int:
    """Write everything as one run."""
    from evensong.trace.directory import steadily

    places = _places(args.paths)
    for place in places:
        _is_running(place)
    run_dir, nodes = steadily(args.output, lambda: _merge(args, places))
    told = {"run": str(run_dir), "nodes": nodes}
    print(json.dumps(told) if args.json else f"{run_dir}: {len(nodes)} nodes")
    return EXIT_OK


def _merge(args: argparse.Namespace, places: "list[Place]") -> tuple[Path, list[int]]:
    from evensong.sim.whole import whole
    from evensong.trace.convert import merge_into
    from evensong.trace.directory import sources_in

    found = []
    for place in places:
        sources = sources_in(place.directory)
        found += [(whose, sources) for whose in sorted(sources)]
    names = {whose[0] for whose, _ in found}
    nodes = [whose[1] for whose, _ in found]
    if args.run_id is None and len(names) > 1:
        raise BadTrace(f"--run: name the run; these are of {', '.join(sorted(names))}")
    for node in nodes:
        if nodes.count(node) > 1:
            raise BadTrace(f"node {node} is in more than one of these traces")
    run_dir = args.output / f"run_id={args.run_id or names.pop()}"
    if run_dir.exists():
        raise BadTrace(f"{run_dir}: a trace of that name is already there")
    args.output.mkdir(parents=True, exist_ok=True)
    with whole(run_dir) as partial:
        for whose, sources in found:
            folder = partial / f"node={whose[1]}"
            folder.mkdir(parents=True)
            merge_into(folder, whose, sources)
    return run_dir, sorted(nodes)


def run_export(args: argparse.Namespace) -> int:
    """Print the rows of a table."""
    runs = _read(args.paths, "")
    rows = (
        row
        for run_id, lives in sorted(runs.items())
        for one in lives
        if args.node in (None, one.life.node)
        for row in _rows(run_id, one, args.table)
        if args.conf in (None, row["conf"])
    )
    if args.format == "jsonl" or args.json:
        for row in rows:
            print(json.dumps(row))
        return EXIT_OK
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return EXIT_OK


def _rows(run_id: str, one: "TracedLife", table: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a life and of its sessions, with the configuration's id."""
    from evensong.trace.columns import (
        both,
        delivery_columns,
        event_columns,
        heard_columns,
        heard_of,
        said_columns,
        send_columns,
    )

    life = one.life
    incarnation = life.incarnation
    if table == "deliveries":
        numbered = enumerate(life.deliveries)
        ring = delivery_columns([(incarnation, pos, row) for pos, row in numbered])
        columns = both(ring, heard_columns(heard_of(life)))
    elif table == "sends":
        ring = send_columns([(incarnation, row) for row in life.sends])
        columns = both(ring, said_columns([(incarnation, row) for row in life.said]))
    else:
        columns = event_columns([(incarnation, pseq, row) for pseq, row in enumerate(life.events)])
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        conf_no = row["conf_no"]
        conf = str(life.conf_id(conf_no)) if isinstance(conf_no, int) else None
        yield {"run_id": run_id, "node": life.node, "conf": conf, **row}


# Flight


def run_flight(args: argparse.Namespace) -> int:
    """Ask a daemon for its flight recorder."""
    from evensong.daemon.control import ask

    (state,) = states_of([args.target])
    entries = ask(state, {"do": "flight"})["entries"]
    assert isinstance(entries, list)
    for entry in entries:
        if args.json:
            print(json.dumps(entry))
        else:
            about = ", ".join(f"{key} {value}" for key, value in entry.items() if key != "t_us")
            print(f"{entry['t_us'] / 1_000_000:.6f} {about}")
    return EXIT_OK
