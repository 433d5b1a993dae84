"""Storage: one protocol over pyarrow.fs; hostile paths and links refused; failures mapped with their path."""

from __future__ import annotations

import pathlib

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError, CorruptFile, StorageError
from penstock.table.storage import MAX_PATH_BYTES, ArrowStorage, checked_path, open_storage, shown_uri


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    base = tmp_path / "table"
    (base / "p=b").mkdir(parents=True)
    (base / "p=b" / "two").write_bytes(b"22")
    (base / "p=a").mkdir()
    (base / "one").write_bytes(b"1")
    return base


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "p=a/../../x",
        "p=a/..",
        "./x",
        "p=a//x",
        "p=a/",
        "file:/etc/passwd",
        "s3://bucket/x",
        "p=a/\0x",
        "p=a/\ud800",
        "x" * (MAX_PATH_BYTES + 1),
    ],
)
def test_hostile_path_is_refused_everywhere(path: str, folder: pathlib.Path) -> None:
    storage = open_storage(str(folder))
    calls = (checked_path, storage.list_dir, storage.file_info, storage.open_input, lambda p: storage.read_bytes(p, 9))
    for call in calls:
        with pytest.raises(CorruptFile, match="refused"):
            call(path)


@pytest.mark.parametrize("path", ["", "a", "p=a/..b/c..", "p=t:1/x", "p=2023-01-01 12%3A30/ü", "a" * MAX_PATH_BYTES])
def test_ordinary_path_passes_unchanged(path: str) -> None:
    assert checked_path(path) == path


@given(st.text(max_size=40))
def test_checked_path_never_leaves_the_base(text: str) -> None:
    try:
        path = checked_path(text)
    except CorruptFile:
        return
    base = pathlib.PurePosixPath("/base/table")
    parts = (base / path).parts
    assert parts[:3] == base.parts and ".." not in parts


def test_link_out_of_the_table_is_refused(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"no")
    (folder / "link").symlink_to(secret / "file")
    (folder / "folder").symlink_to(secret)
    (folder / "inside").symlink_to(folder / "one")
    (folder / "loop").symlink_to(folder / "loop")
    storage = open_storage(str(folder))
    for call in (lambda: storage.open_input("link"), lambda: storage.read_bytes("folder/file", 9)):
        with pytest.raises(CorruptFile, match="symbolic link leads out"):
            call()
    with pytest.raises(CorruptFile, match="symbolic link leads out"):
        storage.list_dir("folder")
    assert storage.read_bytes("inside", 9) == b"1"
    with pytest.raises((CorruptFile, StorageError)):
        storage.read_bytes("loop", 9)


def test_table_behind_a_link_is_read(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "current").symlink_to(folder)
    storage = open_storage(str(tmp_path / "current"))
    assert storage.base_path == str(tmp_path / "current")
    assert storage.read_bytes("one", 9) == b"1"


def test_listing_is_one_level_sorted_and_empty_if_absent(folder: pathlib.Path) -> None:
    storage = open_storage(str(folder))
    assert [(i.name, i.path, i.is_dir, i.size_bytes) for i in storage.list_dir("")] == [
        ("one", "one", False, 1),
        ("p=a", "p=a", True, 0),
        ("p=b", "p=b", True, 0),
    ]
    assert [i.path for i in storage.list_dir("p=b")] == ["p=b/two"]
    assert storage.list_dir("p=none") == [] == storage.list_dir("one")
    assert storage.list_dir("p=b")[0].modified_ns == (folder / "p=b/two").stat().st_mtime_ns


def test_file_info_and_missing_files(folder: pathlib.Path) -> None:
    storage = open_storage(str(folder))
    info = storage.file_info("p=b/two")
    assert info is not None and (info.name, info.size_bytes, info.is_dir) == ("two", 2, False)
    base = storage.file_info("")
    assert base is not None and (base.path, base.is_dir) == ("", True)
    assert storage.file_info("nothing") is None and storage.file_info("one/below") is None
    for call in (lambda: storage.read_bytes("nothing", 9), lambda: storage.open_input("one/below")):
        with pytest.raises(FileNotFoundError, match="no such file"):
            call()


def test_larger_than_the_limit_is_refused(folder: pathlib.Path) -> None:
    storage = open_storage(str(folder))
    assert storage.read_bytes("p=b/two", 2) == b"22"
    with pytest.raises(CorruptFile, match=r"p=b/two.*at most 1 "):
        storage.read_bytes("p=b/two", 1)


def test_other_failure_is_a_storage_error_with_the_path(folder: pathlib.Path) -> None:
    with pytest.raises(StorageError, match="p=a of table") as caught:
        open_storage(str(folder)).read_bytes("p=a", 9)
    assert caught.value.retryable


def test_random_access(folder: pathlib.Path) -> None:
    (folder / "long").write_bytes(bytes(range(100)))
    with open_storage(str(folder)).open_input("long") as source:
        source.seek(90)
        assert source.read(3) == bytes([90, 91, 92]) and source.size() == 100


def test_relative_path_and_file_uri_mean_the_same_table(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "p=a")
    paths = ("..", "../", str(folder), folder.as_uri(), folder.as_uri() + "/")
    assert {open_storage(path).base_path for path in paths} == {str(folder)}


def test_unknown_or_empty_uri_is_the_callers_mistake() -> None:
    for path in ("nothing://x/y", "", "s3://b u c/x"):
        with pytest.raises(ConfigurationError, match="expected a local path or a URI"):
            open_storage(path)


def test_another_file_system_than_the_local_one() -> None:
    filesystem = pafs._MockFileSystem()
    filesystem.create_dir("lake/table/p=a")
    with filesystem.open_output_stream("lake/table/p=a/f") as out:
        out.write(b"abc")
    storage = ArrowStorage("mock://lake/table", filesystem, "lake/table")
    assert [i.path for i in storage.list_dir("")] == ["p=a"]
    assert storage.read_bytes("p=a/f", 3) == b"abc"
    assert storage.list_dir("p=x") == [] and storage.file_info("p=x") is None
    with pytest.raises(FileNotFoundError):
        storage.open_input("p=a/g")


def test_credentials_are_not_shown() -> None:
    shown = shown_uri("s3://key:secret@bucket/table?endpoint_override=host&secret_key=hidden")
    assert shown == "s3://bucket/table"
    assert shown_uri("/local/ta?ble") == "/local/ta?ble"
