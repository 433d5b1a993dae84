"""The writes of instants into log files, and missing log files that `onCorrupt=skip` tolerates."""

from __future__ import annotations

import itertools
import logging
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from penstock.enumerator.planning.file_inventory import log_contents
from penstock.enumerator.planning.plan import plan_request
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, Snapshot
from penstock.proto.model.splits import FileRef, LogWrite, Plan
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import DataFile
from penstock.table.hudi_table import open_table
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import parse_instant_file


class Golden(Protocol):
    def copy(self, name: str, target: pathlib.Path) -> pathlib.Path: ...
    def table(self, name: str) -> pathlib.Path: ...


def log(name: str) -> DataFile:
    parsed = parse_file_name(name)
    assert isinstance(parsed, LogName)
    return DataFile(partition="p", ref=FileRef(f"p/{name}", 9), name=parsed, listed=True)


def stat(name: str, writes: int, deletes: int) -> WriteStat:
    return WriteStat(
        partition="p", file_id="fg", path=f"p/{name}", num_writes=writes, num_deletes=deletes, num_inserts=0,
        num_update_writes=0, file_size_bytes=1, base_file="", log_files=("unrelated",), prev_commit="",
    )  # fmt: skip


def facts(layout: int, commits: dict[str, Sequence[WriteStat]]) -> TimelineFacts:
    names = [f"{time}_{int(time) + 1}.deltacommit" if layout == 2 else f"{time}.deltacommit" for time in commits]
    metadata = {
        InstantTime(time): CommitMetadata(
            requested_time=InstantTime(time), operation="UPSERT", compacted=False, schema_json="", extra={},
            stats=tuple(stats), replaced=(),
        )
        for time, stats in commits.items()
    }  # fmt: skip
    instants = [item for name in names if (item := parse_instant_file(name, layout)) is not None]
    assert len(instants) == len(commits)
    return TimelineFacts(
        table="t", timeline=build_timeline(layout, instants), commits=metadata, pending_clusterings=frozenset(),
        complete_from="",
    )  # fmt: skip


def writes(known: TimelineFacts, name: str) -> tuple[LogWrite, ...] | None:
    return log_contents(known, [log(name)]).ref(log(name)).writes


def test_log_of_layout_1_has_the_writes_of_many_instants() -> None:
    one, other = ".fg_20.log.1_0-1-1", ".fg_20.log.2_0-1-1"
    known = facts(
        1, {"20": [], "30": [stat(one, 3, 0), stat(one, 2, 1)], "40": [stat(other, 1, 0)], "50": [stat(one, 0, 4)]}
    )
    assert writes(known, one) == (LogWrite(InstantTime("30"), 5, 1), LogWrite(InstantTime("50"), 0, 4))
    assert writes(known, other) == (LogWrite(InstantTime("40"), 1, 0),)
    assert writes(known, ".fg_20.log.3_0-1-1") == ()


def test_writes_are_unknown_if_archived_instants_may_have_written() -> None:
    older = ".fg_10.log.1_0-1-1"
    assert writes(facts(1, {"20": [stat(older, 3, 0)]}), older) is None
    assert writes(facts(2, {"20": []}), older) is None
    own = ".fg_20.log.1_0-1-1"
    assert writes(facts(2, {"20": [stat(own, 3, 1)]}), own) == (LogWrite(InstantTime("20"), 3, 1),)


def test_negative_counts_make_the_writes_unknown() -> None:
    own = ".fg_20.log.1_0-1-1"
    assert writes(facts(2, {"20": [stat(own, -1, 0)]}), own) is None


def test_reference_differs_only_by_its_writes() -> None:
    own = ".fg_20.log.1_0-1-1"
    known = facts(2, {"20": [stat(own, 3, 1)]})
    assert replace(log_contents(known, [log(own)]).ref(log(own)), writes=None) == log(own).ref


def plan(folder: pathlib.Path, query: Query, *, skip: bool) -> Plan:
    return plan_request(open_table(str(folder)), "t", PlanRequest(table="t", query=query, skip_corrupt=skip))


def data_files(folder: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    return sorted(file for file in folder.rglob(pattern) if ".hoodie" not in file.parts and file.suffix != ".crc")


@pytest.mark.parametrize("case", ["A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150"])
class TestMissingFilesWithSkip:
    def test_missing_log_is_left_out_and_logged_with_skip(
        self, golden: Golden, tmp_path: pathlib.Path, case: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = golden.copy(case, tmp_path)
        whole = plan(folder, Snapshot(), skip=True)
        lost = data_files(folder, ".*.log.*")[0]
        lost.unlink()
        with pytest.raises(CorruptFile, match="is missing"):
            plan(folder, Snapshot(), skip=False)
        assert not caplog.records
        left = plan(folder, Snapshot(), skip=True)
        assert left.scan.skip_corrupt
        before = {log.path for split in whole.splits for log in split.logs}
        assert before - {log.path for split in left.splits for log in split.logs} == {
            lost.relative_to(folder).as_posix()
        }
        (warning,) = caplog.records
        assert warning.levelno == logging.WARNING
        assert warning.getMessage().startswith("log file gone table=t file=")
        assert lost.name in warning.getMessage()
        changed = {split.split_id for split in whole.splits} ^ {split.split_id for split in left.splits}
        assert len(changed) == 2, "only the slice that lost a file is another one"

    def test_missing_base_file_is_always_an_error(self, golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
        folder = golden.copy(case, tmp_path)
        for file in data_files(folder, "*.parquet"):
            file.unlink()
        with pytest.raises(CorruptFile, match=r"parquet .*is missing"):
            plan(folder, Snapshot(), skip=True)

    def test_skip_changes_no_split_of_a_whole_table(self, golden: Golden, case: str) -> None:
        strict, lenient = (plan(golden.table(case), Snapshot(), skip=skip) for skip in (False, True))
        assert strict.splits == lenient.splits
        assert replace(strict.scan, skip_corrupt=True) == lenient.scan


def test_cleaned_log_is_expired_also_with_skip(golden: Golden) -> None:
    """Files of a range that a clean removed are not damaged."""
    folder = golden.table("B_v9_timeline_mor")
    table = open_table(str(folder))
    keys = sorted(table.timeline().order_key(item) for item in table.timeline().completed_writes)
    expired = {False: 0, True: 0}
    for skip in expired:
        for before, key in itertools.pairwise(keys):
            query = Incremental(Position(InstantTime(before)), Position(InstantTime(key)))
            try:
                plan(folder, query, skip=skip)
            except PositionExpired:
                expired[skip] += 1
    assert expired[False] == expired[True] > 0
