"""The sample of `make test`: small, stable, and together with the rest every parameter set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sampling import PARAMETER_SETS, mark_exhaustive


@pytest.fixture
def items(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """Items of a function by the ids of their parameter sets."""

    def make(ids: list[str], *markers: pytest.MarkDecorator) -> list[Any]:
        result = []
        for name in ids:
            item = pytest.Function.from_parent(request.node.parent, name=f"test_x[{name}]", callobj=lambda: None)
            for marker in markers:
                item.add_marker(marker)
            result.append(item)
        return result

    return make


def sample(items: list[Any]) -> set[str]:
    mark_exhaustive(items)
    return {item.name for item in items if not item.get_closest_marker("exhaustive")}


def test_sample_is_small_and_independent_of_order(items: Callable[..., list[Any]]) -> None:
    ids = [f"value-{number}" for number in range(100)]
    chosen = sample(items(ids))
    assert len(chosen) == PARAMETER_SETS
    assert sample(items(ids[::-1])) == chosen


def test_sample_of_a_part_holds_what_the_whole_chose(items: Callable[..., list[Any]]) -> None:
    ids = [f"value-{number}" for number in range(100)]
    chosen = sample(items(ids))
    assert chosen <= sample(items([name for name in ids if name != "value-7"])) | {"test_x[value-7]"}


def test_functions_with_few_parameter_sets_are_run_whole(items: Callable[..., list[Any]]) -> None:
    assert len(sample(items([f"value-{number}" for number in range(PARAMETER_SETS)]))) == PARAMETER_SETS


def test_sampled_gives_another_number(items: Callable[..., list[Any]]) -> None:
    assert len(sample(items([f"value-{number}" for number in range(100)], pytest.mark.sampled(3)))) == 3


def test_parameter_sets_beyond_the_rest_are_long(items: Callable[..., list[Any]]) -> None:
    every = items([f"value-{number}" for number in range(100)], pytest.mark.sampled(3, rest=4))
    assert len(sample(every)) == 3
    exhaustive = {item.name for item in every if item.get_closest_marker("exhaustive")}
    long = {item.name for item in every if item.get_closest_marker("long")}
    assert len(exhaustive) == 97 and long < exhaustive and len(exhaustive - long) == 4
    without_rest = items(["a", "b", "c", "d"], pytest.mark.sampled(1))
    mark_exhaustive(without_rest)
    assert not any(item.get_closest_marker("long") for item in without_rest)


def test_id_with_an_address_is_refused(items: Callable[..., list[Any]]) -> None:
    with pytest.raises(pytest.UsageError, match="differ in each process"):
        sample(items(["<object object at 0x7f0959f355d0>"]))
