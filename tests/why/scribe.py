"""Flight recorders written by hand, for what the simulator does not do to anybody."""

import json
from pathlib import Path

TOKEN_LOSS_US = 300_000


class Scribe:
    """Writes what the recorder of one daemon would hold, on its own clock."""

    def __init__(
        self, node: int, *, host: str = "one host", at_us: int = 0, incarnation: int = 7
    ) -> None:
        self.node = node
        self.at_us = at_us
        self.entries: list[dict[str, object]] = []
        self.put(
            "start",
            incarnation=incarnation,
            boot="00",
            node=node,
            cluster="test",
            host=host,
            token_loss_us=TOKEN_LOSS_US,
        )
        self.installs(f"4.{node}", node, cause="start")

    def put(self, what: str, **figures: object) -> None:
        self.entries.append({"t_us": self.at_us, "what": what, **figures})

    def waits(self, us: int) -> None:
        self.at_us += us

    def installs(self, ring: str, *members: int, cause: str = "") -> None:
        text = " ".join(map(str, members))
        self.put("conf", conf=ring, transitional=False, members=text, cause=cause)

    def gathers(
        self,
        cause: str,
        about: int = 0,
        *,
        proposed: str = "1 2 3",
        failed: str = "",
        lag_us: int = 0,
        heard: str = "",
    ) -> None:
        self.put(
            "state",
            state="gather",
            ring="8.1",
            cause=cause,
            about=about,
            proposed=proposed,
            failed=failed,
        )
        self.put(
            "sight",
            lag_us=lag_us,
            token_ring="8.1",
            token_seq=10 + self.node,
            seq=5,
            token_us_ago=TOKEN_LOSS_US,
            heard=heard,
        )

    def forms(self, ring: str, *members: int) -> None:
        """Commit, recover and install, a millisecond each."""
        for state in ("commit", "recovery", "operational"):
            self.waits(1_000)
            self.put("state", state=state, ring=ring, cause="", about=0, proposed="", failed="")
        self.installs(ring, *members)

    def proposes(
        self, cause: str, about: int, *, proposed: str = "1 2 3", failed: str = "", heard: str = ""
    ) -> None:
        """Propose another view, or more than before."""
        self.put(
            "state",
            state="agree",
            ring="3.66",
            cause=cause,
            about=about,
            proposed=proposed,
            failed=failed,
        )
        self.put("sight", lag_us=0, token_ring="", token_seq=0, seq=0, token_us_ago=0, heard=heard)

    def agrees(self, view: str, *members: int) -> None:
        """Install a view a millisecond later."""
        self.waits(1_000)
        self.installs(view, *members)
        self.put(
            "state", state="stable", ring=view, cause="installed", about=0, proposed="", failed=""
        )

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries))
        return path


def ring_of_three() -> list[Scribe]:
    """Return the recorders of three daemons in ring 8.1 for ten seconds."""
    scribes = [Scribe(node) for node in (1, 2, 3)]
    for scribe in scribes:
        scribe.gathers("start")
        scribe.forms("8.1", 1, 2, 3)
        scribe.waits(10_000_000)
    return scribes


def view_of_three() -> list[Scribe]:
    """Return the recorders of three daemons of a domain in view 3.66 for ten seconds."""
    scribes = [Scribe(node) for node in (1, 2, 3)]
    for scribe in scribes:
        scribe.proposes("join", 2 if scribe.node == 1 else 1)
        scribe.agrees("3.66", 1, 2, 3)
        scribe.waits(10_000_000)
    return scribes
