"""What Spark costs a campaign: the same seeds by Spark's tasks and by plain processes, in turn.

The seeds are cut into blocks; each block is done both ways, one after the other and the other way
round the next time, so that a machine that slows down slows both. How long Spark takes to be ready
is told apart: it does not grow with the seeds. From the rate follows what ten thousand seeds take.
The last line is one JSON object; the exit code is 1 if Spark costs more than it may.

    python -m bench.campaign [--seeds 0:1000] [--blocks 4] [--clients] [--master local[2]]
"""

import argparse
import json
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from evensong.cli import runs
from evensong.sim.campaign import Done, Task, results
from evensong.sim.tally import Tally
from evensong.spark.session import add_spark_options, session_from
from evensong.spark.settings import SMALL_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOWER_MAX = 1.20  # what we hold ourselves to
MINUTES_MAX = 60.0  # for ten thousand seeds on two cores
MANY = 10_000


def by_processes(seeds: range, clients: bool, jobs: int) -> tuple[float, Tally]:
    """Do seeds as `evensong sim` does."""
    tally = Tally(clients=clients)
    started = time.perf_counter()
    for done in results((Task(seed, clients=clients) for seed in seeds), jobs):
        tally.add(done)
    return time.perf_counter() - started, tally


def by_spark(spark: "SparkSession", seeds: range, clients: bool) -> tuple[float, Tally]:
    """Do seeds as `evensong campaign` does, kept on disk."""
    from evensong.spark.campaign.conduct import Conductor, due_parts
    from evensong.spark.campaign.plan import Campaign
    from evensong.spark.campaign.store import Store
    from evensong.spark.files import Folder

    campaign = Campaign(seeds, clients=clients)
    tally = Tally(clients=clients)

    def take(dones: list[Done]) -> None:
        for done in dones:
            tally.add(done)

    with tempfile.TemporaryDirectory(prefix="evensong-") as directory:
        store = Store(Folder(spark, directory), campaign)
        started = time.perf_counter()
        Conductor(spark, campaign, store).run(due_parts(campaign, {}), take, lambda steps: None)
        return time.perf_counter() - started, tally


def blocks_of(seeds: range, blocks: int) -> list[range]:
    size = -(-len(seeds) // blocks)
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def get_ready(spark: "SparkSession") -> None:
    from evensong.spark.campaign.conduct import Conductor
    from evensong.spark.campaign.plan import Campaign
    from evensong.spark.campaign.store import Store
    from evensong.spark.files import Folder

    campaign = Campaign(range(1))
    Conductor(spark, campaign, Store(Folder(spark, tempfile.gettempdir()), campaign)).get_ready()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what Spark costs a campaign.")
    parser.add_argument("--seeds", type=runs.seeds, default=range(1000), metavar="A:B")
    parser.add_argument("--blocks", type=int, default=4, metavar="N")
    parser.add_argument("--clients", action="store_true")
    add_spark_options(parser)
    args = parser.parse_args()
    jobs = os.cpu_count() or 1
    plain_s: list[float] = []
    spark_s: list[float] = []
    violations = 0
    started = time.perf_counter()
    with session_from(args, "bench campaign", n_bytes=SMALL_BYTES) as spark:
        get_ready(spark)
        ready_s = time.perf_counter() - started
        print(f"Spark was ready after {ready_s:.1f} s; {jobs} cores", flush=True)
        for number, seeds in enumerate(blocks_of(args.seeds, args.blocks)):
            tallies = []
            for way in ("processes", "spark") if number % 2 == 0 else ("spark", "processes"):
                if way == "spark":
                    seconds, tally = by_spark(spark, seeds, args.clients)
                    spark_s.append(seconds)
                else:
                    seconds, tally = by_processes(seeds, args.clients, jobs)
                    plain_s.append(seconds)
                tallies.append(tally)
            assert tallies[0].to_plain() == tallies[1].to_plain(), "both come to the same"
            violations += len(tallies[0].failures())
            named = f"{seeds.start}:{seeds.stop}"
            told = f"processes {plain_s[-1]:6.1f} s   Spark {spark_s[-1]:6.1f} s"
            print(f"seeds {named:<12} {told}   {spark_s[-1] / plain_s[-1]:.2f}", flush=True)
    slower = sum(spark_s) / sum(plain_s)
    rate = len(args.seeds) / sum(spark_s)
    minutes = MANY / rate / 60
    print(f"Spark takes {slower:.2f} times as long, {rate:.1f} seeds a second: {MANY:,} seeds in")
    print(f"{minutes:.1f} minutes; {violations} violations")
    result = {
        "seeds": len(args.seeds),
        "cores": jobs,
        "ready_s": round(ready_s, 2),
        "processes_s": [round(seconds, 2) for seconds in plain_s],
        "spark_s": [round(seconds, 2) for seconds in spark_s],
        "slower": round(slower, 3),
        "slower_max": SLOWER_MAX,
        "seeds_per_s": round(rate, 2),
        "minutes_for_10000": round(minutes, 1),
        "minutes_max": MINUTES_MAX,
        "violations": violations,
    }
    print(json.dumps(result))
    return 1 if slower > SLOWER_MAX or minutes > MINUTES_MAX or violations else 0


if __name__ == "__main__":
    sys.exit(main())
