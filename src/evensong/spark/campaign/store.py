"""The directory of a campaign: what it is, its runs part by part, traces, plans and tables.

    campaign.json            what the campaign is
    runs/seeds-A-B.parquet   one row a run; a part that is there is finished
    traces/run_id=SEED/…     traces of failing runs, and of those that were to be kept
    plans/plan-SEED-ID.json  failing runs, shrunk
    verdicts/                one row a run and property: in parts as runs, and those of the audit
    summary.json             what it all came to

Every file is there whole or not at all, and the runs of a part come after their verdicts and
traces: whatever kills a campaign, it goes on with the first part that is not there.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from evensong.errors import BadCampaign
from evensong.sim.campaign import Done
from evensong.sim.setup import Setup, setup_to_json
from evensong.spark.campaign import rows, verdicts
from evensong.spark.campaign.plan import Campaign
from evensong.spark.campaign.tasks import Ran
from evensong.spark.files import Folder

if TYPE_CHECKING:
    from evensong.spark.verdicts import Verdict

DESCRIPTION: Final = "campaign.json"
SUMMARY: Final = "summary.json"
RUNS: Final = "runs"
TRACES: Final = "traces"
VERDICTS: Final = "verdicts"
PART: Final = re.compile(r"seeds-(\d+)-(\d+)\.parquet")


class Store:
    """What a campaign has so far, and where more of it goes."""

    def __init__(self, folder: Folder, campaign: Campaign) -> None:
        self.folder: Final = folder
        self._campaign: Final = campaign

    def open(self) -> None:
        """Begin the directory, or make sure that it is this campaign's."""
        place = self.folder.place(DESCRIPTION)
        if self.folder.has(DESCRIPTION):
            written = self.folder.read(DESCRIPTION).decode(errors="replace")
            self._campaign.check_same(written, place)
        elif self.folder.names(""):
            raise BadCampaign(f"{self.folder.uri}: holds something else, and no campaign")
        else:
            self.folder.write(DESCRIPTION, self._campaign.to_json().encode())

    def finished(self) -> Iterator[tuple[range, list[Done]]]:
        """Return the parts that are there, with their runs."""
        for name in self.folder.names(RUNS):
            found = PART.fullmatch(name)
            if found:
                seeds = range(int(found[1]), int(found[2]))
                yield seeds, self._read_part(f"{RUNS}/{name}", seeds)

    def _read_part(self, name: str, seeds: range) -> list[Done]:
        place = self.folder.place(name)
        try:
            runs = rows.from_parquet(self.folder.read(name), self._campaign)
        except (pa.ArrowException, OSError, ValueError, TypeError, AssertionError) as error:
            raise BadCampaign(
                f"{place}: is damaged ({error}); without it, its seeds are done again"
            ) from error
        if [run.task.seed for run in runs] != list(seeds):
            raise BadCampaign(f"{place}: has other seeds than its name; without it, they are done")
        return runs

    def add(self, part: range, ran: Iterable[Ran], known: Iterable[Done]) -> None:
        """Keep a part that is finished, some of whose runs may be known from before."""
        runs = list(known)
        for done, trace in ran:
            if trace:
                self.folder.write_tree(f"{TRACES}/run_id={done.task.run_id()}", trace)
            runs.append(done)
        name = f"seeds-{part.start}-{part.stop}.parquet"
        judged = verdicts.of_simulator(runs, self._campaign)
        self.folder.write(f"{VERDICTS}/{name}", verdicts.to_parquet(judged))
        # Last of all: a part whose runs are there is finished.
        self.folder.write(f"{RUNS}/{name}", rows.to_parquet(runs, self._campaign))

    def add_audit(self, judged: "Iterable[Verdict]") -> None:
        """Keep what the audit said of the traces."""
        content = verdicts.to_parquet(verdicts.of_audit(judged))
        self.folder.write(f"{VERDICTS}/{verdicts.AUDIT}.parquet", content)

    def traced(self) -> list[str]:
        """Return the ids of the runs whose traces are there."""
        return [name.removeprefix("run_id=") for name in self.folder.names(TRACES)]

    def keep_plan(self, name: str, setup: Setup) -> str:
        """Write a shrunk run; return where it is."""
        self.folder.write(f"plans/{name}", setup_to_json(setup).encode())
        return self.folder.local(f"plans/{name}")

    def summary(self) -> dict[str, object] | None:
        """Return what the campaign came to, if that is written down."""
        if not self.folder.has(SUMMARY):
            return None
        try:
            found = json.loads(self.folder.read(SUMMARY))
        except ValueError:  # it is written anew at the end
            return None
        return found if isinstance(found, dict) else None

    def keep_summary(self, summary: dict[str, object]) -> None:
        """Write what the campaign came to."""
        self.folder.write(SUMMARY, (json.dumps(summary, indent=2) + "\n").encode())
