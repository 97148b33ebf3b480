"""The directory: members in join order, restricted, merged, hashed."""

from evensong.core.groups.directory import Directory, Entry, GroupState
from evensong.core.groups.events import MemberId, OrderId
from evensong.core.ids import RingId

ANN = MemberId(1, 1, 1, "ann")
BOB = MemberId(2, 1, 1, "bob")
EVE = MemberId(3, 1, 1, "eve")


def place(seq: int, ring: int = 4) -> OrderId:
    return OrderId(RingId(ring, 1), seq, 0)


def filled() -> Directory:
    directory = Directory()
    directory.join("g", BOB, place(1))
    directory.join("g", ANN, place(2))
    directory.join("h", ANN, place(3))
    directory.join("g", EVE, place(4))
    return directory


def test_members_are_in_the_order_in_which_they_joined() -> None:
    assert filled().groups["g"].members() == (BOB, ANN, EVE)


def test_who_is_a_member_cannot_join() -> None:
    directory = filled()
    before = directory.digest()
    assert directory.join("g", ANN, place(9)) is None
    assert directory.digest() == before


def test_who_is_no_member_cannot_leave() -> None:
    directory = filled()
    assert directory.leave("h", BOB) is None
    assert directory.leave("i", BOB) is None


def test_a_group_without_members_is_forgotten() -> None:
    directory = filled()
    group = directory.leave("h", ANN)
    assert group is not None
    assert not group.entries
    assert list(directory.groups) == ["g"]
    assert directory.names_of(ANN) == ["g"]
    directory.leave("g", ANN)
    assert ANN not in directory.groups_of


def test_it_is_restricted_to_the_members_of_some_daemons() -> None:
    directory = filled()
    assert directory.restrict((2, 3)) == ["g", "h"]
    assert directory.groups["g"].members() == (BOB, EVE)
    assert list(directory.groups) == ["g"]
    assert sorted(directory.groups_of) == [BOB, EVE]
    assert directory.restrict((2, 3)) == []


def test_a_merge_is_the_union_in_the_order_of_joining() -> None:
    ours = Directory()
    ours.join("g", ANN, place(5))
    theirs = [
        GroupState("g", (Entry(place(1), BOB), Entry(place(9), EVE))),
        GroupState("i", (Entry(place(2), BOB),)),
    ]
    ours.merge(7, [*ours.states(), *theirs])
    assert ours.groups["g"].members() == (BOB, ANN, EVE)
    assert ours.names_of(BOB) == ["g", "i"]
    assert ours.counter == 7


def test_both_sides_of_a_merge_are_equal() -> None:
    left, right = Directory(), Directory()
    left.join("g", ANN, place(5))
    right.join("g", BOB, place(1))
    right.join("h", EVE, place(2))
    told = [left.states(), right.states()]
    left.merge(3, told[0] + told[1])
    right.merge(3, told[1] + told[0])
    assert left.digest() == right.digest()


def test_the_digest_tells_members_and_counters_apart() -> None:
    directory = filled()
    digests = {directory.digest()}
    directory.counter += 1
    digests.add(directory.digest())
    directory.leave("g", EVE)
    digests.add(directory.digest())
    directory.join("g", EVE, place(8))
    digests.add(directory.digest())
    assert len(digests) == 4
    assert all(0 <= digest < 2**64 for digest in digests)


def test_every_change_has_a_new_version() -> None:
    directory = filled()
    versions = [directory.version]
    directory.join("i", ANN, place(9))
    versions.append(directory.version)
    directory.leave("i", ANN)
    versions.append(directory.version)
    directory.restrict((1, 2))
    versions.append(directory.version)
    directory.merge(1, directory.states())
    versions.append(directory.version)
    assert sorted(set(versions)) == versions
