"""The watcher of timeline folders: what it reports, its bounds, and a real folder."""

from __future__ import annotations

import errno
import pathlib
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.enumerator.catalog_events import TimelinesWatched
from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.tables.inotify import CREATED, FOLDER_GONE, MOVED_IN, OVERFLOW, WRITTEN, FolderEvent, Inotify
from penstock.enumerator.tables.inotify import open_inotify as open_real
from penstock.enumerator.tables.table_watch import GAP_MS, CallLooks, TableWatch
from penstock.enumerator.tables.timeline_watcher import IDLE_MS, TimelineWatcher

TIMELINE = ".hoodie/timeline"
COMPLETED = "001_002.deltacommit"


@dataclass
class Source:
    """A source of events whose watches get the numbers 1, 2, …"""

    numbers: dict[str, int] = field(default_factory=dict)
    fails: int = 0
    calls: int = 0
    removed: list[int] = field(default_factory=list)

    def add(self, folder: str, /) -> int:
        self.calls += 1
        if self.fails:
            raise OSError(self.fails, "no watch")
        return self.numbers.setdefault(folder, len(self.numbers) + 1)

    def remove(self, watch: int, /) -> None:
        self.removed.append(watch)

    def read(self) -> list[FolderEvent]:
        return []

    def close(self) -> None:
        self.calls = -1


def watcher(source: Source | None, most: int = 10, **more: Any) -> tuple[TimelineWatcher, list[str]]:
    changed: list[str] = []
    return TimelineWatcher(lambda: source, changed.append, most, **more), changed


@pytest.mark.parametrize(
    ("name", "mask", "reported"),
    [
        (COMPLETED, MOVED_IN, True),
        ("001.commit", WRITTEN, True),
        (COMPLETED, CREATED, False),
        ("001.deltacommit.requested", WRITTEN, False),
        ("001.deltacommit.inflight", MOVED_IN, False),
        ("001_002.deltacommit.tmp", MOVED_IN, False),
        (".001_002.deltacommit.crc", WRITTEN, False),
        ("hoodie.properties", WRITTEN, False),
    ],
)
def test_only_a_completed_instant_is_reported(name: str, mask: int, reported: bool) -> None:
    watched, changed = watcher(Source())
    watched.follow("/t", TIMELINE)
    changed.clear()
    watched.handle([FolderEvent(1, mask, name)] * 3)
    assert changed == ["/t"] * reported


def test_new_and_recreated_folders_are_reported_once_and_known_ones_not() -> None:
    source = Source()
    watched, changed = watcher(source)
    watched.follow("/t", TIMELINE)
    watched.follow("/t", TIMELINE)
    assert changed == ["/t"]
    watched.handle([FolderEvent(1, FOLDER_GONE & 0x400, "")])
    source.numbers = {"other": 1}
    watched.follow("/t", TIMELINE)
    watched.handle([FolderEvent(1, MOVED_IN, COMPLETED)])
    assert changed == ["/t"] * 3
    watched.handle([FolderEvent(2, MOVED_IN, COMPLETED)])
    assert changed == ["/t"] * 4


def test_overflow_reports_every_watched_table() -> None:
    watched, changed = watcher(Source())
    for path in ("/a", "/b"):
        watched.follow(path, TIMELINE)
    changed.clear()
    watched.handle([FolderEvent(-1, OVERFLOW, "")])
    assert changed == ["/a", "/b"]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.message.partition(" watched=")[0].partition(":")[0] for record in caplog.records]
    caplog.clear()
    return texts


def test_refused_watches_are_counted_and_logged_when_they_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    counts: list[TimelinesWatched] = []
    source = Source()
    watched, changed = watcher(source, measured=counts.append)
    watched.follow("/a", TIMELINE)
    assert logged(caplog) == []
    source.fails = errno.ENOSPC
    for path in ("/b", "/c", "/b", "/c"):
        watched.follow(path, TIMELINE)
    assert logged(caplog) == ["timelines are not watched"]
    assert (changed, counts[-1]) == (["/a"], TimelinesWatched(1, 2))
    source.fails = 0
    watched.follow("/b", TIMELINE)
    assert logged(caplog) == []
    watched.forget("/c")
    assert logged(caplog) == ["all timelines are watched again"]
    watched.handle([FolderEvent(1, MOVED_IN, COMPLETED)] * 2)
    assert counts[-3:] == [TimelinesWatched(2, 1), TimelinesWatched(2, 0), TimelinesWatched(2, 0, changes=1)]


@pytest.mark.parametrize("reason", ["no instance", "no inotify", "lost"])
def test_source_that_cannot_be_opened_or_fails_leaves_the_interval(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    fails, read = threading.Event(), threading.Event()

    class Failing(Source):
        def read(self) -> list[FolderEvent]:
            assert fails.wait(30)
            raise OSError(errno.EIO, "read failed")

    def open_events() -> Source | None:
        if reason == "no instance":
            raise OSError(errno.EMFILE, "too many instances")
        return Failing() if reason == "lost" else None

    counts: list[TimelinesWatched] = []

    def measured(event: TimelinesWatched) -> None:
        counts.append(event)
        if event.refused:
            read.set()

    watched = TimelineWatcher(open_events, lambda path: None, measured=measured)
    watched.follow("/a", TIMELINE)
    fails.set()
    assert read.wait(30)
    watched.follow("/b", TIMELINE)
    assert counts[-1] == TimelinesWatched(0, 2)
    assert logged(caplog) == ["timelines are not watched"]


def test_removed_table_and_closed_watcher_have_no_watch() -> None:
    source = Source()
    watched, changed = watcher(source)
    for path in ("/a", "/b"):
        watched.follow(path, TIMELINE)
    changed.clear()
    watched.forget("/a")
    watched.forget("/unknown")
    watched.handle([FolderEvent(1, MOVED_IN, COMPLETED), FolderEvent(2, MOVED_IN, COMPLETED)])
    assert (source.removed, changed) == ([1], ["/b"])
    watched.close()
    watched.follow("/c", TIMELINE)
    assert (source.calls, changed) == (-1, ["/b"])


def test_two_paths_of_one_folder_share_a_watch_until_both_are_removed() -> None:
    source = Source()
    watched, changed = watcher(source)
    for path in ("/a", "file:///a"):
        watched.follow(path, TIMELINE)
    changed.clear()
    watched.handle([FolderEvent(1, MOVED_IN, COMPLETED)])
    assert changed == ["/a", "file:///a"]
    watched.forget("/a")
    assert source.removed == []
    watched.forget("file:///a")
    assert source.removed == [1]


def test_full_watcher_replaces_only_a_table_that_nobody_looks_at() -> None:
    source, now = Source(), [0]
    watched, changed = watcher(source, 2, clock_ms=lambda: now[0])
    for path in ("/a", "/b", "/c"):
        watched.follow(path, TIMELINE)
    assert changed == ["/a", "/b"]
    now[0] += IDLE_MS
    watched.follow("/a", TIMELINE)
    watched.follow("/c", TIMELINE)
    assert (changed, source.removed) == (["/a", "/b", "/c"], [2])
    watched.follow("/b", TIMELINE)
    assert changed == ["/a", "/b", "/c"], "both are looked at"


def test_object_stores_and_systems_without_inotify_are_not_watched() -> None:
    source = Source()
    watcher(source)[0].follow("s3://bucket/t", TIMELINE)
    without, changed = watcher(None)
    without.follow("/t", TIMELINE)
    assert (source.calls, changed) == (0, [])


def test_each_look_tries_again_to_open_an_instance() -> None:
    answers: list[Source | OSError] = [OSError(errno.EMFILE, "too many"), Source()]

    def opened() -> Source:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    measured: list[TimelinesWatched] = []
    watched = TimelineWatcher(opened, lambda path: None, measured=measured.append)
    watched.follow("/t", TIMELINE)
    watched.follow("/t", TIMELINE)
    assert measured == [TimelinesWatched(0, 1), TimelinesWatched(1, 0)]
    assert not answers


def test_reports_within_a_gap_are_one_look_and_wake_the_call_that_waits() -> None:
    now, looks = [1_000], [0]

    def probe(path: str) -> TableFingerprint:
        looks[0] += 1
        return TableFingerprint(looks[0], 1, 1, TIMELINE, is_settled=True)

    watch = TableWatch(probe, lambda: now[0])
    assert watch.changed("/t") is None, "it was never looked at"
    watch.look("/t", 5_000)
    now[0] += 10
    assert [watch.changed("/t") for _ in range(9)] == [1_000 + GAP_MS] * 9
    assert watch.look("/t", 5_000).number == 1
    now[0] = 1_000 + GAP_MS
    assert [watch.look("/t", 5_000).number for _ in range(3)] == [2, 2, 2]
    woken: list[bool] = []

    def wait(seconds: float, news: threading.Event) -> bool:
        before = news.is_set()
        watch.changed("/t")
        woken.append(news.is_set() and not before)
        return True

    CallLooks(watch, "/t", 1_000, wait).later(is_urgent=False)
    assert (woken, looks[0]) == ([True], 3)


def test_real_folder_reports_a_rename_a_write_and_a_link(tmp_path: pathlib.Path) -> None:
    timeline = tmp_path / TIMELINE
    timeline.mkdir(parents=True)
    news, others = threading.Semaphore(0), set(threading.enumerate())  # other tests may have servers that still run
    watched = TimelineWatcher(open_real, lambda path: news.release())
    watched.follow(str(tmp_path), TIMELINE)
    if sys.platform != "linux":
        assert not news.acquire(blocking=False)
        return
    assert news.acquire(timeout=30), "a new watch is reported"
    aside = tmp_path / "aside"
    aside.write_text("{}")
    (timeline / "001_002.commit").hardlink_to(aside)
    assert news.acquire(timeout=30)
    (tmp_path / "other").write_text("{}")
    (tmp_path / "other").rename(timeline / "003_004.commit")
    assert news.acquire(timeout=30)
    (timeline / "005_006.commit").write_text("{}")
    assert news.acquire(timeout=30)
    watched.close()
    threads = [each for each in set(threading.enumerate()) - others if each.name == "penstock-watch"]
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def open_instances() -> set[str]:
    """The file descriptors of inotify instances. Servers of other tests may close theirs at any time."""
    descriptors = set()
    for file in pathlib.Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(file.readlink()) == "anon_inode:inotify":
                descriptors.add(file.name)
    return descriptors


def test_an_instance_ends_without_a_free_watch(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        return
    before = open_instances()
    source = Inotify()
    source.add(str(tmp_path))
    reader = threading.Thread(target=source.read, daemon=True)
    reader.start()

    def refused(folder: str) -> int:
        raise OSError(errno.ENOSPC, "no watch")

    monkeypatch.setattr(source, "add", refused)
    source.close()
    reader.join(30)
    assert not reader.is_alive()
    assert open_instances() <= before


def test_an_instance_whose_thread_failed_is_closed(tmp_path: pathlib.Path) -> None:
    if sys.platform != "linux":
        return
    before, others = open_instances(), set(threading.enumerate())  # other tests may have servers that still run
    (tmp_path / TIMELINE).mkdir(parents=True)

    def changed(path: str) -> None:
        if threading.current_thread().name == "penstock-watch":
            raise ValueError("a defect")

    watched = TimelineWatcher(open_real, changed)
    watched.follow(str(tmp_path), TIMELINE)
    (thread,) = (each for each in set(threading.enumerate()) - others if each.name == "penstock-watch")
    assert open_instances() - before
    (tmp_path / TIMELINE / "001_002.commit").write_text("{}")
    thread.join(30)
    assert not thread.is_alive()
    assert open_instances() <= before
    watched.close()
