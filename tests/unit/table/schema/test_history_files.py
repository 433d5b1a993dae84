"""`penstock.table.schema.history_files`."""

from __future__ import annotations

import pathlib

import pytest

from penstock.proto.errors import CorruptFile, StorageError
from penstock.table.schema.history_files import history_files, read_history_file
from penstock.table.storage.filesystem import open_storage


def test_histories_are_the_completed_ones_oldest_first(tmp_path: pathlib.Path) -> None:
    storage = open_storage(str(tmp_path))
    assert history_files(storage) == ()
    folder = tmp_path / ".hoodie/.schema"
    folder.mkdir(parents=True)
    for name in ("002_003.schemacommit", "001.schemacommit", "004.schemacommit.inflight", "004.schemacommit.requested"):
        (folder / name).write_text("{}")
    assert history_files(storage) == (("001", "001.schemacommit"), ("002", "002_003.schemacommit"))
    assert read_history_file(storage, "001.schemacommit") == "{}"
    (folder / "001.schemacommit").write_bytes(b"\xff")
    with pytest.raises(CorruptFile, match=r"001\.schemacommit.*is not UTF-8"):
        read_history_file(storage, "001.schemacommit")
    with pytest.raises(StorageError, match=r"009\.schemacommit.*was deleted"):
        read_history_file(storage, "009.schemacommit")
