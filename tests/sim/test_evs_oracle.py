"""The fast check against the definitions, word for word, on small random histories."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from evensong.sim.evs import Reading, Status, check
from evensong.sim.history import History, Life
from tests.sim.history_language import conf_id, history

NAMES = "pqr"
UNITS = ("m1", "m2", "m3", "m4", "m5")


@st.composite
def runs(draw: st.DrawFn) -> str:
    """One regular configuration of three and what follows it; sends and deliveries at random."""
    lines = []
    sender = {unit: draw(st.sampled_from(NAMES)) for unit in UNITS}
    agreed = draw(st.permutations(UNITS))
    for name in NAMES:
        if draw(st.booleans()):  # near a sound run: a common order with few things missing
            lost = draw(st.sets(st.sampled_from(UNITS), max_size=2))
            delivered = [unit for unit in agreed if unit not in lost]
        else:
            delivered = draw(st.lists(st.sampled_from(UNITS), max_size=6))
        steps = [f"del {unit}" for unit in delivered]
        split = draw(st.integers(0, len(steps)))
        members = {name} | draw(st.sets(st.sampled_from(NAMES)))
        steps.insert(split, f"conf T2{name}{{{','.join(sorted(members))}}}<R1")
        for unit in UNITS:
            if sender[unit] == name:
                safe = " safe" if draw(st.booleans()) else ""
                steps.insert(draw(st.integers(0, split)), f"send {unit}{safe}")
                split += 1
        end = draw(st.sampled_from(["quiesce", "fail", f"conf R2{name}{{{name}}}, quiesce"]))
        lines.append(f"{name}: conf R1{{p,q,r}}, {', '.join(steps)}, {end}")
    return "\n".join(lines)


def com(life: Life) -> list[str]:
    """Names of the units delivered in com(R1), each where it came first."""
    return list(dict.fromkeys(str(row.unit_id) for row in life.deliveries))


def causes(run: History) -> set[tuple[str, str]]:
    """All pairs send(m) -> send(m') of R1, by closing process order and send-before-deliver."""
    direct: dict[str, set[str]] = {}
    for life in run.lives.values():
        for number, send in enumerate(life.sends):
            before = direct.setdefault(str(send.unit_id), set())
            before.update(str(earlier.unit_id) for earlier in life.sends[:number])
            before.update(str(row.unit_id) for row in life.deliveries[: send.pos])
    pairs = set()
    for unit, before in direct.items():
        reached, todo = set(), list(before)
        while todo:
            earlier = todo.pop()
            if earlier not in reached:
                reached.add(earlier)
                todo.extend(direct[earlier])
        pairs |= {(earlier, unit) for earlier in reached if earlier != unit}
    return pairs


def breaks_causal_order(run: History) -> bool:
    for life in run.lives.values():
        order = com(life)
        for earlier, unit in causes(run):
            if unit in order and earlier not in order[: order.index(unit)]:
                return True
    return False


def leaves_holes(run: History) -> bool:
    sender = {str(s.unit_id): s.unit_id.sender for x in run.lives.values() for s in x.sends}
    for early in run.lives.values():
        for late in run.lives.values():
            for at, row in enumerate(late.deliveries):
                unit, members = str(row.unit_id), late.confs[row.conf_no].members
                order = com(early)
                if early is late or unit not in order:
                    continue
                if str(row.unit_id) in {str(d.unit_id) for d in late.deliveries[:at]}:
                    continue
                before = order[: order.index(unit)]
                if any(sender[m] in members and m not in com(late) for m in before):
                    return True
    return False


def has_cycle(run: History) -> bool:
    after: dict[str, set[str]] = {}
    for life in run.lives.values():
        for earlier, later in pairwise(com(life)):
            after.setdefault(earlier, set()).add(later)
    for unit in after:
        reached, todo = set(), list(after[unit])
        while todo:
            later = todo.pop()
            if later not in reached:
                reached.add(later)
                todo.extend(after.get(later, ()))
        if unit in reached:
            return True
    return False


def breaks_safety(run: History) -> bool:
    for life in run.lives.values():
        for row in life.deliveries:
            if row.service.name != "SAFE":
                continue
            for node in life.confs[row.conf_no].members:
                other = run.lives[node, 1]
                failed = other.ended == "fail"
                if str(row.unit_id) not in com(other) and not failed:
                    return True
    return False


def is_cyclic(run: History) -> bool:
    """Whether the event graph has a cycle: events are sends and deliveries, edges as in EVS1.1."""
    after: dict[str, set[str]] = {}
    for node, life in run.lives.items():
        events: list[str] = []
        for at in range(len(life.deliveries) + 1):
            events += [f"send {send.unit_id}" for send in life.sends if send.pos == at]
            events += [f"{node} {at} {row.unit_id}" for row in life.deliveries[at : at + 1]]
        for earlier, later in pairwise(events):
            after.setdefault(earlier, set()).add(later)
        for event in events:
            if not event.startswith("send"):
                after.setdefault(f"send {event.split()[-1]}", set()).add(event)
    for event in after:
        reached, todo = set(), list(after[event])
        while todo:
            later = todo.pop()
            if later not in reached:
                reached.add(later)
                todo.extend(after.get(later, ()))
        if event in reached:
            return True
    return False


@settings(max_examples=400, deadline=None)
@given(text=runs())
def test_the_check_agrees_with_the_definitions(text: str) -> None:
    run = history(text)
    failed = set(check(run).failed)
    assert ("EVS1.1" in failed) == is_cyclic(run)
    assert ("EVS5" in failed) == breaks_causal_order(run)
    assert ("EVS6.3" in failed) == leaves_holes(run)
    assert ("EVS7.1" in failed) == breaks_safety(run)
    assert ("TG" in failed) == has_cycle(run)


@settings(max_examples=50, deadline=None)
@given(text=runs())
def test_the_verdict_does_not_depend_on_the_order_of_lives(text: str) -> None:
    lines = text.splitlines()
    run = history(text)
    turned = History()
    for key in reversed(list(run.lives)):
        turned.lives[key] = run.lives[key]
    assert len(lines) == len(turned.lives)
    assert check(run) == check(turned)


def test_orders_that_agree_are_looked_at_once() -> None:
    run = history(
        """p: conf R1{p,q}, send m1, send m2, del m1, del m2, quiesce
           q: conf R1{p,q}, del m1, quiesce"""
    )
    reference = Reading(run).references[conf_id("R1")]
    assert (len(reference.followers), len(reference.others)) == (2, 0)
    assert check(run)["EVS5"].status is Status.PASS
