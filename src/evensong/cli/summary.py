"""What a demonstration on real daemons came to, for people and as JSON."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from evensong.cli.paper import Paper
from evensong.cli.trace import plain_verdict
from evensong.core.ids import ProcessorId
from evensong.core.totem.parameters import PROFILES
from evensong.core.transis.parameters import PROFILES as LANSIS_PROFILES
from evensong.demo.findings import Findings, ViewChange
from evensong.demo.play import PROFILE, Act, named
from evensong.sim.evs import Status, Verdict
from evensong.trace.story import text_drawing

if TYPE_CHECKING:
    from evensong.demo.reported import Reported

MS: Final = 1_000
INDENT: Final = " " * 3
UNASKED: Final = "nothing was done to them; a busy machine can look like a dead one"
CAUSES: Final = {
    "start": "it had just started and looked for others",
    "token loss": f"no token came for {PROFILES[PROFILE].token_loss // MS} ms",
    "join": "somebody proposed another membership",
    "foreign regular": "it heard a message of a ring that it is not in",
    "foreign beacon": "it heard the beacon of a ring that it is not in",
    "leave": "somebody said farewell",
    "consensus timeout": "somebody had stopped answering",
    "fail to receive": "somebody heard the token and no messages",
    "silent": f"somebody was not heard for {LANSIS_PROFILES[PROFILE].patience() // MS} ms",
    "foreign message": "it heard somebody of another view",
    "a member heard foreign messages": "somebody with it heard somebody of another view",
    "join message": "somebody proposed another membership",
    "is in another view": "somebody had gone on to another view",
    "accused me": "somebody had given it up",
    "restarted": "somebody had started anew",
    "left": "somebody said farewell",
    "stuck": "somebody acknowledged nothing any more",
}

PROMISES: Final = {  # what a newcomer can rely on, and the properties that say it exactly
    "all deliver in one order, without holes": (
        "EVS1.1",
        "EVS5",
        "EVS6.1",
        "EVS6.2",
        "EVS6.3",
        "TG",
        "FIFO",
        "LC1",
        "LA1",
    ),
    "what is delivered was sent, once and unaltered": ("EVS1.2", "EVS1.3", "EVS1.4", "TR2"),
    "who sends delivers it too, unless it crashes": ("EVS3", "TR3", "LV-1", "LB1"),
    "a safe message reaches every member, unless it crashes": ("EVS7.1", "EVS7.2", "TF3", "LS1"),
    "who stays together delivers the same between two changes": ("EVS4", "LV1", "LV2"),
    "changes of membership are the same for all, and at one place among the messages": (
        "EVS2.1",
        "EVS2.2",
        "EVS2.3",
        "TM1",
        "TM2",
        "TM4",
        "LV-2",
        "LV-3",
        "LM1",
        "LM2",
        "LM3",
    ),
    "there is one token in a ring": ("TF1", "TF2"),
    "no more is under way than flow control allows": ("LW1",),
}


# JSON


def plain(
    findings: Findings, kept: Path | None, reported: "Reported | None" = None
) -> dict[str, object]:
    """Return the findings as values that JSON can carry."""
    record, verdicts, last = findings.record, findings.judgement.verdicts, findings.last_ring
    return {
        "kept": findings.is_kept(),
        "trouble": record.trouble,
        "nodes": list(record.nodes),
        "profile": PROFILE,
        "messages": findings.messages,
        "safe_messages": findings.safe_messages,
        "deliveries": findings.deliveries,
        "seconds": round(findings.seconds, 3),
        "messages_per_second": round(findings.rate()),
        "latency_ms": {
            service: {"samples": one.samples, "p50": one.p50_us / MS, "p99": one.p99_us / MS}
            for service, one in findings.latency.items()
        },
        "changes": [_plain_change(one) for one in findings.changes],
        "last_ring": None
        if last is None
        else {
            "ring": str(last.ring_id),
            "members": list(record.nodes),
            "messages": last.messages,
            "equal_orders": last.is_equal,
        },
        "complete": findings.judgement.is_complete,
        "violations": sum(one.n_violations for one in verdicts.by_property.values()),
        "unknown": verdicts.n_unknown,
        "properties": {name: plain_verdict(one) for name, one in verdicts.by_property.items()},
        "directory": None if kept is None else str(kept),
        "audit": None if reported is None else reported.verdict,
        "report": None if reported is None else str(reported.page),
    }


def _plain_change(one: ViewChange) -> dict[str, object]:
    change = one.change
    return {
        "act": None if one.act is None else one.act.name,
        "cause": change.cause,
        "noticed_by": change.noticed_by,
        "detect_ms": None if one.detect_us is None else one.detect_us / MS,
        "recover_ms": one.recover_us / MS,
        "ring": str(change.conf.conf_id),
        "members": list(change.conf.members),
        "left": list(one.left),
        "joined": list(one.joined),
    }


# For people


def summarize(
    findings: Findings, paper: Paper, kept: Path | None, reported: "Reported | None" = None
) -> None:
    """Tell what it came to."""
    _Summary(findings, paper).tell(kept, reported)


@final
class _Summary:
    def __init__(self, findings: Findings, paper: Paper) -> None:
        self._findings: Final = findings
        self._paper: Final = paper

    def tell(self, kept: Path | None, reported: "Reported | None") -> None:
        self._drawing()
        self._messages()
        self._changes()
        self._promises()
        self._ledgers()
        if reported is not None:
            self._audit(reported)
        self._paper.write()
        self._verdict(is_audit_kept=reported is None or reported.is_kept())
        if kept is not None:
            self._paper.write(f"{INDENT}kept: {kept}; look: evensong trace inspect {kept}")

    def _say(self, text: str, style: str = "") -> None:
        self._paper.write(INDENT + text, style)

    def _drawing(self) -> None:
        self._paper.heading("Who was with whom: a line a daemon, a letter a ring")
        for line in text_drawing(self._findings.judgement.history, 88, "n").splitlines():
            self._say(line)

    def _messages(self) -> None:
        found = self._findings
        self._paper.heading("Messages")
        self._say(
            f"{found.messages:,} packets were ordered, {found.rate():,.0f} a second over "
            f"{found.seconds:.1f} s, pauses included; {found.safe_messages:,} of them safe"
        )
        self._say(f"{found.deliveries:,} deliveries, at {len(found.record.nodes)} daemons")
        self._say("from submit to delivery at the sender's own daemon, before anything broke:")
        for service, one in found.latency.items():
            half, most = one.p50_us / MS, one.p99_us / MS
            self._say(f"   {service:<6}  half within {half:.1f} ms, 99 % within {most:.1f} ms")

    def _changes(self) -> None:
        self._paper.heading("Changes of membership, and what they took")
        for act, ones in groupby(self._findings.changes, key=_act):
            self._say(act.text if act is not None else UNASKED, "bold")
            self._rings(list(ones))

    def _rings(self, ones: list[ViewChange]) -> None:
        for one in ones:
            change = one.change
            cause = CAUSES.get(change.cause, change.cause)
            after = "" if one.detect_us is None else f"after {_ms(one.detect_us)} "
            self._say(f"   noticed    {after}by n{change.noticed_by}: {cause}")
            ring, members = change.conf.conf_id, named(change.conf.members)
            self._say(
                f"   recovered  {_ms(one.recover_us)} later: ring {ring} of {members}"
                + _came_and_went(one.left, one.joined)
            )

    def _promises(self) -> None:
        found = self._findings
        verdicts = found.judgement.verdicts
        by_name = verdicts.by_property
        self._paper.heading("Promises, held against the traces of all daemons")
        for name, verdict in by_name.items():
            if verdict.status is Status.FAIL:
                self._say(f"BROKEN   {name}: {verdict.n_violations} times", "bold red")
                for sample in verdict.samples:
                    self._say(f"         {sample.text}", "red")
        for promise, names in PROMISES.items():
            verdicts_on = [by_name[name] for name in names if name in by_name]
            if verdicts_on:  # else it is of another engine
                self._promise(promise, verdicts_on)
        if verdicts.n_unknown:
            self._say("what is unknown is not passed: a killed daemon takes along what it did last")
        last = found.last_ring
        if last is None:
            self._say("they did not end in one ring", "bold red")
        else:
            order = "the same order" if last.is_equal else "NOT the same order"
            self._say(
                f"the last ring, {last.ring_id}, has all {len(found.record.nodes)} daemons; "
                f"{last.messages:,} messages in it, {order} at each",
                "" if last.is_equal else "bold red",
            )

    def _ledgers(self) -> None:
        books = self._findings.record.books
        self._paper.heading("The ledger, as each daemon's clerk has it")
        for book in books:
            told = f"n{book.node}  {book.entries:,} entries, content {book.digest}"
            told += f"; audited {book.audited:,}" if book.audited else ""
            told += "; came with state transfer" if book.restored else ""
            told += f"; merged {book.merged} x" if book.merged else ""
            self._say(told)
        if self._findings.are_ledgers_equal():
            self._say("all ledgers are equal")
        else:
            self._say("the ledgers are NOT equal", "bold red")

    def _promise(self, promise: str, verdicts: Sequence[Verdict]) -> None:
        checked = sum(one.n_checked for one in verdicts)
        unknown = sum(one.n_unknown for one in verdicts)
        if any(one.status is Status.FAIL for one in verdicts):
            word, style = "BROKEN", "bold red"
        else:
            word, style = ("holds", "") if checked else ("no case", "")
        but = f", {unknown:,} unknown" if unknown else ""
        self._say(f"{word:<8} {promise} ({checked:,} checks{but})", style)

    def _audit(self, reported: "Reported") -> None:
        self._paper.heading("The audit, by Spark")
        if reported.is_kept():
            self._say(
                f"{reported.n_properties} properties on {reported.n_rows:,} rows: none broken"
            )
        else:
            self._say(f"BROKEN: {reported.n_violations:,} times", "bold red")
        self._say(f"the report: {reported.page}", "bold")

    def _verdict(self, *, is_audit_kept: bool) -> None:
        if self._findings.is_kept() and is_audit_kept:
            self._say("every promise was kept", "bold green")
        else:
            trouble = self._findings.record.trouble
            self._say(f"NOT every promise was kept{f': {trouble}' if trouble else ''}", "bold red")


def _ms(t_us: int) -> str:
    return f"{t_us / MS:.0f} ms"


def _came_and_went(left: Sequence[ProcessorId], joined: Sequence[ProcessorId]) -> str:
    parts = [f"{named(who)} {what}" for who, what in ((left, "left"), (joined, "joined")) if who]
    return "; " + ", ".join(parts) if parts else ""


def _act(one: ViewChange) -> Act | None:
    return one.act
