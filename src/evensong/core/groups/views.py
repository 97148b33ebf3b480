"""Views: how a group is shown to its members, and by what it differs from what they saw before.

Pure functions of the directory and the configuration, so all daemons that have gone together make
the same view, whether they have members to show it to or not.
"""

from collections.abc import Container
from typing import final

from evensong.core.groups.directory import Group
from evensong.core.groups.events import Cause, MemberId, View, ViewId
from evensong.core.ids import ProcessorId, RingId


@final
class Change:
    """Why and where a group changes: what its views have in common."""

    __slots__ = (
        "cause",
        "component_of",
        "conf_id",
        "counter",
        "primary",
        "seq",
        "sub",
        "subject",
        "transitional",
    )

    def __init__(
        self,
        conf_id: RingId,
        cause: Cause,
        counter: int,
        *,
        primary: bool,
        transitional: bool,
        seq: int = 0,
        sub: int = 0,
        subject: MemberId | None = None,
        component_of: dict[ProcessorId, tuple[ProcessorId, ...]] | None = None,
    ) -> None:
        self.conf_id = conf_id
        self.cause = cause
        self.counter = counter
        self.primary = primary
        self.transitional = transitional
        self.seq = seq
        self.sub = sub
        self.subject = subject
        self.component_of = component_of  # None unless components have met


def make_view(name: str, group: Group, change: Change, together: Container[ProcessorId]) -> View:
    """Show a group as it is now, and remember that it was.

    `together` are the daemons that came with ours from the view before. Members of others were
    apart in between, even if they are in both views.
    """
    members = group.members()
    before = group.shown if change.transitional else group.regular
    there_before = frozenset(before)
    stayed = tuple([one for one in members if one in there_before and one.daemon in together])
    there_still = frozenset(stayed)
    view = View(
        name,
        ViewId(change.conf_id, change.seq, change.sub, change.counter),
        members,
        tuple([one for one in members if one not in there_still]),
        tuple([one for one in before if one not in there_still]),
        stayed,
        _components(members, change.component_of),
        change.cause,
        change.subject,
        primary=change.primary,
        transitional=change.transitional,
    )
    group.shown = members
    group.is_transitional = change.transitional
    if not change.transitional:
        group.regular = members
        group.primary = change.primary
    return view


def is_changed(group: Group, *, primary: bool) -> bool:
    """Whether a regular configuration must show the group again.

    Whoever was apart was shown as lost by a transitional view, be it back or not. Who is in a group
    may stay while the daemons around it become too few, or enough.
    """
    return group.is_transitional or group.members() != group.regular or group.primary != primary


def _components(
    members: tuple[MemberId, ...],
    component_of: dict[ProcessorId, tuple[ProcessorId, ...]] | None,
) -> tuple[tuple[MemberId, ...], ...]:
    if component_of is None:
        return (members,) if members else ()
    by_component: dict[tuple[ProcessorId, ...], list[MemberId]] = {}
    for member in members:
        by_component.setdefault(component_of[member.daemon], []).append(member)
    return tuple([tuple(part) for part in by_component.values()])


def has_majority(members: tuple[ProcessorId, ...], electorate: tuple[ProcessorId, ...]) -> bool:
    """Whether the daemons are more than half of the electorate; nobody is of an empty one."""
    present = [one for one in electorate if one in members]
    return 2 * len(present) > len(electorate)
