"""Each test runs in exactly one part of `make test` and `make test-rest`."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest
from _pytest.mark.expression import Expression

from tools.run_suites import SELECTIONS, WITH_JVM, WITHOUT_JVM

MARKERS = ("spark", "interop", "kafka", "packaging", "ray")


def parts_of(markers: Collection[str], suites: tuple[str, ...]) -> list[str]:
    """The suites whose selection includes a test with these markers."""
    return [text for text in suites if Expression.compile(text).evaluate(lambda name: name in markers)]


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    "markers",
    [names for count in range(len(MARKERS) + 1) for names in itertools.combinations(MARKERS, count)],
    ids=lambda names: "-".join(names) or "none",
)
def test_suites_together_include_each_test_once(markers: tuple[str, ...], selection: str) -> None:
    assert len(parts_of(markers, (WITHOUT_JVM, *WITH_JVM[selection]))) == 1
    assert len(parts_of(markers, tuple(SELECTIONS.values()))) == 1


def test_check_reports_a_test_in_two_suites_or_none() -> None:
    assert parts_of({"spark", "interop"}, ("spark", "interop")) == ["spark", "interop"]
    assert parts_of({"packaging"}, ("spark", "interop")) == []
