"""Small local files are read without pyarrow, and everything unusual is left to it."""

from __future__ import annotations

import os
import pathlib
import stat
from typing import NamedTuple

import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.storage.filesystem import ArrowStorage, open_storage
from penstock.table.storage.local_reads import read_local


class Status(NamedTuple):
    st_size: int
    st_mode: int = stat.S_IFREG


@pytest.mark.parametrize("size_bytes", [0, 1, 9, 10, 11, 1 << 20])
def test_first_bytes_of_a_file(tmp_path: pathlib.Path, size_bytes: int) -> None:
    content = bytes(number % 251 for number in range(size_bytes))
    (tmp_path / "file").write_bytes(content)
    assert read_local(str(tmp_path / "file"), 10) == content[:10]
    assert read_local(str(tmp_path / "file"), 1 << 30) == content


def test_errors_are_left_to_the_other_reader(tmp_path: pathlib.Path) -> None:
    assert read_local(str(tmp_path), 10) is None
    assert read_local(str(tmp_path / "nothing"), 10) is None
    assert read_local(f"{tmp_path}/a\0b", 10) is None
    storage = open_storage(str(tmp_path))
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        storage.read_bytes("nothing", 10)
    with pytest.raises(CorruptFile, match="is a folder"):
        storage.read_bytes("folder", 10)


@pytest.mark.parametrize("stated", [2, 4])
def test_file_that_changes_its_size_is_left_to_the_other_reader(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, stated: int
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    monkeypatch.setattr(os, "fstat", lambda _: Status(stated))
    assert read_local(str(tmp_path / "file"), 10) is None
    assert open_storage(str(tmp_path)).read_bytes("file", 10) == b"abc"
    monkeypatch.setattr(os, "fstat", lambda _: Status(3))
    assert read_local(str(tmp_path / "file"), 10) == b"abc", "control: the size is as stated"


def test_storage_reads_local_files_this_way(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    storage = open_storage(str(tmp_path))
    monkeypatch.setattr(ArrowStorage, "_opened", None)
    assert storage.read_bytes("file", 3) == b"abc"
    with pytest.raises(CorruptFile, match="larger than expected"):
        storage.read_bytes("file", 2)


def test_fifo_is_left_to_the_other_reader(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert read_local(str(tmp_path / "fifo"), 10) is None
