"""The table of states and events: the data, the code that records, and the document agree."""

import ast
import re
from pathlib import Path

from evensong.core.transis.states import State
from evensong.sim.transis.table import DOMAIN, EVENTS, STATES, UNREACHABLE

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| ([`/\w]+) × ([`, \w]+) \| (.+) \|$", re.MULTILINE)


def recorded_events() -> set[str]:
    found: set[str] = set()
    source = (ROOT / "src/evensong/core/transis/states.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.met.add":
            found |= {
                one.value
                for one in ast.walk(node.args[0])
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return found


def test_every_event_that_a_core_records_is_in_the_table() -> None:
    assert recorded_events() == set(EVENTS)
    assert set(STATES) == {state.value for state in State}


def test_what_cannot_happen_is_a_violation() -> None:
    assert DOMAIN.impossible(DOMAIN.reachable) == []
    (found,) = DOMAIN.impossible([("agree", "null_timeout"), ("stable", "nack")])
    assert found.text.startswith("agree/null_timeout happened, but entering AGREE")


def test_the_document_lists_the_unreachable_pairs() -> None:
    text = (ROOT / "docs/protocols/transis.md").read_text(encoding="utf-8")
    section = text.partition("## What cannot happen")[2].partition("\n## ")[0]
    told = {
        (state, event)
        for states, events, _ in ROW.findall(section)
        for state in re.findall(r"\w+", states)
        for event in re.findall(r"\w+", events)
    }
    assert told == UNREACHABLE.keys()
