"""A small report made by hand: two runs, one of them broken, and all that a page can show."""

from evensong.report.model import (
    Change,
    Fairness,
    Interval,
    Life,
    Load,
    Promise,
    Report,
    Run,
    Source,
    Stay,
    Story,
    Timing,
    Verdict,
)

MS = 1_000
HOSTILE = "<script>alert('a & b')</script>"


def life(node: int, incarnation: int = 1, **changed: object) -> Life:
    values: dict[str, object] = {
        "node": node,
        "incarnation": incarnation,
        "clock": "here",
        "level": "events",
        "has_beginning": True,
        "ended": "stop",
        "gaps": 0,
        "configurations": 2,
        "events": 40,
        "from_us": 0,
        "to_us": 3_000 * MS,
    }
    return Life(**{**values, **changed})  # type: ignore[arg-type]


def stay(node: int, conf_id: str, members: tuple[int, ...], from_ms: int, to_ms: int) -> Stay:
    return Stay(node, 1, conf_id, False, members, "join", from_ms * MS, to_ms * MS)


TIMINGS = tuple(
    Timing(name, 40, 2_100.0, p50, 4_000, 9_000, 12_000, bins)
    for name, p50, bins in (
        ("agreed", 900, ((0.0, 1.0, 10), (724.0, 1024.0, 25), (11_585.0, 13_777.0, 5))),
        ("safe", 2_200, ((1_722.0, 2_435.0, 30), (8_192.0, 9_742.0, 10))),
    )
)

WHOLE = Run(
    "monday",
    lives=(
        life(1),
        life(2, ended="nothing", to_us=1_500 * MS),
        life(2, 2, from_us=2_000 * MS, has_beginning=False, gaps=1),
    ),
    stays=(
        stay(1, "4.1", (1,), 0, 100),
        stay(1, "8.1", (1, 2), 100, 1_900),
        Stay(1, 1, "10.1", True, (1,), "token loss", 1_900 * MS, 1_900 * MS),
        stay(1, "12.1", (1,), 1_900, 3_000),
        stay(2, "8.1", (1, 2), 110, 1_500),
    ),
    width_us=100 * MS,
    throughput=(
        Interval(1, "agreed", 100 * MS, 120, 4_000),
        Interval(1, "safe", 100 * MS, 30, 900),
        Interval(1, "agreed", 300 * MS, 90, 3_000),
        Interval(2, "agreed", 100 * MS, 118, 3_900),
    ),
    load=(
        Load(1, 150, 4_900, 0.75, 240, 7_900, 900, 150, 3),
        Load(2, 50, 1_000, 0.25, 118, 3_900, 880, 50, 0),
    ),
    fairness=(Fairness("8.1", 2, 200, 0.8, 0.25, 0.75),),
    latency=TIMINGS,
    one_way=TIMINGS[1:],
    rotation=(Timing("n1", 30, 800.0, 700, 900, 2_000, 3_000),),
    rounds=(Timing("all nodes", 30, 800.0, 700, 900, 2_000, 3_000, ((512.0, 724.0, 30),)),),
    changes=(
        Change(
            "8.1",
            (1, 2),
            (),
            (2,),
            "join",
            1,
            90 * MS,
            95 * MS,
            110 * MS,
            True,
            12 * MS,
            "n2 started",
            20 * MS,
            Story(("n2 joined (started)",), ("n1: join (n2)", "n2: started"), "recovered in 20 ms"),
        ),
    ),
    verdicts=(
        Verdict("EVS4", "pass", 30),
        Verdict("EVS7.1", "inconclusive", 90, 4),
        Verdict("TR3", "vacuous"),
        Verdict("TG", "pass", 200),
    ),
)

BROKEN = Run(
    "tuesday " + HOSTILE,
    lives=(life(1, clock="here"), life(2, clock="there")),
    stays=(stay(1, "8.1", (1, 2), 0, 3_000), stay(2, "8.1", (1, 2), 0, 3_000)),
    changes=(
        Change("8.1", (1, 2), (), (), HOSTILE, 1, 0, None, 9 * MS, False, None, HOSTILE, None),
    ),
    load=(Load(1, 0, 0, None, 0, 0, 0, 0, 0),),
    verdicts=(
        Verdict("EVS4", "pass", 30),
        Verdict("EVS7.1", "vacuous"),
        Verdict("TR3", "vacuous"),
        Verdict("TG", "fail", 10, 0, 7, (f"n1 delivered {HOSTILE} before n2's",)),
    ),
)

PROMISES = (
    Promise("EVS4", "who goes on together has the same messages", "Replicas stay equal."),
    Promise("EVS7.1", "safe means everybody", "Nobody misses what was safe."),
    Promise("TR3", "without changes, everything arrives", "A quiet ring loses nothing."),
    Promise("TG", "one order for all", f"Two messages {HOSTILE} have one order."),
)

REPORT = Report(
    (WHOLE, BROKEN),
    PROMISES,
    (Source(f"traces/{HOSTILE}", 6, 12_345), Source("hdfs://cluster/traces")),
    (f"Left out: {HOSTILE}",),
    "0.1",
    f"evensong report 'traces/{HOSTILE}' --output report.html",
    2,
)
