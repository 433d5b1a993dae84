"""Maintenance of whole tables: which service runs when, what is told of the others, and what a failure stops."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock
from penstock.engine.table_services import maintain as maintain_module
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.maintain import MaintainResult, maintain
from penstock.proto.errors import ConfigurationError, StorageError, TableNotFound, UnsupportedFeature, WriteConflict
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.transaction.heartbeat import start_heartbeat
from tests.unit.engine.table_services import serviced_lake
from tests.unit.engine.table_services.lake import Lake
from tests.unit.engine.write import recorded_storage

VERSIONS = pytest.mark.parametrize("version", [9, 6])
SMALL = {"compact_after": 2, "commits": 2, "keep_min": 3, "keep_max": 4}


def services(result: MaintainResult) -> tuple[bool, bool, bool, bool]:
    """Whether each service was carried out."""
    done = (result.compactions, result.clusterings, result.clean, result.archive)
    assert {name for name, one in zip(("compact", "cluster", "clean", "archive"), done, strict=True) if not one} == set(
        result.reasons
    )
    return (done[0] is not None, done[1] is not None, done[2] is not None, done[3] is not None)


def set_property(lake: Lake, **values: object) -> None:
    path = lake.path / ".hoodie" / "hoodie.properties"
    lines = [f"{name.replace('_', '.')}={value}" for name, value in values.items()]
    path.write_text(path.read_text() + "\n".join(lines) + "\n")


def everything(path: pathlib.Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@VERSIONS
def test_each_service_runs_when_it_is_due(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version, "merge_on_read")
    done = []
    for _ in range(6):
        lake.write()
        done.append(services(maintain(str(lake.path), **SMALL)))
        lake.check_states(lake.instants[-1])
    assert [one[0] for one in done] == [False, True, False, True, False, True]  # each second delta commit
    assert [one[1] for one in done] == [False] * 6
    assert done[0] == (False,) * 4 and any(one[2] for one in done) and any(one[3] for one in done)
    assert len(lake.table.timeline().completed_writes) <= 4 + 1
    lake.check_states(lake.instants[-1])
    assert services(maintain(str(lake.path), **SMALL)) == (False,) * 4


@VERSIONS
def test_nothing_is_due_on_a_new_table_and_each_reason_is_told(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version, "merge_on_read")
    lake.write(4)
    before = everything(lake.path)
    result = maintain(str(lake.path))
    assert services(result) == (False,) * 4 and everything(lake.path) == before
    assert result.reasons == {
        "compact": "4 of 5 delta commits since the last compaction",
        "cluster": "cluster_after is not given",
        "clean": "no file that only older states need",
        "archive": "4 completed writes are on the timeline, and keep_max is 30",
    }
    lake.write()
    assert services(maintain(str(lake.path))) == (True, False, False, False)


def test_copy_on_write_table_is_cleaned_and_archived_by_default_as_by_hudi(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(31, cities=("oslo",))
    result = maintain(str(lake.path))
    assert services(result) == (False, False, True, True)
    assert result.reasons["compact"] == "the table is copy-on-write"
    assert result.clean is not None and result.clean.earliest_to_retain == lake.instants[-10]
    assert result.archive is not None and (len(result.archive.instants), result.archive.kept) == (11, 20)
    lake.check_states(lake.instants[-10])


@VERSIONS
def test_dry_run_changes_nothing_and_says_what_a_run_does(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version, "copy_on_write")
    lake.write(6)
    before = everything(lake.path)
    planned = maintain(str(lake.path), **SMALL, dry_run=True)
    assert everything(lake.path) == before and planned.dry_run
    done = maintain(str(lake.path), **SMALL)
    assert services(planned) == services(done) == (False, False, True, True)
    assert planned.clean is not None and done.clean is not None and planned.clean.files == done.clean.files != ()
    assert planned.archive == done.archive
    log = Lake(tmp_path, version, "merge_on_read", name="logs")
    log.write(2)
    before = everything(log.path)
    compactions = maintain(str(log.path), **SMALL, dry_run=True).compactions
    assert compactions is not None and [one.state for one in compactions] == ["due"]
    assert everything(log.path) == before


@VERSIONS
def test_pending_compaction_of_a_dead_process_is_carried_out_alone(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version, "merge_on_read")
    lake.write(2)
    (plan,) = compact(str(lake.path), schedule_only=True)
    lake.write()
    result = maintain(str(lake.path))
    assert result.compactions is not None
    assert [(one.instant, one.state) for one in result.compactions] == [(plan.instant, "completed")]
    assert "1 of 5" in maintain(str(lake.path)).reasons["compact"]
    lake.check_states(lake.instants[-1])


@pytest.mark.parametrize("kind", serviced_lake.SIMPLE[:2], ids=["mor", "cow"])
def test_table_is_clustered_after_so_many_writes_by_option(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: recorded_storage.Kind
) -> None:
    lake = serviced_lake.with_small_files(tmp_path / "t", kind, monkeypatch)
    rows = serviced_lake.rows_of(lake.path)
    assert maintain(str(lake.path), compact_after=99).reasons["cluster"] == "cluster_after is not given"
    options: dict[str, Any] = {"cluster_after": 5, "compact_after": 99, "sort_by": ["seq"]}
    assert maintain(str(lake.path), **options).reasons["cluster"] == "4 of 5 writes since the last clustering"
    result = maintain(str(lake.path), **{**options, "cluster_after": 4})
    assert result.clusterings is not None and len(result.clusterings) == 1 and result.clusterings[0].groups >= 6
    assert serviced_lake.rows_of(lake.path) == rows
    assert maintain(str(lake.path), **options).reasons["cluster"] == "0 of 5 writes since the last clustering"


def test_failed_service_does_not_stop_the_others_and_is_named(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path, 9, "merge_on_read")
    lake.write(6)
    (plan,) = compact(str(lake.path), schedule_only=True)
    inflight = lake.path / ".hoodie" / "timeline" / f"{plan.instant}.compaction.inflight"
    inflight.write_bytes(b"")
    start_heartbeat(LocalStorage(str(lake.path)), plan.instant)
    with pytest.raises(WriteConflict) as refused:
        maintain(str(lake.path), **SMALL)
    text = str(refused.value)
    assert f"maintenance of table {lake.path}: compact failed (WRITE_CONFLICT): " in text and plan.instant in text
    assert "Done: archive to" in text or "Done: clean" in text
    assert len(lake.table.timeline().completed_writes) < 6, "the archival ran"
    lake.check_states(lake.instants[-1])


def test_all_failures_are_told_and_the_first_is_raised(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    lake.write(6)

    def fails(*_: object, **__: object) -> None:
        error = StorageError("no space at 123")
        error.retry_ms = 77
        raise error

    def refuses(*_: object, **__: object) -> None:
        raise UnsupportedFeature("not of this table")

    monkeypatch.setattr(maintain_module, "clean_serviced", fails)
    monkeypatch.setattr(maintain_module, "archive_serviced", refuses)
    with pytest.raises(StorageError) as failed:
        maintain(str(lake.path), **SMALL)
    assert str(failed.value) == (
        f"maintenance of table {lake.path}: clean failed (STORAGE): no space at 123; archive failed "
        "(UNSUPPORTED_FEATURE): not of this table. "
        "Done: nothing"
    )
    assert failed.value.retry_ms == 77
    assert services(maintain(str(lake.path), **SMALL, skip=["clean", "archive"])) == (False,) * 4


def test_what_a_service_did_before_it_failed_is_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path, 9, "merge_on_read")
    lake.write(6)
    (plan,) = compact(str(lake.path), schedule_only=True)
    lake.write(6)

    def fails(*_: object, **__: object) -> None:
        raise StorageError("no space at 123")

    monkeypatch.setattr("penstock.engine.table_services.compaction._schedule", fails)
    with pytest.raises(StorageError) as failed:
        maintain(str(lake.path), skip=["clean", "archive"], compact_after=2)
    assert str(failed.value) == (
        f"maintenance of table {lake.path}: compact failed (STORAGE): no space at 123. "
        f"Done: compact {plan.instant} before it failed"
    )


def test_failure_of_a_dry_run_tells_what_would_be_done(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    lake.write(6)

    def fails(*_: object, **__: object) -> None:
        raise StorageError("no space at 123")

    monkeypatch.setattr(maintain_module, "archive_serviced", fails)
    with pytest.raises(StorageError, match=r"\. Would be done: clean$"):
        maintain(str(lake.path), **SMALL, dry_run=True)


def test_bug_is_no_failed_service(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    lake.write()
    monkeypatch.setattr(maintain_module, "clean_serviced", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) as bug:
        maintain(str(lake.path))
    assert bug.value.__notes__ == [f"maintenance of table {lake.path}: no service failed before. Done: nothing"]


def test_archival_of_a_table_with_a_metadata_table_waits_for_its_compaction(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path, metadata_table=True)
    lake.write(5)
    result = maintain(str(lake.path), **SMALL)
    assert result.reasons["archive"] == "5 completed writes are on the timeline, and all of them are needed"
    lake.write(8)
    result = maintain(str(lake.path), **SMALL)
    assert result.archive is not None and len(result.archive.instants) >= 5
    lake.check_states(lake.instants[-1])


def test_properties_of_the_table_are_the_policy_and_options_come_before_them(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path, 9, "merge_on_read")
    lake.write(3)
    set_property(lake, hoodie_compact_inline_max_delta_commits=3, hoodie_clean_commits_retained=1)
    assert services(maintain(str(lake.path), compact_after=4)) == (False, False, False, False)
    assert services(maintain(str(lake.path), commits=3)) == (True, False, False, False)
    lake.write(3)
    assert services(maintain(str(lake.path), commits=9)) == (True, False, False, False)
    assert services(maintain(str(lake.path))) == (False, False, True, False)


def test_options_of_an_archival_that_is_skipped_are_not_checked(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(5)
    set_property(lake, hoodie_keep_min_commits=2)
    with pytest.raises(ConfigurationError, match="an archival must keep more"):
        maintain(str(lake.path), commits=2)
    result = maintain(str(lake.path), commits=2, skip=["archive"])
    assert result.reasons["archive"] == "skipped" and result.clean is not None


def test_errors_before_the_first_service(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    before = everything(lake.path)
    for options in (
        {"compact_after": 0},
        {"cluster_after": -1},
        {"commits": 1, "hours": 1},
        {"keep_min": 5, "keep_max": 5},
        {"commits": 7, "keep_min": 7},
        {"skip": ["vacuum"]},
        {"timeline_timezone": "Mars/Olympus"},
    ):
        with pytest.raises(ConfigurationError):
            maintain(str(lake.path), **options)  # type: ignore[arg-type]
    with pytest.raises(TableNotFound):
        maintain(str(tmp_path / "none"))
    assert everything(lake.path) == before


@VERSIONS
def test_hours_of_a_clean_are_not_archived_and_their_states_stay(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(6)
    few = {"keep_min": 2, "keep_max": 3}
    result = maintain(str(lake.path), hours=1, **few)
    assert result.archive is None and "all of them are needed" in result.reasons["archive"]
    assert maintain(str(lake.path), hours=1, **few, dry_run=True).archive is None
    assert maintain(str(lake.path), commits=1, **few, dry_run=True).archive is not None
    assert penstock.archive(str(lake.path), **few).instants
    for cleaned in (maintain(str(lake.path), hours=1, **few).clean, penstock.clean(str(lake.path), hours=1)):
        assert cleaned is None or not cleaned.files
    lake.check_states(lake.instants[0])
    assert penstock.clean(str(lake.path), commits=1).files
