"""The commit cache is bounded and never serves another state of a file."""

from __future__ import annotations

from penstock.proto.model.positions import InstantTime
from penstock.table.timeline.commit_cache import CommitCache, FileIdentity
from penstock.table.timeline.commits import CommitMetadata


def _commit(time: str, groups: int = 0) -> CommitMetadata:
    return CommitMetadata(
        requested_time=InstantTime(time),
        operation="",
        compacted=False,
        schema_json="",
        extra={},
        stats=(),
        replaced=tuple(("p", str(index)) for index in range(groups)),
    )


def _identity(name: str, size: int = 1, modified: int = 1) -> FileIdentity:
    return FileIdentity(name, size, modified)


def test_identity_is_name_size_and_time() -> None:
    cache = CommitCache()
    cache.put(_identity("a"), _commit("1"))
    assert cache.get(_identity("a")) == _commit("1")
    assert cache.get(_identity("a", size=2)) is None and cache.get(_identity("a", modified=2)) is None


def test_least_recently_used_goes_first() -> None:
    cache = CommitCache(max_commits=2)
    for name in "ab":
        cache.put(_identity(name), _commit("1"))
    cache.get(_identity("a"))
    cache.put(_identity("c"), _commit("1"))
    assert [cache.get(_identity(name)) is not None for name in "abc"] == [True, False, True]


def test_bounded_by_stats_too() -> None:
    cache = CommitCache(max_commits=100, max_stats=10)
    cache.put(_identity("big"), _commit("1", 11))
    assert len(cache) == 0
    for name in "abc":
        cache.put(_identity(name), _commit("1", 4))
    assert len(cache) == 2 and cache.get(_identity("a")) is None
    cache.put(_identity("b"), _commit("1", 4))
    assert len(cache) == 2, "held twice is counted once"
