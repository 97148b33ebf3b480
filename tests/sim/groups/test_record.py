"""A record that is wrong breaks a promise on record: bugs planted in it are found, one for each."""

import inspect
from types import ModuleType
from typing import NamedTuple

import pytest

from evensong.sim.evs.groups import GROUP_PROPERTIES, check_groups
from evensong.sim.groups import crowd, record
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_recorded
from evensong.trace import groups

SEED = 3  # it has large frames, and members that leave


class Bug(NamedTuple):
    """A piece of text in one of the two files that record, and what becomes of it."""

    promise: str
    module: ModuleType
    old: str
    new: str


BUGS = (
    Bug("G1", groups, "members_text(view.members)", "members_text(view.stayed)"),
    Bug(
        "G2",
        record,
        "        for session in event.sessions:",
        "        for session in event.sessions[:1]:",
    ),
    Bug("G3", record, 'self._life.note("left", now, aux=aux)', "pass"),
    Bug("G4", record, "            sub,\n", "            0,\n"),
    Bug("G5", record, "[:3], head.first_no),", "[:3], 10_000 - head.first_no),"),
    Bug("G6", groups, "zlib.crc32(piece, digest)\n        if", "zlib.crc32(piece)\n        if"),
    Bug("G7", record, "at = [self._told(session) for", "at = [0 for"),
    Bug("G8", record, "self._told(said.session),", "self._told(said.session) + 1,"),
)


def planted(module: ModuleType, old: str, new: str) -> ModuleType:
    """Return a copy of a module with other text in it."""
    source = inspect.getsource(module)
    assert source.count(old) == 1
    made = ModuleType(module.__name__)
    exec(compile(source.replace(old, new), str(module.__file__), "exec"), made.__dict__)
    return made


def with_bug(bug: Bug) -> ModuleType:
    if bug.module is record:
        return planted(record, bug.old, bug.new)
    wrong = planted(groups, bug.old, bug.new)
    recording = planted(record, '"""Writes', '"""Writes')
    recording.__dict__.update(groups=wrong, Sayings=wrong.Sayings)
    return recording


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.promise)
def test_a_bug_in_the_record_breaks_the_promise_that_it_touches(
    bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "Recorder", with_bug(bug).Recorder)
    outcome, history = run_recorded(draw(SEED))
    assert not outcome.violations  # clients were told what they should be
    assert bug.promise in check_groups(history).failed


def test_there_is_a_bug_for_each_promise() -> None:
    assert [bug.promise for bug in BUGS] == list(GROUP_PROPERTIES)
