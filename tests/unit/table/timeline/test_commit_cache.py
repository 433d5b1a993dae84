"""The commit cache is bounded and never serves another state of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.proto.model.positions import InstantTime
from penstock.table.storage.local_listing import FileVersion
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commit_cache import CommitCache, FileIdentity
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Instant, parse_instant_file


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


def test_a_commit_that_two_threads_parse_is_one_object() -> None:
    cache, first, second = CommitCache(), _commit("1"), _commit("1")
    assert cache.put(_identity("a"), first) is cache.put(_identity("a"), second) is first


class _Table:
    """A table that reads its commits by the cache."""

    def __init__(self, cache: CommitCache) -> None:
        self.cache, self.reads = cache, list[str]()

    def commits_of(self, timeline: Timeline, *changed: str) -> Mapping[str, CommitMetadata]:
        """`changed` are the requested times of the instants whose files have another size than before."""
        versions = {
            item.file_name: (2 if item.requested_time in changed else 1, 1) for item in timeline.completed_writes
        }
        return self.cache.of_timeline(self, timeline, versions, self._read)

    def _read(self, instant: Instant, version: FileVersion | None) -> CommitMetadata:
        self.reads.append(instant.requested_time)
        return self.cache.put(_identity(instant.file_name), _commit(instant.requested_time))


def _timeline(*times: str) -> Timeline:
    instants = (parse_instant_file(f"{time}_{time}.commit", 2) for time in times)
    return Timeline(2, tuple(item for item in instants if item is not None))


def test_commits_of_a_timeline_are_read_once() -> None:
    table, timeline = _Table(CommitCache()), _timeline("1")
    assert table.commits_of(timeline) is table.commits_of(timeline)
    assert table.reads == ["1"]


def test_a_later_timeline_reads_new_and_changed_commits_only() -> None:
    table = _Table(CommitCache())
    table.commits_of(_timeline("1", "2", "3"))
    commits = table.commits_of(_timeline("1", "3", "4"), "3")
    assert table.reads == ["1", "2", "3", "3", "4"]
    assert list(commits.items()) == [(time, _commit(time)) for time in ("1", "3", "4")]


def test_a_commit_whose_version_is_not_known_is_read() -> None:
    table, timeline = _Table(CommitCache()), _timeline("1")
    table.commits_of(timeline)
    table.cache.of_timeline(table, _timeline("1"), {}, table._read)
    assert table.reads == ["1", "1"]


def test_commits_evicted_while_a_timeline_is_looked_up_are_not_kept() -> None:
    cache, timeline = CommitCache(max_commits=1), _timeline("1")
    table = _Table(cache)
    table.commits_of(timeline)

    class EvictsFirst(dict[object, Any]):
        """Another thread evicts a commit between two steps."""

        def get(self, key: object, default: Any = None) -> Any:
            known = super().get(key, default)
            if not len(reads):
                reads.append("evicted")
                cache.put(_identity("b"), _commit("1"))
            return known

    reads: list[str] = []
    cache._of_timelines = EvictsFirst(cache._of_timelines)  # type: ignore[assignment]
    table.commits_of(_timeline("1"))
    assert reads == ["evicted"] and not cache._of_timelines


def test_commits_of_a_timeline_are_dropped_when_the_cache_evicts_one() -> None:
    cache, timeline = CommitCache(max_commits=1), _timeline("1")
    table = _Table(cache)
    table.commits_of(timeline)
    cache.put(_identity("b"), _commit("1"))
    table.commits_of(timeline)  # evicts while it reads: it must not be kept
    table.commits_of(timeline)
    assert len(table.reads) == 3
    table.commits_of(timeline)
    table.commits_of(_timeline("1"))
    assert len(table.reads) == 3


def test_commits_that_do_not_fit_the_cache_are_not_kept() -> None:
    cache, timeline = CommitCache(max_stats=10), _timeline("1", "2")
    table, reads = _Table(cache), list[str]()

    def read(instant: Instant, version: FileVersion | None) -> CommitMetadata:
        reads.append(instant.requested_time)
        return cache.put(_identity(instant.file_name), _commit("1", 11 if instant.requested_time == "2" else 0))

    for _ in range(2):
        cache.of_timeline(table, timeline, {}, read)
    assert reads == ["1", "2", "1", "2"]
