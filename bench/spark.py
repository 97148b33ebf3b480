"""How long the audit takes, from ten to eighty million deliveries; what an order check alone costs.

Each size is audited by the command itself, in a process of its own. Then, in one session and turn
about, the order of deliveries alone is judged and its columns are merely read. DuckDB does the same
order check beside it if it is installed (`pip install duckdb`; nothing else needs it).

    python -m bench.spark --dir out/traces [--millions 10,20,40,80] [--plant swap] [--json]

Traces are made once and kept in the directory; 80 million deliveries take 1 GB. With `--plant`, one
thing is wrong among the rows of the largest size, and must be found and named. `--only` does a part
of it: `audits`, `order` or `plants`. Exits with 1 if a bar is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bench.synthetic import PLANTS, make
from bench.synthetic.plan import PLANT_NODE, Ring, n_rows, plan
from bench.synthetic.rows import units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_MAX = 300  # for the largest size, all properties
GROWTH_MAX = 1.3  # times four: the largest step to the smallest, which is a quarter of it
ORDER_RATIO_MAX = 4  # to a bare scan of the same columns
TURNS = 3
PARTS = ("audits", "order", "plants")
ORDER = "TG"
ORDER_COLUMNS = (
    "incarnation", "pos", "ring_seq", "ring_rep", "seq", "conf_no", "sender", "sender_inc",
    "origin_no", "service", "stable_seq", "digest", "size", "t_us",
)  # fmt: skip

# What must fail, and nothing else: as the checker in memory says of the same trace, made small.
EXPECTED = {
    "swap": {"EVS6.1", "TG"},
    "missing": {"EVS4", "EVS5", "EVS6.3", "TF3"},
    "early": {"EVS4", "EVS7.1"},
    "content": {"EVS1.3", "EVS4", "EVS5", "EVS6.3", "EVS7.1", "TF3"},
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the audit on Spark.")
    parser.add_argument("--dir", type=Path, required=True, help="where traces are made and kept")
    parser.add_argument("--millions", default="10,20,40,80", help="deliveries, one size or more")
    parser.add_argument("--plant", action="append", choices=[*PLANTS, "all"], default=[])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--driver-memory", default="8g")
    parser.add_argument("--only", choices=PARTS, help="a part of it alone")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def audit(args: argparse.Namespace, trace: Path) -> dict[str, object]:
    """Audit a trace as a user does; return what the command says, and what it took."""
    command = [sys.executable, "-m", "evensong", "audit", str(trace), "--json"]
    command += ["--master", args.master, "--driver-memory", args.driver_memory]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode not in (0, 1):
        sys.exit(f"the audit ended with {done.returncode}: {done.stderr.strip()}")
    said: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    said["command_seconds"] = round(took, 1)
    return said


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def order_beside_scan(args: argparse.Namespace, trace: Path) -> dict[str, object]:
    """Time the order check and a bare scan of its columns, turn about."""
    from evensong.spark.session import session

    conf = {"spark.driver.memory": args.driver_memory}
    with session("bench", master=args.master, conf=conf) as spark:
        bare(spark, trace)  # so that neither turn pays for the first classes
        taken = [
            (timed(lambda: bare(spark, trace)), timed(lambda: order(spark, trace)))
            for _ in range(TURNS)
        ]
    scan_s, order_s = (statistics.median(column) for column in zip(*taken, strict=True))
    return {
        "scan_s": round(scan_s, 1),
        "order_s": round(order_s, 1),
        "ratio": round(order_s / scan_s, 2),
        "turns": [[round(one, 1) for one in turn] for turn in taken],
    }


def bare(spark: "SparkSession", trace: Path) -> None:
    """Read the columns of the order check and do next to nothing with them."""
    from pyspark.sql import functions as F

    rows = spark.read.option("pathGlobFilter", "deliveries-*.parquet").parquet(str(trace))
    rows.agg(*(F.max(name) for name in ORDER_COLUMNS)).collect()


def order(spark: "SparkSession", trace: Path) -> None:
    """Judge the order of deliveries and nothing else."""
    from evensong.spark.auditing import run_audit

    found = run_audit(spark, [str(trace)], [ORDER])
    assert found.verdict == "holds", found.verdicts


def duckdb_order(trace: Path) -> float | None:
    """Time the same digests by DuckDB on as many threads; None where it is not installed."""
    if find_spec("duckdb") is None:
        return None
    import duckdb

    files = f"{trace}/run_id=*/node=*/deliveries-*.parquet"
    query = f"""
        select run_id, conf_no, seq >> 10 as chunk, count(distinct (n, digests)) from (
            select run_id, node, conf_no, seq >> 10 << 10 as seq, count(*) as n,
                sum(hash(ring_seq, ring_rep, seq, sender, sender_inc, origin_no, digest, size,
                    service)) as digests,
                min(seq - pos::hugeint) as least, max(seq - pos::hugeint) as most
            from read_parquet('{files}', hive_partitioning = true)
            group by all)
        group by all having count(distinct (n, digests)) > 1"""
    with duckdb.connect(config={"threads": len(os.sched_getaffinity(0))}) as connection:
        return statistics.median(
            timed(lambda: connection.execute(query).fetchall()) for _ in range(TURNS)
        )


def planted_units(ring: Ring) -> list[str]:
    """Return the names of the units with which something is wrong."""
    import numpy as np

    at = ring.planted_at
    index = np.array([at - 1, at] if ring.plant == "swap" else [at])
    unit = units(ring, index)
    return [
        f"{sender}/1:{origin_no}"
        for sender, origin_no in zip(unit["sender"], unit["origin_no"], strict=True)
    ]


def find_planted(args: argparse.Namespace, rows: int, plant: str) -> dict[str, object]:
    """Audit a trace with one thing wrong; tell whether that, and only that, is named."""
    trace = make(args.dir, rows, plant)
    ring = next(ring for rings in plan(rows, plant) for ring in rings if ring.plant)
    said = audit(args, trace)
    properties = said["properties"]
    assert isinstance(properties, dict)
    failing = {name for name, verdict in properties.items() if verdict["status"] == "fail"}
    told = [text for name in failing for text in properties[name]["witnesses"]]
    names = [f"p{PLANT_NODE}", *planted_units(ring)]
    return {
        "plant": plant,
        "failing": sorted(failing),
        "expected": sorted(EXPECTED[plant]),
        "names": names,
        "is_named": all(any(name in text for text in told) for name in names),
        "is_exact": failing == EXPECTED[plant],
        "seconds": said["seconds"],
        "samples": sorted(told),
    }


def time_audits(args: argparse.Namespace, sizes: list[int]) -> tuple[dict[str, object], list[str]]:
    """Time the clean traces; return the figures and the bars that were missed."""
    missed: list[str] = []
    taken: dict[int, float] = {}
    figures: list[dict[str, object]] = []
    for rows in sizes:
        trace = make(args.dir, rows)
        said = audit(args, trace)
        properties = said["properties"]
        assert isinstance(properties, dict)
        idle = [name for name, one in properties.items() if one["status"] != "pass"]
        if idle:
            missed.append(f"{rows:,} deliveries: not passed: {', '.join(idle)}")
        taken[rows] = float(str(said["seconds"]))
        figures.append(
            {
                "deliveries": n_rows(plan(rows)),
                "events": said["events"],
                "seconds": said["seconds"],
                "command_seconds": said["command_seconds"],
                "properties": len(properties),
                "not_passed": idle,
            }
        )
        _tell(args, f"{n_rows(plan(rows)):>12,} deliveries: {taken[rows]:6.1f} s")
    result: dict[str, object] = {"audits": figures}
    if taken[sizes[-1]] > SECONDS_MAX:
        missed.append(f"{sizes[-1]:,} deliveries took more than {SECONDS_MAX} s")
    if len(sizes) == 4:
        first, last = taken[sizes[1]] - taken[sizes[0]], taken[sizes[3]] - taken[sizes[2]]
        result["growth"] = {"first_step_s": first, "last_step_s": last, "ratio": last / first / 4}
        _tell(args, f"the last step takes {last / first:.2f} of the first, 4 times its rows")
        if last > GROWTH_MAX * 4 * first:
            missed.append(f"time grows faster than rows: {last:.1f} s after {first:.1f} s")
    return result, missed


def time_order(args: argparse.Namespace, rows: int) -> tuple[dict[str, object], list[str]]:
    """Time the order check alone; return the figures and the bar if it was missed."""
    trace = make(args.dir, rows)
    missed: list[str] = []
    beside = order_beside_scan(args, trace)
    _tell(args, f"order alone {beside['order_s']} s, a bare scan {beside['scan_s']} s")
    if float(str(beside["ratio"])) > ORDER_RATIO_MAX:
        missed.append(f"order alone takes {beside['ratio']} times a bare scan")
    duck = duckdb_order(trace)
    _tell(args, f"DuckDB: {duck:.1f} s" if duck is not None else "DuckDB is not installed")
    return {"order": beside, "duckdb_order_s": duck}, missed


def _tell(args: argparse.Namespace, line: str) -> None:
    print(line, file=sys.stderr if args.json else sys.stdout, flush=True)


def main() -> int:
    args = options()
    sizes = sorted(int(text) * 1_000_000 for text in args.millions.split(","))
    result: dict[str, object] = {}
    missed: list[str] = []
    if args.only in (None, "audits"):
        figures, more = time_audits(args, sizes)
        result, missed = result | figures, missed + more
    if args.only in (None, "order"):
        figures, more = time_order(args, sizes[-1])
        result, missed = result | figures, missed + more
    plants = PLANTS if "all" in args.plant else args.plant
    found = []
    for plant in plants:
        one = find_planted(args, sizes[-1], plant)
        found.append(one)
        is_found = one["is_exact"] and one["is_named"]
        _tell(args, f"{plant}: {'found and named' if is_found else 'NOT as it should be'}: {one}")
        if not is_found:
            missed.append(f"{plant} was not named exactly")
    result |= {"plants": found, "missed": missed}
    if args.json:
        print(json.dumps(result))
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
