"""The cache of a worker process: bounded, evicts the least recently used entry."""

from __future__ import annotations

import pytest

from penstock.engine.spark.task.worker_cache import LastUsed


def test_worker_cache_creates_once_and_is_bounded() -> None:
    created: list[str] = []

    def make(key: str) -> int:
        created.append(key)
        return len(created)

    cache: LastUsed[str, int] = LastUsed(2)
    assert [cache.get(key, lambda key=key: make(key)) for key in "abacb"] == [1, 2, 1, 3, 4]  # type: ignore[misc]
    assert created == ["a", "b", "c", "b"]


def test_worker_cache_does_not_store_failures() -> None:
    cache: LastUsed[str, int] = LastUsed(2)

    def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):
        cache.get("a", fail)
    assert cache.get("a", lambda: 7) == 7
