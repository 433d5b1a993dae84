"""The cache of footer values: computed once, bounded by weight, safe for threads."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.planning.event_time.file_bounds import FooterCache


def test_value_is_computed_once() -> None:
    cache, computed = FooterCache(), []

    def make() -> str:
        computed.append(1)
        return "x"

    assert [cache.get_or_compute("key", make, len) for _ in range(3)] == ["x"] * 3
    assert len(computed) == 1
    assert cache.get("other") is None


def test_least_recently_used_value_is_evicted_first() -> None:
    cache = FooterCache(max_cells=6)
    cache.put("a", "a", 1)
    cache.put("b", "b", 1)
    cache.get("a")
    cache.put("c", "c", 2)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("a", None, "c")
    cache.put("huge", "huge", 100)
    assert len(cache) == 0, "what weighs more than all may is not kept"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=50))
def test_weight_never_exceeds_the_maximum(puts: list[tuple[int, int]]) -> None:
    cache, weights = FooterCache(max_cells=12), {}
    for key, cells in puts:
        cache.put(key, key, cells)
        weights[key] = cells + 1
        held = sum(weight for other, weight in weights.items() if cache.get(other) is not None)
        assert held <= 12
        assert cells + 1 > 12 or cache.get(key) == key


def test_threads_share_the_cache() -> None:
    cache = FooterCache(max_cells=50)

    def use() -> None:
        for number in range(2000):
            assert (
                cache.get_or_compute(number % 90, lambda number=number: number % 90 + 1, lambda _: 0) == number % 90 + 1
            )

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < len(cache) <= 50
