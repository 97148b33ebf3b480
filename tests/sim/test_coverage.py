"""The table of states and events: the data, the code that records, and the document agree."""

import ast
import re
from pathlib import Path

from evensong.core.totem.states import State
from evensong.sim import coverage
from evensong.sim.coverage import EVENTS, PAIRS, REACHABLE, STATES, UNREACHABLE

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\w+) \| ([\w ]+) \| (.+) \|$", re.MULTILINE)


def recorded_events() -> set[str]:
    """What `met.add(...)` records in states.py; `what + " of a past ring"` stands for two."""
    found: set[str] = set()
    source = (ROOT / "src/evensong/core/totem/states.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.met.add":
            written = ast.unparse(node.args[0])
            names = {
                ast.literal_eval(written.replace("what", repr(what)).replace("' + '", ""))
                for what in ("regular", "beacon")
            }
            found |= names
    return found


def test_every_event_that_a_core_records_is_in_the_table() -> None:
    assert recorded_events() == set(EVENTS)
    assert set(STATES) == {state.value for state in State}
    assert len(PAIRS) == len(EVENTS) * len(STATES)


def test_unreachable_pairs_are_pairs_of_the_table() -> None:
    assert UNREACHABLE.keys() <= PAIRS
    assert REACHABLE | UNREACHABLE.keys() == PAIRS
    assert not REACHABLE & UNREACHABLE.keys()


def test_the_document_lists_the_unreachable_pairs_with_their_reasons() -> None:
    text = (ROOT / "docs/protocols/totem.md").read_text(encoding="utf-8")
    section = text.partition("## What cannot happen")[2].partition("\n## ")[0]
    told = {(state, event): why for state, event, why in ROW.findall(section)}
    assert told.pop(("State", "Event")) == "Why not"
    assert told == UNREACHABLE


def test_what_cannot_happen_is_a_violation_and_so_is_what_nobody_knows() -> None:
    assert coverage.impossible(REACHABLE) == []
    pairs = [("gather", "token"), ("gather", "hold_timeout"), ("commit", "sneeze")]
    unknown, hold = coverage.impossible(pairs)
    assert hold.property_id == unknown.property_id == coverage.TABLE
    assert hold.text.startswith("gather/hold_timeout happened, but")
    assert "not in the table" in unknown.text


def test_what_was_not_reached_is_told_without_what_cannot_be() -> None:
    assert coverage.unreached(REACHABLE) == []
    assert coverage.unreached(REACHABLE - {("commit", "join")}) == [("commit", "join")]
    assert len(coverage.unreached([])) == len(REACHABLE)
