"""Tables of tests of writes, and their files with a record of each call that changes something."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.commits import WriteStat

SCHEMA = pa.schema(
    [("id", pa.string()), ("seq", pa.int64()), ("city", pa.string()), ("_hoodie_is_deleted", pa.bool_())]
)

Row = tuple[str, int, str]
"""id, seq, city."""

Kind = tuple[int, str, str]
"""Table version, type, index."""

KINDS: tuple[Kind, ...] = (
    (9, "merge_on_read", "bucket"),
    (9, "copy_on_write", "simple"),
    (6, "merge_on_read", "simple"),
    (6, "copy_on_write", "bucket"),
)


class RecordedStorage(LocalStorage):
    """Local files. `calls` are (method, path) in order; `before` is called before each."""

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__(str(root))
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda method, path: None

    def _record(self, method: str, path: str) -> None:
        self.before(method, path)
        self.calls.append((method, path))

    def paths(self, method: str) -> list[str]:
        """The paths of one method, in order."""
        return [path for name, path in self.calls if name == method]

    def place(self, method: str, path: str) -> int:
        """The place of the first such call."""
        return self.calls.index((method, path))

    def create(self, path: str, data: bytes) -> None:
        self._record("create", path)
        super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._record("replace", path)
        super().replace(path, data)

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        self._record("new_file", path)
        with super().new_file(path) as file:
            yield file

    def remove(self, path: str) -> bool:
        self._record("remove", path)
        return super().remove(path)

    def remove_folder(self, path: str) -> None:
        self._record("remove_folder", path)
        super().remove_folder(path)


class Lake:
    """A table, written through recorded files."""

    def __init__(self, path: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        version, table_type, index = kind
        self.path, self.kind = path, kind
        defaults: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering": "seq"}
        create_table(
            str(path),
            settings.pop("schema", SCHEMA),
            table_type=table_type,
            table_version=version,
            index=index,
            buckets=2 if index == "bucket" else None,
            **{**defaults, **settings},
        )
        self.storage = RecordedStorage(path)
        monkeypatch.setattr("penstock.engine.write.planned_write.open_writable", lambda path: self.storage)

    @property
    def layout(self) -> int:
        return 2 if self.kind[0] == 9 else 1

    @property
    def timeline_folder(self) -> pathlib.Path:
        return self.path / ".hoodie" / "timeline" if self.layout == 2 else self.path / ".hoodie"

    def write(self, rows: Sequence[Row], operation: str = "upsert", **options: Any) -> penstock.WriteResult:
        """Writes the rows. `deleted`: keys whose row has the delete marker."""
        deleted = options.pop("deleted", ())
        return write(str(self.path), arrow(rows, deleted), operation, **options)

    def table(self) -> HudiTable:
        return open_table(str(self.path))

    def rows(self) -> list[Row]:
        return rows_of(penstock.read(str(self.path)).read_all())

    def stats(self, instant: str) -> tuple[WriteStat, ...]:
        table = self.table()
        found = table.timeline().completed_write(instant)
        assert found is not None
        return table.commit(found).stats

    def files(self) -> set[str]:
        """All data files."""
        found = (file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file())
        return {file for file in found if not file.startswith(".hoodie/") and not file.endswith("_metadata")}

    def everything(self) -> dict[str, bytes]:
        """All files with their content."""
        return {
            file.relative_to(self.path).as_posix(): file.read_bytes() for file in self.path.rglob("*") if file.is_file()
        }


def arrow(rows: Sequence[Row], deleted: Sequence[str] = ()) -> pa.Table:
    names = ("id", "seq", "city", "_hoodie_is_deleted")
    return pa.Table.from_pylist(
        [dict(zip(names, (*row, row[0] in deleted), strict=True)) for row in rows], schema=SCHEMA
    )


def rows_of(table: pa.Table) -> list[Row]:
    return sorted((row["id"], row["seq"], row["city"]) for row in table.select(["id", "seq", "city"]).to_pylist())


FIRST: list[Row] = [(f"k{n}", 1, "oslo" if n % 2 else "riga") for n in range(8)]
SECOND: list[Row] = [("k1", 2, "oslo"), ("k2", 2, "riga"), ("new", 2, "bern")]


def upserted(rows: Sequence[Row], newer: Sequence[Row]) -> list[Row]:
    keys = {(key, city) for key, _, city in newer}
    return sorted([row for row in rows if (row[0], row[2]) not in keys] + list(newer))


each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
copy_on_write = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[1] == "copy_on_write"])
