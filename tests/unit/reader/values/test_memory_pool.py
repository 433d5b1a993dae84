"""Batches are allocated in the system's pool, and the default pool is restored whenever the caller runs."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pyarrow as pa
import pytest

from penstock.reader.values import memory_pool
from penstock.reader.values.memory_pool import with_system_pool

ROWS = list(range(1000))


@pytest.fixture(autouse=True)
def own_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[pa.MemoryPool]:
    """A default pool that differs from the system's, for any environment."""
    monkeypatch.setattr(memory_pool, "_POOL_IS_CONFIGURED", False)
    before, own = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(own)
    yield own
    pa.set_memory_pool(before)


def is_default(pool: pa.MemoryPool) -> bool:
    """Whether a new array is allocated in this pool."""
    before = pool.bytes_allocated()
    created = pa.array(ROWS)
    return bool(pool.bytes_allocated() > before and created)


def arrays(number: int) -> Generator[pa.Array, None, None]:
    for _ in range(number):
        yield pa.array(ROWS)


def test_batches_are_not_in_the_users_pool_and_allocations_between_are(own_pool: pa.MemoryPool) -> None:
    held = []
    for batch in with_system_pool(arrays(20)):
        assert own_pool.bytes_allocated() == 0
        assert is_default(own_pool)
        held.append(batch)
    assert [batch.to_pylist() for batch in held] == [ROWS] * 20
    assert is_default(own_pool)


def test_several_at_a_time_and_one_within_another(own_pool: pa.MemoryPool) -> None:
    inner = with_system_pool(arrays(3))

    def outer() -> Generator[pa.Array, None, None]:
        for one in inner:
            assert not is_default(own_pool)
            yield one

    assert len(list(zip(with_system_pool(outer()), with_system_pool(arrays(3)), strict=True))) == 3
    assert is_default(own_pool)


def test_failing_and_closing_leave_the_pool_as_it_was(own_pool: pa.MemoryPool) -> None:
    ended = []

    def failing() -> Generator[pa.Array, None, None]:
        try:
            yield pa.array(ROWS)
            raise ValueError("damaged")
        finally:
            ended.append(is_default(own_pool))

    with pytest.raises(ValueError, match="damaged"):
        list(with_system_pool(failing()))
    closed = with_system_pool(failing())
    next(closed)
    closed.close()
    assert ended == [False, False]
    assert is_default(own_pool)


def test_pool_that_the_environment_names_stays(own_pool: pa.MemoryPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_pool, "_POOL_IS_CONFIGURED", True)
    held = list(with_system_pool(arrays(1)))
    assert own_pool.bytes_allocated() >= held[0].nbytes
