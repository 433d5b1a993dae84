"""What a worker process keeps: bounded, last used first."""

from __future__ import annotations

import pytest

from penstock.engine.spark.task.worker_cache import LastUsed


def test_worker_cache_creates_once_and_is_bounded() -> None:
    made: list[str] = []

    def make(key: str) -> int:
        made.append(key)
        return len(made)

    kept: LastUsed[str, int] = LastUsed(2)
    assert [kept.get(key, lambda key=key: make(key)) for key in "abacb"] == [1, 2, 1, 3, 4]  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]


def test_worker_cache_does_not_store_failures() -> None:
    kept: LastUsed[str, int] = LastUsed(2)

    def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):
        kept.get("a", fail)
    assert kept.get("a", lambda: 7) == 7
