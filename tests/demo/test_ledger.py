"""The demonstration's ledger: sides that were apart end equal, whatever each has entered."""

from random import Random

from evensong.demo.ledger import Entry, Ledger, decode_entry


def ledger_of(*ids: int) -> Ledger:
    ledger = Ledger()
    for number in ids:
        ledger.apply(f"1.1.1.{number}", Entry("altus", "tenor", number))
    return ledger


def test_an_entry_is_read_back_as_written() -> None:
    entry = Entry("cantus", "bassus", 7)
    assert decode_entry(entry.encode()) == entry


def test_equal_entries_are_an_equal_ledger_in_whatever_order_they_came() -> None:
    numbers = [*range(1, 20)]
    ledger = ledger_of(*numbers)
    Random(1).shuffle(numbers)
    assert ledger_of(*numbers).digest() == ledger.digest()
    assert ledger_of(*numbers[1:]).digest() != ledger.digest()


def test_money_only_moves() -> None:
    assert ledger_of(1, 2, 3).balances() == {"altus": -6, "tenor": 6}


def test_a_joiner_gets_the_state_and_nothing_of_its_own_is_left() -> None:
    joiner = ledger_of(9)
    joiner.restore(ledger_of(1, 2).snapshot())
    assert joiner.digest() == ledger_of(1, 2).digest()
    assert joiner.restored == 1


def test_a_merge_has_the_entries_of_all_sides_once() -> None:
    sides = [ledger_of(1, 2, 3), ledger_of(1, 2, 7)]
    snapshots = [side.snapshot() for side in sides]
    for side in sides:
        side.merge(snapshots)
    assert sides[0].digest() == sides[1].digest() == ledger_of(1, 2, 3, 7).digest()
