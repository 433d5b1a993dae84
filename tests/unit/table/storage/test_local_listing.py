"""A listing reads the versions of the described files, on a local file system no others."""

from __future__ import annotations

import os
import pathlib
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
    (folder / "gone").symlink_to(folder / "nothing")
    (folder / "linked").symlink_to(folder / "2.commit")
    return tmp_path / "table"


def test_local_and_remote_listings_are_equal(table: pathlib.Path) -> None:
    storage = open_storage(str(table))
    remote = Remote(storage)
    assert isinstance(storage, LocalFolders) and not isinstance(remote, LocalFolders)
    expected = {
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
