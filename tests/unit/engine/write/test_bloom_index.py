"""The bloom index: which base files an upsert reads, and that the answer is the footers'."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.model.splits import FileRef
from penstock.reader.base.file import BaseFile
from penstock.table.parquet.bloom_filter import BloomFilter
from penstock.writer.index.new_groups import FileSizes
from tests.unit.engine.write.recorded_storage import Lake, Row

KIND = (9, "merge_on_read", "bloom")
NO_FILLING = FileSizes(small_file_bytes=0)
FILES: list[list[Row]] = [[(f"k{n}{i:04d}", 1, "oslo") for i in range(1000)] for n in range(5)]
"""The rows of five base files, whose key ranges do not overlap."""


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with five base files."""
    lake = Lake(tmp_path / "t", KIND, monkeypatch)
    for rows in FILES:
        lake.write(rows, sizes=NO_FILLING)
    return lake


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The base files of which row groups are decoded, by the key of their first row."""
    files: list[str] = []
    read = BaseFile.read

    def recorded(file: BaseFile, *args: object, **more: object) -> object:
        files.append(file.where)
        return read(file, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(BaseFile, "read", recorded)
    return files


def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], dict[str, int]]:
    """(paths of base files in the order in which they are opened, bytes read of each)."""
    order: list[str] = []
    sizes: dict[str, int] = {}
    opens = BaseFile.__init__

    class Counted:
        """A file that counts what is read of it."""

        def __init__(self, file: pa.NativeFile, path: str) -> None:
            self.file, self.path = file, path
            self.closed = False

        def read(self, size: int = -1) -> bytes:
            data: bytes = self.file.read(size)
            sizes[self.path] = sizes.get(self.path, 0) + len(data)
            return data

        def seek(self, *place: int) -> int:
            return int(self.file.seek(*place))

        def tell(self) -> int:
            return int(self.file.tell())

        def close(self) -> None:
            self.closed = True
            self.file.close()

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def writable(self) -> bool:
            return False

    class CountedStorage:
        """Storage whose files count."""

        def __init__(self, storage: object) -> None:
            self.storage = storage

        def __getattr__(self, name: str) -> object:
            return getattr(self.storage, name)

        def open_input(self, path: str) -> pa.PythonFile:
            order.append(path)
            return pa.PythonFile(Counted(self.storage.open_input(path), path), mode="r")  # type: ignore[attr-defined]

    def counted(file: BaseFile, storage: object, ref: FileRef, *args: object, **more: object) -> None:
        opens(file, CountedStorage(storage), ref, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(BaseFile, "__init__", counted)
    return order, sizes


@pytest.mark.parametrize("index", ["bloom", "global_bloom"])
def test_files_that_footers_exclude_are_not_read_beyond_them(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """An upsert of a stored key, one in the range of another file that it does not have, and one outside of all."""
    file = lake.path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("BLOOM", index.upper()))
    order, sizes = opened(monkeypatch)
    written = lake.write([("k20500", 2, "oslo"), ("k30500x", 2, "oslo"), ("z", 2, "oslo")], sizes=NO_FILLING)
    assert (written.updated, written.inserted) == (1, 2)
    assert len(order) == len(set(order)) == 5, "each file is opened once"
    files = {path.name: path for path in lake.path.glob("oslo/*.parquet")}
    beyond = {}
    for path in order:
        data = files[path.rpartition("/")[2]].read_bytes()
        footer = int.from_bytes(data[-8:-4], "little") + 8
        # the footer is read once, in one read or two, with what lies before it in the last 64 KiB
        beyond[path] = sizes[path] > max(footer, 64 << 10) + 16
        assert sizes[path] >= footer
    keys = {path: pq.read_table(files[path.rpartition("/")[2]], columns=["id"])[0][0].as_py() for path in order}
    assert {keys[path] for path, more in beyond.items() if more} <= {"k20000"}
    assert lake.rows() == sorted(
        [row for rows in FILES for row in rows if row[0] != "k20500"]
        + [("k20500", 2, "oslo"), ("k30500x", 2, "oslo"), ("z", 2, "oslo")]
    )


def test_only_candidates_are_decoded(lake: Lake, decoded: list[str]) -> None:
    lake.write([("k20500", 2, "oslo"), ("k30500x", 2, "oslo"), ("z", 2, "oslo")], sizes=NO_FILLING)
    assert len(decoded) == 1
    lake.write([("k20500", 3, "riga"), ("y", 2, "oslo")], sizes=NO_FILLING)
    assert len(decoded) == 1


def test_simple_index_decodes_all_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str]
) -> None:
    lake = Lake(tmp_path / "s", (9, "merge_on_read", "simple"), monkeypatch)
    for rows in FILES[:3]:
        lake.write(rows, sizes=NO_FILLING)
    del decoded[:]
    lake.write([("z", 2, "oslo")], sizes=NO_FILLING)
    assert len(decoded) == 3


def with_footer(path: pathlib.Path, **changed: str | None) -> None:
    """Writes the base file again with other entries in its footer."""
    rows = pq.read_table(path)
    entries = {**(pq.read_metadata(path).metadata or {}), **{key.encode(): value for key, value in changed.items()}}
    kept = {key: value for key, value in entries.items() if value is not None}
    with pq.ParquetWriter(path, rows.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(rows.replace_schema_metadata(None))
        writer.add_key_value_metadata(kept)


FILTER = "org.apache.hudi.bloomfilter"


@pytest.mark.parametrize(
    ("changed", "copies"),
    [
        ({}, 1),
        ({FILTER: None}, 1),
        ({FILTER: None, "hoodie_min_record_key": None, "hoodie_max_record_key": None}, 1),
        ({FILTER: "damaged"}, 1),
        ({FILTER: BloomFilter.for_keys(1).encoded()}, 2),
        ({"hoodie_min_record_key": "z0", "hoodie_max_record_key": "z1"}, 2),
    ],
    ids=["as written", "no filter", "no entries", "damaged filter", "a filter that misses", "a wrong range"],
)
def test_footer_is_believed_if_it_is_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], copies: int
) -> None:
    """The last two are negative controls: the upsert misses the key, and repeats it, as Hudi would."""
    lake = Lake(tmp_path / "t", (9, "copy_on_write", "bloom"), monkeypatch)
    lake.write(FILES[0][:3], sizes=NO_FILLING)
    (path,) = lake.path.glob("oslo/*.parquet")
    with_footer(path, **changed)
    lake.write([(FILES[0][1][0], 2, "oslo")], sizes=NO_FILLING)
    assert [row[0] for row in lake.rows()].count(FILES[0][1][0]) == copies
