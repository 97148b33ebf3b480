"""The catalogue is sound: every mutant still applies, and every killer is there."""

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import EQUIVALENT, MUTANTS, PITFALLS
from tests.mutants.mutant import Mutant, Seeds
from tests.mutants.planted_in_groups import GROUP_MUTANTS
from tests.mutants.planted_in_transis import SPECIFIED, TRANSIS_MUTANTS

ROOT = Path(__file__).resolve().parents[2]
PLANTED_IN = ("evensong/core/", "evensong/client/", "evensong/daemon/")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_in_one_place_and_is_python(mutant: Mutant) -> None:
    path = ROOT / "src" / mutant.path
    assert mutant.path.startswith(PLANTED_IN)
    source = path.read_text(encoding="utf-8")
    planted = mutant.plant(source)
    assert planted != source
    ast.parse(planted)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_killer_is_there(mutant: Mutant) -> None:
    killer = mutant.killer
    if mutant.also is not None:
        assert mutant.also.first < mutant.also.last <= mutant.also.first + 10
    if isinstance(killer, Seeds):
        assert killer.first < killer.last <= killer.first + 200
        return
    path, _, name = killer.partition("::")
    defined = {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert not name or name.partition("[")[0] in defined


def test_names_are_different_and_there_are_enough() -> None:
    names = [one.name for one in (*MUTANTS, *EQUIVALENT)]
    assert len(set(names)) == len(names)
    assert len(MUTANTS) >= 30


def test_runs_with_clients_catch_many_of_the_group_mutants() -> None:
    caught = [one for one in GROUP_MUTANTS if one.also is not None and one.also.clients]
    assert len(caught) >= 10


def test_every_pitfall_of_the_specification_has_its_mutant_or_its_reason() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert sorted(PITFALLS) == list(range(1, 26))
    for mutants_or_reason in PITFALLS.values():
        if isinstance(mutants_or_reason, tuple):
            assert set(mutants_or_reason) <= names
        else:
            assert mutants_or_reason.endswith(".")


def test_every_mutant_that_the_specification_of_transis_lists_is_planted() -> None:
    names = {mutant.name for mutant in TRANSIS_MUTANTS}
    assert sorted(SPECIFIED) == list(range(1, 25))
    assert {name for planted in SPECIFIED.values() for name in planted} <= names
