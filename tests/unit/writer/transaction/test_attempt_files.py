"""Files of attempts at tasks: markers first, none after the instant has taken its files, superfluous ones removed."""

from __future__ import annotations

import pathlib

import pytest

from penstock.proto.errors import StorageError, WriteConflict
from penstock.table.files.markers import IoType, marker_folder
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.transaction.attempt_files import (
    AttemptFiles,
    open_for_attempts,
    remove_unreported_files,
)
from penstock.writer.transaction.heartbeat import start_heartbeat
from penstock.writer.transaction.markers import attempt_folder, markers_of
from penstock.writer.transaction.rollback_requests import requests_by_markers
from tests.unit.engine.write.killed_storage import as_other_process
from tests.unit.engine.write.recorded_storage import Lake

INSTANT = "20260101000000000"


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path / "t", (9, "merge_on_read", "bucket"), monkeypatch)


def name(attempt: int) -> str:
    return f"00000000-aaaa-4000-8000-000000000000-0_1-7-{attempt}_{INSTANT}.parquet"


def write_file(lake: Lake, attempt: int = 0, content: bytes = b"rows") -> str:
    with AttemptFiles(lake.storage, INSTANT).data_file("oslo", name(attempt), IoType.CREATE) as file:
        file.write(content)
        assert name(attempt) in {marker.file_name for marker in markers_of(lake.storage, INSTANT)}, (
            "the marker is first"
        )
    return f"oslo/{name(attempt)}"


def test_file_has_a_marker_and_a_partition(lake: Lake) -> None:
    with open_for_attempts(lake.storage, INSTANT):
        path = write_file(lake)
    assert (lake.path / path).read_bytes() == b"rows"
    assert (lake.path / "oslo/.hoodie_partition_metadata").exists()
    (request,) = requests_by_markers(lake.table(), lake.storage, INSTANT)
    assert request.file_names == (name(0),), "a rollback removes it"


def test_attempt_that_ends_after_the_job_writes_nothing(lake: Lake) -> None:
    """As a speculative attempt may, after the driver has completed the instant."""
    files = AttemptFiles(lake.storage, INSTANT)
    with open_for_attempts(lake.storage, INSTANT):
        late = files.data_file("oslo", name(1), IoType.CREATE)
        late.__enter__().write(b"rows")
        path = write_file(lake)
    with pytest.raises(WriteConflict, match=f"instant {INSTANT} has completed, or was rolled back: file oslo/"):
        late.__exit__(None, None, None)
    with pytest.raises(WriteConflict):
        write_file(lake, 2)
    assert [file.name for file in (lake.path / "oslo").glob("*.parquet")] == [path.removeprefix("oslo/")]


def test_error_of_the_rows_is_no_closed_instant(lake: Lake) -> None:
    with (
        open_for_attempts(lake.storage, INSTANT),
        pytest.raises(FileNotFoundError, match="a base file"),
        AttemptFiles(lake.storage, INSTANT).data_file("oslo", name(0), IoType.CREATE),
    ):
        raise FileNotFoundError("a base file")


def test_executor_without_the_table_says_so(tmp_path: pathlib.Path) -> None:
    elsewhere = AttemptFiles(LocalStorage(str(tmp_path)), INSTANT)
    with (
        pytest.raises(StorageError, match="a file system that all executors share"),
        elsewhere.data_file("oslo", name(0), IoType.CREATE),
    ):
        pass


def test_only_reported_files_stay(lake: Lake) -> None:
    with open_for_attempts(lake.storage, INSTANT):
        paths = [write_file(lake, attempt) for attempt in range(3)]
    assert remove_unreported_files(lake.storage, INSTANT, [(paths[1], 4)]) == 2
    assert [file.name for file in (lake.path / "oslo").glob("*.parquet")] == [name(1)]
    assert remove_unreported_files(lake.storage, INSTANT, [(paths[1], 4)]) == 0


@pytest.mark.parametrize(("size", "got"), [(4, "there is none"), (5, "it has 4")])
def test_reported_file_that_is_not_there_ends_the_write(lake: Lake, size: int, got: str) -> None:
    with open_for_attempts(lake.storage, INSTANT):
        path = write_file(lake)
    if size == 4:
        lake.storage.remove(path)
    with pytest.raises(StorageError, match=f"reported file oslo/.* of {size} bytes, and {got}: nothing was written"):
        remove_unreported_files(lake.storage, INSTANT, [(path, size)])


def test_attempt_whose_instant_another_writer_rolled_back_writes_nothing(lake: Lake) -> None:
    """The driver was killed, and the executor goes on."""
    lake.storage.make_folder(attempt_folder(INSTANT))
    late = AttemptFiles(lake.storage, INSTANT).data_file("oslo", name(0), IoType.CREATE)
    late.__enter__().write(b"rows")
    lake.storage.remove_folder(marker_folder(INSTANT))
    with pytest.raises(WriteConflict, match="or was rolled back"):
        late.__exit__(None, None, None)
    assert not list((lake.path / "oslo").glob("*.parquet"))


def test_folder_of_attempts_is_a_trace_that_the_next_writer_removes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not among the markers, where Hudi would pass over all of them."""
    assert not attempt_folder(INSTANT).startswith(marker_folder(INSTANT))
    with monkeypatch.context() as patch:
        as_other_process(patch)
        start_heartbeat(lake.storage, INSTANT)
    lake.storage.make_folder(attempt_folder(INSTANT))
    lake.storage.create(f"{attempt_folder(INSTANT)}/{name(0)}.12ab.tmp", b"half")
    lake.write([("a", 1, "oslo")])
    assert not (lake.path / attempt_folder(INSTANT)).exists()
