"""A listing reads the versions of the described files, on a local file system no others."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from penstock.proto.errors import StorageDenied
from penstock.table.metadata.folder import FolderStorage
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.local_listing import LocalFolders, file_versions


class Remote:
    """The same files, as a storage without local folders has them."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "local_folder":
            raise AttributeError(name)
        return getattr(self._inner, name)


def described(name: str) -> bool:
    return not name.endswith(".requested")


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "table" / "meta" / "timeline"
    folder.mkdir(parents=True)
    (folder / "folder").mkdir()
    for name, text in (("2.commit", "abc"), ("1.requested", "x"), ("é.commit", "")):
        (folder / name).write_text(text)
        os.utime(folder / name, ns=(5, 1_000_000_007))
    (folder / "0.commit").touch()
    os.utime(folder / "0.commit", ns=(0, 0))
    (folder / "gone").symlink_to(folder / "nothing")
    (folder / "linked").symlink_to(folder / "2.commit")
    return tmp_path / "table"


def test_local_and_remote_listings_are_equal(table: pathlib.Path) -> None:
    storage = open_storage(str(table))
    remote = Remote(storage)
    assert isinstance(storage, LocalFolders) and not isinstance(remote, LocalFolders)
    expected = {
        "0.commit": (0, 0),
        "1.requested": (0, 0),
        "2.commit": (3, 1_000_000_007),
        "linked": (3, 1_000_000_007),
        "é.commit": (0, 1_000_000_007),
    }
    for each in (storage, remote):
        versions = file_versions(each, "meta/timeline", described)  # type: ignore[arg-type]
        assert versions == expected and list(versions) == sorted(versions)
    assert file_versions(FolderStorage(storage, "meta"), "timeline", described) == expected
    assert file_versions(storage, "meta/timeline", lambda name: True)["1.requested"] == (1, 1_000_000_007)


def test_folder_that_is_missing_is_empty(table: pathlib.Path) -> None:
    storage = open_storage(str(table))
    assert file_versions(storage, "meta/none", described) == {}
    assert file_versions(Remote(storage), "meta/none", described) == {}  # type: ignore[arg-type]


def test_name_that_is_not_utf8_is_listed_as_by_the_storage(table: pathlib.Path) -> None:
    os.close(os.open(os.fsencode(table / "meta" / "timeline") + b"/\xff.commit", os.O_CREAT))
    storage = open_storage(str(table))
    local, remote = (file_versions(each, "meta/timeline", described) for each in (storage, Remote(storage)))  # type: ignore[arg-type]
    assert local.keys() == remote.keys()


def test_failure_is_that_of_the_storage(table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: str) -> Any:
        raise PermissionError(13, "no", folder)

    storage = open_storage(str(table))
    monkeypatch.setattr(os, "scandir", refused)
    monkeypatch.setattr(type(storage), "list_dir", lambda *_: (_ for _ in ()).throw(StorageDenied("refused")))
    with pytest.raises(StorageDenied, match="refused"):
        file_versions(storage, "meta/timeline", described)


def add_requested(folder: pathlib.Path) -> None:
    (folder / "3.requested").touch()


def add_described(folder: pathlib.Path) -> None:
    (folder / "3.commit").touch()


def add_folder(folder: pathlib.Path) -> None:
    (folder / "history").mkdir()


def remove(folder: pathlib.Path) -> None:
    (folder / "1.requested").unlink()


def rename(folder: pathlib.Path) -> None:
    (folder / "1.requested").rename(folder / "1.commit")


def lengthen(folder: pathlib.Path) -> None:
    (folder / "2.commit").write_text("abcd")


def empty_at_the_epoch(folder: pathlib.Path) -> None:
    """The version that files have which are not described."""
    (folder / "2.commit").write_text("")
    os.utime(folder / "2.commit", ns=(0, 0))


def grow_from_the_epoch(folder: pathlib.Path) -> None:
    (folder / "0.commit").write_text("ab")


def touch(folder: pathlib.Path) -> None:
    os.utime(folder / "2.commit", ns=(5, 2_000_000_007))


def replace_by_folder(folder: pathlib.Path) -> None:
    (folder / "2.commit").unlink()
    (folder / "2.commit").mkdir()


def break_link(folder: pathlib.Path) -> None:
    (folder / "linked").unlink()
    (folder / "linked").symlink_to(folder / "nothing")


def remove_all(folder: pathlib.Path) -> None:
    shutil.rmtree(folder)


CHANGES = (
    add_requested,
    add_described,
    add_folder,
    remove,
    rename,
    lengthen,
    empty_at_the_epoch,
    grow_from_the_epoch,
    touch,
    replace_by_folder,
    break_link,
    remove_all,
)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_after_an_earlier_listing_is_seen(
    table: pathlib.Path, change: Callable[[pathlib.Path], None]
) -> None:
    """The folder gets the times back that it had: the file system may not have moved them, within a tick of its
    clock."""
    storage, folder = open_storage(str(table)), table / "meta" / "timeline"
    before = file_versions(storage, "meta/timeline", described)
    times = folder.stat()
    change(folder)
    if folder.exists():
        os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert folder.stat().st_mtime_ns == times.st_mtime_ns
    now = file_versions(storage, "meta/timeline", described, before)
    assert now == file_versions(storage, "meta/timeline", described)
    assert list(now) == sorted(now)
    assert (now == before) is (change is add_folder)


def test_unchanged_folder_gives_the_earlier_listing_itself(
    table: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(str(table))
    before = file_versions(storage, "meta/timeline", described)
    monkeypatch.setattr(os, "scandir", None)
    assert file_versions(storage, "meta/timeline", described, before) is before


def test_a_file_more_is_added_to_the_earlier_listing(table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only described files and new ones are looked at."""
    storage, folder, looked = open_storage(str(table)), table / "meta" / "timeline", list[str]()
    before = file_versions(storage, "meta/timeline", described)
    add_described(folder)
    add_requested(folder)
    monkeypatch.setattr(os, "scandir", None)
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: (looked.append(os.path.basename(path)), stat(path))[1])  # noqa: PTH119
    now = file_versions(storage, "meta/timeline", described, before)
    monkeypatch.undo()
    assert now == file_versions(storage, "meta/timeline", described) and list(now) == sorted(now)
    assert sorted(looked) == sorted({*now, "folder", "gone"} - {"1.requested"})


def test_name_that_is_not_utf8_stays_listed(table: pathlib.Path) -> None:
    storage, folder = open_storage(str(table)), os.fsencode(table / "meta" / "timeline")
    os.close(os.open(folder + b"/\xff.commit", os.O_CREAT))
    before = file_versions(storage, "meta/timeline", described)
    add_described(table / "meta" / "timeline")
    now = file_versions(storage, "meta/timeline", described, before)
    assert now == file_versions(storage, "meta/timeline", described) and len(now) == len(before) + 1


def test_earlier_listing_is_not_used_where_folders_are_not_local(table: pathlib.Path) -> None:
    remote = Remote(open_storage(str(table)))
    before = file_versions(remote, "meta/timeline", described)  # type: ignore[arg-type]
    add_described(table / "meta" / "timeline")
    assert "3.commit" in file_versions(remote, "meta/timeline", described, before)  # type: ignore[arg-type]
