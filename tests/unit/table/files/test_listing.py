"""The listing of partitions, and of the data files in one."""

from __future__ import annotations

import pathlib
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from penstock.proto.errors import CorruptFile, TableError
from penstock.table.files import listing
from penstock.table.files.listing import (
    creating_instants,
    list_data_files,
    list_files,
    list_partition_files,
    list_partitions,
)
from penstock.table.files.slices import DataFile
from penstock.table.storage.filesystem import FileInfo, Storage, open_storage

Touch = Callable[..., None]


@pytest.fixture
def touch(tmp_path: pathlib.Path) -> Touch:
    def make(*paths: str) -> None:
        for path in paths:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(b"x")

    return make


def _listed(base: pathlib.Path) -> tuple[str, ...]:
    return list_partitions(open_storage(str(base)))


def test_marked_folders_at_any_depth(tmp_path: pathlib.Path, touch: Touch) -> None:
    touch(
        "b/.hoodie_partition_metadata",
        "a/x=1/y=ü/.hoodie_partition_metadata.parquet",
        "a/x=2/y/.hoodie_partition_metadata.orc",
        "unmarked/f-0_0-1-2_001.parquet",
        ".hidden/.hoodie_partition_metadata",
        "a/..b/.hoodie_x/.hoodie_partition_metadata",
        "a/.hoodie/c/.hoodie_partition_metadata",
        ".hoodie/metadata/files/.hoodie_partition_metadata",
        "c/..hoodie_partition_metadata.crc",
        "__HIVE_DEFAULT_PARTITION__/.hoodie_partition_metadata",
        "b/nested/.hoodie_partition_metadata",
    )
    assert _listed(tmp_path) == (
        ".hidden", "__HIVE_DEFAULT_PARTITION__", "a/..b/.hoodie_x", "a/x=1/y=ü", "a/x=2/y", "b",
    )  # fmt: skip


def test_base_folder_is_the_partition(tmp_path: pathlib.Path, touch: Touch) -> None:
    touch(".hoodie_partition_metadata", "sub/.hoodie_partition_metadata")
    assert _listed(tmp_path) == ("",)


def test_nothing_marked(tmp_path: pathlib.Path) -> None:
    assert _listed(tmp_path) == () == _listed(tmp_path / "none")


def test_depth_and_count_are_bounded(tmp_path: pathlib.Path, touch: Touch, monkeypatch: pytest.MonkeyPatch) -> None:
    touch("/".join(["d"] * 40) + "/f")
    with pytest.raises(CorruptFile, match="deeper than 32 levels"):
        _listed(tmp_path)
    monkeypatch.setattr(listing, "MAX_FOLDERS", 10)
    with pytest.raises(CorruptFile, match="more than 10 folders"):
        _listed(tmp_path)


def test_loop_of_links_ends(tmp_path: pathlib.Path, touch: Touch) -> None:
    touch("a/f")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    with pytest.raises(CorruptFile):
        _listed(tmp_path)


def test_data_files_only(tmp_path: pathlib.Path, touch: Touch) -> None:
    names = ["f-0_0-1-2_001.parquet", ".f-0_001.log.1_0-1-2", ".f-0_001.log.1_0-1-2.cdc"]
    other = [".hoodie_partition_metadata", "_SUCCESS", ".f-0_0-1-2_001.parquet.crc", "f-0_001.csv"]
    touch(*(f"p/{name}" for name in names + other), "p/g-0_0-1-2_001.parquet/inner")
    result = list_data_files(open_storage(str(tmp_path)), "p")
    assert [file.ref.path for file in result] == sorted(f"p/{name}" for name in names)
    assert list_data_files(open_storage(str(tmp_path)), "none") == ()


def test_files_of_other_writers_are_left_out_unless_they_may_count(tmp_path: pathlib.Path, touch: Touch) -> None:
    touch("p/part-0.parquet", "p/part-0.parquet_001_hudiext", "p/f-0_0-1-2_001.parquet", "p/.tmp/x.parquet")
    touch("q/f-0_0-1-2_001.parquet", "r/deep/er/x.parquet")
    storage = open_storage(str(tmp_path))
    assert [file.ref.path for file in list_data_files(storage, "p")] == ["p/f-0_0-1-2_001.parquet"]
    assert [file.ref.path for file in list_data_files(storage, "q", strict=True)] == ["q/f-0_0-1-2_001.parquet"]
    for partition, named in (("p", r"p/part-0\.parquet"), ("r", r"r/deep/er/x\.parquet")):
        with pytest.raises(TableError, match=rf"file {named} of table .* was not named by Hudi"):
            list_data_files(storage, partition, strict=True)


def test_markers_tell_which_instant_created_a_partition(tmp_path: pathlib.Path) -> None:
    markers = {
        "a": "#partition metadata\ncommitTime=20260101000000000\npartitionDepth=1\n",
        "b/c": "commitTime=20260102000000\n",
        "d": "commitTime=none\n",
        "e": "x" * (1 << 17),
        "g": "commitTime=\\u12",
    }
    for partition, text in markers.items():
        (tmp_path / partition).mkdir(parents=True)
        (tmp_path / partition / ".hoodie_partition_metadata").write_text(text)
    (tmp_path / "f").mkdir()
    (tmp_path / "f/.hoodie_partition_metadata.parquet").write_bytes(b"")
    (tmp_path / ".hoodie_partition_metadata").write_text("commitTime=7\n")
    assert creating_instants(open_storage(str(tmp_path)), ["", *markers, "f"]) == {
        "": "7",
        "a": "20260101000000000",
        "b/c": "20260102000000",
    }


class Counted:
    """A storage that counts the listings of each folder, and waits in them for others if it has a barrier."""

    def __init__(self, storage: Storage, base_path: str, together: threading.Barrier | None = None) -> None:
        self.base_path = base_path
        self.listed: Counter[str] = Counter()
        self._storage = storage
        self._together = together

    def list_dir(self, path: str) -> list[FileInfo]:
        self.listed[path] += 1
        if self._together is not None and path in ("p", "q"):
            self._together.wait()
        return self._storage.list_dir(path)


def test_each_folder_is_listed_once_for_its_partitions_and_files(tmp_path: pathlib.Path, touch: Touch) -> None:
    touch("a/p/.hoodie_partition_metadata", "a/p/f-0_0-1-2_001.parquet", "q/.hoodie_partition_metadata", "q/x/y")
    touch("dropped/.hoodie_partition_metadata", "dropped/f-0_0-1-2_001.parquet", "skipped/deep/f")
    storage = Counted(open_storage(str(tmp_path)), str(tmp_path))
    files = list_files(storage, "skipped".__eq__, "dropped".__eq__)  # type: ignore[arg-type]
    paths = {partition: [file.ref.path for file in members] for partition, members in files.items()}
    assert paths == {"a/p": ["a/p/f-0_0-1-2_001.parquet"], "dropped": [], "q": []} and list(paths) == sorted(paths)
    assert storage.listed == dict.fromkeys(["", "a", "a/p", "dropped", "q"], 1)


def test_excluded_partition_is_not_checked_for_files_of_other_writers(tmp_path: pathlib.Path, touch: Touch) -> None:
    touch("p/.hoodie_partition_metadata", "p/x.parquet")
    storage = open_storage(str(tmp_path))
    assert list_files(storage, excluded="p".__eq__, strict=True) == {"p": ()}
    with pytest.raises(TableError, match=r"file p/x\.parquet"):
        list_files(storage, excluded="q".__eq__, strict=True)


@pytest.mark.parametrize("partitions_known", [True, False])
def test_partitions_on_an_object_store_are_listed_side_by_side(
    tmp_path: pathlib.Path, touch: Touch, partitions_known: bool
) -> None:
    """Each of the two listings waits until the other has begun; on a local disk they follow each other."""
    for partition in ("p", "q"):
        touch(f"{partition}/.hoodie_partition_metadata", f"{partition}/f-0_0-1-2_001.parquet")

    def listed(base_path: str, seconds: float) -> dict[str, tuple[DataFile, ...]]:
        storage = Counted(open_storage(str(tmp_path)), base_path, threading.Barrier(2, timeout=seconds))
        if partitions_known:
            return list_partition_files(storage, ["p", "q"])  # type: ignore[arg-type]
        return list_files(storage)  # type: ignore[arg-type]

    assert [len(files) for files in listed("s3://bucket/t", 60).values()] == [1, 1]
    with pytest.raises(threading.BrokenBarrierError):
        listed(str(tmp_path), 0.01)
