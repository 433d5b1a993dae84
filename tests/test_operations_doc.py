"""docs/operations.md: every fault has its row, and every test in a row exists."""

from __future__ import annotations

import functools
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent
FAULTS = [*range(1, 9), *range(10, 16), 19, 20, *range(26, 37)]
WEAK_POINTS = [*range(1, 6), *range(7, 10), 11, 13]
ROW = re.compile(r"\| (\d+) [^|]+\|[^|]+\|[^|]+\| (.+) \|")


@functools.cache
def known_tests() -> dict[str, pathlib.Path]:
    """Every test function of the suites, with its file."""
    tests: dict[str, pathlib.Path] = {}
    for path in HERE.rglob("test_*.py"):
        tests.update(dict.fromkeys(re.findall(r"^ *def (test_\w+)\(", path.read_text(), re.MULTILINE), path))
    return tests


def rows() -> dict[int, list[str]]:
    """The tests in the table of faults, by the fault's number."""
    text = (HERE.parent / "docs" / "operations.md").read_text().partition("\n## Faults\n")[2]
    return {int(row[1]): re.findall(r"`(test_\w+)`", row[2]) for row in map(ROW.fullmatch, text.splitlines()) if row}


def test_page_of_testing_has_the_numbers_of_faults_and_their_tests() -> None:
    text = (HERE.parent / "docs" / "development" / "testing.md").read_text()
    tests = {name for names in rows().values() for name in names}
    assert f"survives {len(rows())} kinds of faults" in text
    assert f"with {len(tests)} tests that inject them" in text


def test_every_fault_of_the_service_has_its_row() -> None:
    assert sorted(rows()) == FAULTS


@pytest.mark.parametrize("number", FAULTS)
def test_fault_rows_name_existing_tests_of_that_fault(number: int) -> None:
    there = known_tests()
    named = rows()[number]
    assert named
    assert [name for name in named if name not in there] == []
    of_it = [name for name in named if f"fault_{number:02d}" in name or f"fault_{number:02d}" in there[name].name]
    assert of_it, f"none of {named} is of fault {number}"


@pytest.mark.parametrize("number", WEAK_POINTS)
def test_weak_points_each_have_a_test_of_their_number(number: int) -> None:
    assert [name for name in known_tests() if name.startswith(f"test_weak_point_{number:02d}_")]
