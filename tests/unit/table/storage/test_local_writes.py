"""Files that writes create: whole or not at all, on the disk, and only in the table's folder."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from penstock.proto.errors import CorruptFile, StorageDenied, StorageError
from penstock.table.storage.local_writes import LocalStorage


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders and files that were synced, in order."""
    paths: list[str] = []
    sync = os.fsync

    def record(descriptor: int) -> None:
        path = str(pathlib.Path(f"/proc/self/fd/{descriptor}").readlink())
        paths.append(f"{path}/" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else path)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return paths


def test_create_writes_content_once(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    storage.create("a/b", b"first")
    with pytest.raises(FileExistsError):
        storage.create("a/b", b"second")
    assert (tmp_path / "a/b").read_bytes() == b"first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"], "no temporary file stays"


def test_created_file_and_each_new_folder_are_synced(
    storage: LocalStorage, tmp_path: pathlib.Path, synced: list[str]
) -> None:
    storage.create("p=1/q=2/file", b"x")
    assert synced[:2] == [f"{tmp_path}/", f"{tmp_path}/p=1/"], "names of new folders"
    assert ".tmp" in synced[2] and synced[3:] == [f"{tmp_path}/p=1/q=2/"]


def test_data_file_and_its_folders_are_synced(storage: LocalStorage, tmp_path: pathlib.Path, synced: list[str]) -> None:
    with storage.new_file("p/file") as file:
        file.write(b"x")
        assert f"{tmp_path}/p/file" not in synced
    assert synced == [f"{tmp_path}/", f"{tmp_path}/p/file", f"{tmp_path}/p/"]


def test_removal_is_synced_and_takes_checksum_along(
    storage: LocalStorage, tmp_path: pathlib.Path, synced: list[str]
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / ".file.crc").write_bytes(b"x")
    assert storage.remove("file")
    assert synced == [f"{tmp_path}/"] and list(tmp_path.iterdir()) == []
    assert not storage.remove("file")


def test_data_file_is_never_overwritten(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError), storage.new_file("file"):
        pass
    assert (tmp_path / "file").read_bytes() == b"old"


def test_replace_changes_content(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    storage.replace("file", b"1")
    storage.replace("file", b"2")
    assert (tmp_path / "file").read_bytes() == b"2"


def test_folder_with_name_of_a_file_is_a_storage_error(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    (tmp_path / "p").write_bytes(b"")
    with pytest.raises(StorageError, match=r"writing .*p/file.* failed"):
        storage.create("p/file", b"x")


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "a//b"])
def test_paths_outside_are_refused(storage: LocalStorage, tmp_path: pathlib.Path, path: str) -> None:
    for write in (lambda: storage.create(path, b""), lambda: storage.replace(path, b""), lambda: storage.remove(path)):
        with pytest.raises(CorruptFile, match="is refused"):
            write()
    assert list(tmp_path.iterdir()) == []


def test_link_out_of_the_table_is_refused(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "p").symlink_to(outside)
    with pytest.raises(CorruptFile, match="symbolic link"):
        storage.create("p/file", b"x")
    assert list(outside.iterdir()) == []


def test_base_folder_is_not_removed(storage: LocalStorage) -> None:
    with pytest.raises(ValueError, match="base folder"):
        storage.remove_folder("")


def test_failures_of_the_system_are_named(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: pathlib.Path, target: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "hardlink_to", denied)
    with pytest.raises(StorageDenied, match="cannot be written by this user"):
        storage.create("file", b"x")
    assert storage.list_dir("") == [], "the temporary file is removed"


def test_staged_file_appears_whole_at_the_end(storage: LocalStorage, tmp_path: pathlib.Path, synced: list[str]) -> None:
    storage.make_folder("stage")
    synced.clear()
    with storage.staged_file("stage", "p/file") as file:
        file.write(b"rows")
        assert not (tmp_path / "p").exists()
    assert (tmp_path / "p/file").read_bytes() == b"rows"
    assert not list((tmp_path / "stage").iterdir())
    assert synced[0].startswith(f"{tmp_path}/stage/file.") and synced[-1] == f"{tmp_path}/p/", "before it appears"


def test_staged_file_of_a_failed_block_or_of_a_taken_name_does_not_appear(
    storage: LocalStorage, tmp_path: pathlib.Path
) -> None:
    storage.make_folder("stage")
    with pytest.raises(RuntimeError), storage.staged_file("stage", "p/file") as file:
        file.write(b"rows")
        raise RuntimeError("the source ended")
    assert not (tmp_path / "p").exists()
    storage.create("p/file", b"first")
    with pytest.raises(FileExistsError), storage.staged_file("stage", "p/file") as file:
        file.write(b"second")
    assert (tmp_path / "p/file").read_bytes() == b"first"
    assert not list((tmp_path / "stage").iterdir())


@pytest.mark.parametrize("closed", ["before", "while it is written"])
def test_staged_file_of_a_closed_folder_does_not_appear(
    storage: LocalStorage, tmp_path: pathlib.Path, closed: str
) -> None:
    storage.make_folder("stage")
    if closed == "before":
        storage.close_folder("stage")
    with pytest.raises(FileNotFoundError), storage.staged_file("stage", "p/file") as file:
        file.write(b"rows")
        storage.close_folder("stage")
    assert not (tmp_path / "p/file").exists()
    assert not list(tmp_path.glob("stage*")), "nothing of the folder stays"
    storage.close_folder("stage")
