"""A random sample of the mutants of the core, the planner and the merge: tests detect almost all that change them.

`make mutants` runs it and writes a record; PENSTOCK_MUTANTS and PENSTOCK_SEED choose the sample.
"""

from __future__ import annotations

import os
import pathlib
import random
from collections import Counter
from collections.abc import Collection, Iterable

import pytest

from tests.long_record import add_to_record
from tests.mutation.judged import EQUIVALENT, Equivalent
from tests.mutation.package_copy import CAUGHT, PARTS, PackageCopy, Part, Survivor, survivor_of

MUTANTS = int(os.environ.get("PENSTOCK_MUTANTS", "150"))
SEED = int(os.environ.get("PENSTOCK_SEED", "23"))


def function_of(name: str) -> str:
    """A mutant's function, without the number."""
    return name.rpartition("__mutmut_")[0]


def not_judged(survivors: Iterable[Survivor], equivalent: Collection[Equivalent] = EQUIVALENT) -> list[Survivor]:
    """The survivors that are not judged to be the same program."""
    known = {(one.function, one.removed, one.added) for one in equivalent}
    return [one for one in survivors if (function_of(one.name), one.removed, one.added) not in known]


def share_caught(outcomes: dict[str, str], survivors: Collection[Survivor], missed: Collection[Survivor]) -> float:
    """The caught part of the mutants that are not judged to be the same program."""
    caught = sum(status in CAUGHT for status in outcomes.values())
    assert caught + len(survivors) == len(outcomes)
    return caught / (caught + len(missed))


@pytest.mark.long
@pytest.mark.timeout(12 * 3600)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.folder)
def test_tests_of_a_part_catch_its_mutants(part: Part, tmp_path: pathlib.Path) -> None:
    copy = PackageCopy(part, tmp_path)
    names = copy.mutants()
    sample = random.Random(SEED).sample(names, min(MUTANTS, len(names)))
    outcomes = copy.statuses(sample)
    survivors = [copy.survivor(name) for name, status in outcomes.items() if status not in CAUGHT]
    missed = not_judged(survivors)
    share = share_caught(outcomes, survivors, missed)
    lines = [
        f"mutants of {part.folder}: {len(sample)} of {len(names)}, seed {SEED}: {dict(Counter(outcomes.values()))}",
        f"{len(survivors) - len(missed)} survivors are the same program; of the others {share:.1%} are caught. Missed:",
        *map(str, missed),
    ]
    add_to_record("\n".join(lines))
    assert share >= part.least_caught, "\n".join(lines)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.folder)
def test_copy_has_all_that_the_tests_of_a_part_need(part: Part, tmp_path: pathlib.Path) -> None:
    assert PackageCopy(part, tmp_path).collected() > 50


@pytest.mark.exhaustive
def test_copy_without_a_module_of_its_tests_is_an_error(tmp_path: pathlib.Path) -> None:
    copy = PackageCopy(PARTS[-1], tmp_path)
    (tmp_path / "tests" / "histories" / "hook.py").unlink()
    with pytest.raises(AssertionError, match="histories"):
        copy.collected()


DIFF = """# penstock.enumerator.core.rounds.xǁRoundǁopen__mutmut_3: survived
--- src/penstock/enumerator/core/rounds.py
+++ src/penstock/enumerator/core/rounds.py
@@ -1,3 +1,3 @@
 def open(self) -> int:
-    return self.size - 1
+    return self.size + 1
"""
NAME = "penstock.enumerator.core.rounds.xǁRoundǁopen__mutmut_3"


def test_survivor_has_the_changed_lines() -> None:
    assert survivor_of(NAME, DIFF) == Survivor(NAME, "return self.size - 1", "return self.size + 1")
    with pytest.raises(AssertionError, match="no change"):
        survivor_of(NAME, "no such mutant")


def test_judgement_is_of_one_change_of_one_function() -> None:
    survivor = survivor_of(NAME, DIFF)
    judged = Equivalent(function_of(NAME), survivor.removed, survivor.added, "the size is not used")
    assert not_judged([survivor], [judged]) == []
    for other in (judged._replace(added="return self.size"), judged._replace(function="penstock.x")):
        assert not_judged([survivor], [other]) == [survivor]


def test_mutant_that_is_missed_lowers_the_share() -> None:
    survivor = survivor_of(NAME, DIFF)
    outcomes = {NAME: "survived", **{f"{NAME}{number}": "killed" for number in range(9)}}
    assert share_caught(outcomes, [survivor], []) == 1.0
    assert share_caught(outcomes, [survivor], [survivor]) == PARTS[0].least_caught
    with pytest.raises(AssertionError):
        share_caught(outcomes, [], [])
