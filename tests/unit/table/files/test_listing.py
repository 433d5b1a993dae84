"""The listing of partitions, and of the data files in one."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from penstock.proto.errors import CorruptFile, TableError
from penstock.table.files import listing
from penstock.table.files.listing import creating_instants, list_data_files, list_partitions
from penstock.table.storage.filesystem import open_storage

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
