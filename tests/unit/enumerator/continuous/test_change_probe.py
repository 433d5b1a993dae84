"""The change probe: it reads file times only, reports "unchanged" only if certain, and an idle poll is cheap."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

import pytest

from penstock.enumerator.continuous.advance import advance, start_progress
from penstock.enumerator.continuous.change_probe import SETTLED_NS, ChangeProbe, TableFingerprint, is_unchanged
from penstock.enumerator.continuous.types import Following, NothingNew
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.filesystem import FileInfo, open_storage


class Counting:
    """A storage that counts its calls."""

    def __init__(self, path: pathlib.Path, *, with_times: bool = True) -> None:
        self.inner, self.calls, self.with_times = open_storage(str(path)), 0, with_times

    @property
    def base_path(self) -> str:
        return self.inner.base_path

    def list_dir(self, path: str) -> list[FileInfo]:
        self.calls += 1
        return self.inner.list_dir(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        self.calls += 1
        return self.inner.read_bytes(path, limit_bytes)

    def open_input(self, path: str) -> Any:
        self.calls += 1
        return self.inner.open_input(path)

    def file_info(self, path: str) -> FileInfo | None:
        self.calls += 1
        result = self.inner.file_info(path)
        if result is None or self.with_times:
            return result
        return FileInfo(name=result.name, path=path, size_bytes=result.size_bytes, is_dir=result.is_dir, modified_ns=0)


def table_of(storage: Counting) -> HudiTable:
    return HudiTable(storage, load_properties(storage))


def many_instants(folder: pathlib.Path, count: int) -> pathlib.Path:
    """A table of `count` small commits, without data files."""
    timeline = folder / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (folder / ".hoodie" / "hoodie.properties").write_text(
        "hoodie.table.name=many\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=9\n"
        "hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.table.recordkey.fields=id\n"
        "hoodie.table.timeline.timezone=UTC\n"
    )
    for number in range(count):
        instant = 20260101000000000 + number * 10
        (timeline / f"{instant}_{instant + 5}.commit").write_text(
            '{"partitionToWriteStats":{},"operationType":"UPSERT","extraMetadata":{}}'
        )
    return folder


def later(watch_ns: int) -> int:
    return time.time_ns() + watch_ns


def test_idle_poll_of_10k_instants_needs_at_most_three_file_operations_and_10_ms(tmp_path: pathlib.Path) -> None:
    storage = Counting(many_instants(tmp_path / "t", 10_000))
    table = table_of(storage)
    probe = ChangeProbe(table, clock_ns=lambda: later(10 * SETTLED_NS))
    before = probe.probe()
    progress = start_progress(table, None)
    following = Following(request=PlanRequest(table="t", query=Incremental()), progress=progress, limits=NO_LIMITS)
    assert advance(table, "t", following) == NothingNew()
    storage.calls = 0
    spent = []
    for _ in range(20):
        begin = time.perf_counter()
        assert is_unchanged(before, probe.probe())
        spent.append(time.perf_counter() - begin)
    assert storage.calls <= 3 * 20 and sorted(spent)[10] < 0.010
    storage.calls = 0
    assert advance(table, "t", following) == NothingNew()
    assert storage.calls <= 8, "a look that must list reads no commit again"


def test_new_commit_costs_one_more_file_read(tmp_path: pathlib.Path) -> None:
    storage = Counting(many_instants(tmp_path / "t", 50))
    table = table_of(storage)
    following = Following(
        request=PlanRequest(table="t", query=Incremental()), progress=start_progress(table, None), limits=NO_LIMITS
    )
    storage.calls = 0
    assert advance(table, "t", following) == NothingNew()
    idle = storage.calls
    name = "20270101000000000_20270101000000001.commit.requested"
    (tmp_path / "t" / ".hoodie" / "timeline" / name.replace("_20270101000000001", "")).write_text("")
    storage.calls = 0
    assert advance(table, "t", following) == NothingNew()
    assert storage.calls == idle


def test_listing_connects_a_probe_with_young_times_and_the_next_ones(tmp_path: pathlib.Path) -> None:
    table = open_table(str(many_instants(tmp_path / "t", 3)))
    timeline, properties = (table.storage.file_info(path) for path in (".hoodie/timeline", ".hoodie/hoodie.properties"))
    assert timeline is not None and properties is not None
    os.utime(tmp_path / "t" / ".hoodie" / "hoodie.properties", ns=(1, timeline.modified_ns - 2 * SETTLED_NS))
    young = ChangeProbe(table, clock_ns=lambda: timeline.modified_ns + 1)
    old = ChangeProbe(table, clock_ns=lambda: timeline.modified_ns + SETTLED_NS)
    before = young.probe_listing()
    assert not before.is_settled and before.properties_settled and is_unchanged(before, young.probe_listing())
    assert not is_unchanged(before, old.probe_listing()), "without a listing a change within one tick is not seen"
    connected = old.probe_listing(before)
    assert connected.is_settled and connected.listing and is_unchanged(before, connected)
    assert not old.probe_listing(connected).listing and is_unchanged(connected, old.probe_listing(connected))
    assert not is_unchanged(connected, young.probe_listing()), "the clock ran backwards"
    (tmp_path / "t" / ".hoodie" / "timeline" / "20270101000000000.commit.requested").touch()
    os.utime(tmp_path / "t" / ".hoodie" / "timeline", ns=(1, timeline.modified_ns))
    assert old.probe().timeline_ns == before.timeline_ns and not is_unchanged(before, old.probe_listing(before))


def test_listing_does_not_stand_for_young_properties(tmp_path: pathlib.Path) -> None:
    table = open_table(str(many_instants(tmp_path / "t", 3)))
    properties = table.storage.file_info(".hoodie/hoodie.properties")
    assert properties is not None
    os.utime(tmp_path / "t" / ".hoodie" / "timeline", ns=(1, properties.modified_ns - 2 * SETTLED_NS))
    before = ChangeProbe(table, clock_ns=lambda: properties.modified_ns + 1).probe_listing()
    after = ChangeProbe(table, clock_ns=lambda: properties.modified_ns + SETTLED_NS).probe_listing(before)
    assert not before.properties_settled and after.is_settled and not is_unchanged(before, after)


def test_fingerprint_changes_with_every_step_of_an_instant(tmp_path: pathlib.Path) -> None:
    folder = many_instants(tmp_path / "t", 3)
    probe = ChangeProbe(open_table(str(folder)), clock_ns=lambda: later(10 * SETTLED_NS))
    before = probe.probe()
    assert is_unchanged(before, probe.probe())
    time_ns = (folder / ".hoodie" / "timeline").stat().st_mtime_ns
    (folder / ".hoodie" / "timeline" / "20270101000000000.commit.requested").write_text("")
    assert (folder / ".hoodie" / "timeline").stat().st_mtime_ns >= time_ns
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "x=1\n")
    assert not is_unchanged(before, probe.probe())


@pytest.mark.parametrize("age_ns", [0, SETTLED_NS - 1, -(10**12)])
def test_fingerprint_of_a_recent_or_future_time_is_never_unchanged(tmp_path: pathlib.Path, age_ns: int) -> None:
    table = open_table(str(many_instants(tmp_path / "t", 2)))
    newest = max(
        (pathlib.Path(table.base_path) / ".hoodie" / name).stat().st_mtime_ns
        for name in ("timeline", "hoodie.properties")
    )
    probe = ChangeProbe(table, clock_ns=lambda: newest + age_ns)
    before = probe.probe()
    assert not before.is_settled and not is_unchanged(before, probe.probe())
    settled = ChangeProbe(table, clock_ns=lambda: newest + SETTLED_NS).probe()
    assert settled.is_settled and is_unchanged(settled, settled)


def test_fingerprint_without_file_times_is_never_unchanged(tmp_path: pathlib.Path) -> None:
    table = table_of(Counting(many_instants(tmp_path / "t", 2), with_times=False))
    probe = ChangeProbe(table, clock_ns=lambda: later(10 * SETTLED_NS))
    fingerprint = probe.probe()
    assert not is_unchanged(fingerprint, probe.probe())
    assert not is_unchanged(None, fingerprint)


def test_fingerprint_changes_with_an_upgrade(tmp_path: pathlib.Path) -> None:
    table = open_table(str(many_instants(tmp_path / "t", 2)))
    probe = ChangeProbe(table, clock_ns=lambda: later(10 * SETTLED_NS))
    before = probe.probe()
    assert isinstance(before, TableFingerprint) and before.timeline_folder == ".hoodie/timeline"
    (tmp_path / "t" / ".hoodie" / "other").mkdir()
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("timeline.path=timeline", "timeline.path=other"))
    probe = ChangeProbe(table.refreshed(), clock_ns=lambda: later(10 * SETTLED_NS))
    assert not is_unchanged(before, probe.probe())
