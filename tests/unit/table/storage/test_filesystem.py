"""Storage: one protocol over pyarrow.fs; hostile paths and links refused; failures mapped with their path."""

from __future__ import annotations

import errno
import os
import pathlib
import traceback

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError, CorruptFile, StorageDenied, StorageError
from penstock.table.storage.filesystem import MAX_PATH_BYTES, ArrowStorage, checked_path, is_local, open_storage


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


def test_table_at_the_target_of_a_link_is_read(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
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


def test_name_that_is_not_utf8_is_refused_and_hides_no_other(folder: pathlib.Path) -> None:
    storage = open_storage(str(folder))
    before = storage.list_dir("")
    os.mkdir(os.fsencode(folder) + b"/bad\xff")  # noqa: PTH102 - no text is this name
    infos = storage.list_dir("")
    assert before and infos[:-1] == before and infos[-1].is_dir
    for access in (storage.list_dir, storage.file_info, storage.open_input):
        with pytest.raises(CorruptFile, match="Unicode"):
            access(infos[-1].path)


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


class Failing(pafs.FileSystemHandler):  # type: ignore[misc]
    """A file system on which opening and listing fail with `error`."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _fail(self, *_: object) -> None:
        raise self.error

    def get_type_name(self) -> str:
        return "failing"

    def normalize_path(self, path: str) -> str:
        return path

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = _fail
    get_file_info = get_file_info_selector = move = open_append_stream = open_input_file = open_input_stream = _fail
    open_output_stream = _fail


def failing(error: Exception) -> ArrowStorage:
    return ArrowStorage("s3://key:secret@bucket/table", pafs.PyFileSystem(Failing(error)), "bucket/table")


def test_other_failure_is_a_storage_error_with_the_path() -> None:
    with pytest.raises(StorageError, match="p=a of table s3://bucket/table: bus on fire; a retry") as caught:
        failing(OSError("bus on fire")).read_bytes("p=a", 9)
    assert caught.value.retryable


def test_folder_in_place_of_a_file_is_damage(folder: pathlib.Path) -> None:
    storage = open_storage(str(folder))
    for call in (lambda: storage.read_bytes("p=a", 9), lambda: storage.open_input("p=a")):
        with pytest.raises(CorruptFile, match=r"p=a of table .* is a folder, expected a file"):
            call()
    for error in (IsADirectoryError("no"), OSError("Not a regular file: 'bucket/table/p=a'")):
        with pytest.raises(CorruptFile, match="p=a of table s3://bucket/table is a folder, expected a file"):
            failing(error).open_input("p=a")


FORBIDDEN = [
    PermissionError("no"),
    OSError(errno.EACCES, "no"),
    OSError(errno.EPERM, "no"),
]


@pytest.mark.parametrize("error", FORBIDDEN)
def test_denied_access_is_not_retried(error: OSError) -> None:
    storage = failing(error)
    calls = (storage.list_dir, storage.file_info, storage.open_input, lambda path: storage.read_bytes(path, 9))
    for call in calls:
        with pytest.raises(
            StorageDenied, match="p=a of table s3://bucket/table is not readable by this user"
        ) as caught:
            call("p=a")
        assert not caught.value.retryable and caught.value.exit_code == 4
        assert "retry" not in str(caught.value)


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
    for path in ("nothing://x/y", "", "s3://b u c/x", "B\udcff", "s3://b/\udcff"):
        with pytest.raises(ConfigurationError, match="expected a local path or a URI"):
            open_storage(path)


@pytest.mark.parametrize(
    "path", ["wasb://key:secret@host/table", "WASBS://key:secret@host/t", "mock:///t", "http://h/t"]
)
def test_other_schemes_never_reach_pyarrow(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pafs, "FileSystem", None)
    with pytest.raises(
        ConfigurationError, match="supported are file, s3, s3a, s3n, gs, gcs, hdfs, viewfs, abfs, abfss;"
    ) as caught:
        open_storage(path)
    assert "secret" not in str(caught.value)


def test_text_that_is_not_utf8_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'B\\udcff' is not UTF-8"):
        open_storage("B\udcff")


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


def test_azure_is_opened_without_a_connection() -> None:
    storage = open_storage("abfs://lake@account.dfs.core.windows.net/tables/trips")
    assert storage.base_path == "abfs://lake@account.dfs.core.windows.net/tables/trips" and not is_local(storage)


def test_errors_of_opening_hold_no_credentials() -> None:
    for uri in ("s3://key:se cret@bucket/t", "s3://key:se/cret@bucket/t", "gs://key:secret@bucket/t"):
        with pytest.raises(ConfigurationError, match="cannot be opened") as caught:
            open_storage(uri)
        assert "cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("signed", [True, False])
def test_failure_holds_no_error_with_a_signature(signed: bool) -> None:
    """With the control that other errors are the cause."""
    text = f"GET https://host/f?sv=1{'&sig=secret' if signed else ''}' failed: 503"

    def fail() -> None:
        raise OSError(text)

    with pytest.raises(StorageError, match="503") as caught:
        ArrowStorage("mock://lake", pafs._MockFileSystem(), "lake")._guarded("f", fail)
    assert "secret" not in str(caught.value)
    assert (caught.value.__cause__ is None and caught.value.__context__ is None) is signed
