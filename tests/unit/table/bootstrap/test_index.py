"""The index of a bootstrapped table: its sources by file group, and what damaged or hostile bytes give."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.table.bootstrap.index import INDEX_FILE, read_sources
from penstock.table.hfile.encoder import encode_hfile
from penstock.table.storage.filesystem import open_storage
from penstock.table.timeline.container_encoder import encode_container

ROOT = "/data/src"


def _optional(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


_PATH = {"type": "record", "name": "HoodiePath", "fields": [{"name": "uri", **_optional("string")}]}
_STATUS = {
    "type": "record",
    "name": "HoodieFileStatus",
    "fields": [
        {"name": "path", **_optional(_PATH)},
        {"name": "length", **_optional("long")},
        {"name": "isDir", **_optional("boolean")},
    ],
}
PARTITION = {
    "type": "record",
    "name": "HoodieBootstrapPartitionMetadata",
    "fields": [
        {"name": "bootstrapPartitionPath", **_optional("string")},
        {"name": "partitionPath", **_optional("string")},
        {"name": "fileIdToBootstrapFile", **_optional({"type": "map", "values": _STATUS})},
    ],
}
INFO = {
    "type": "record",
    "name": "HoodieBootstrapIndexInfo",
    "fields": [{"name": "bootstrapBasePath", **_optional("string")}],
}


def status(uri: str | None, length: int = 10, is_dir: bool = False) -> dict[str, object]:
    return {"path": None if uri is None else {"uri": uri}, "length": length, "isDir": is_dir}


def cell(partition: str, files: dict[str, Any] | None, stated: str | None = None) -> tuple[bytes, bytes]:
    record = {
        "bootstrapPartitionPath": partition,
        "partitionPath": partition if stated is None else stated,
        "fileIdToBootstrapFile": files,
    }
    return f"part={partition}".encode(), encode_container(PARTITION, record)


def index_bytes(*cells: tuple[bytes, bytes], root: str | None = ROOT) -> bytes:
    info = {} if root is None else {"INDEX_INFO": encode_container(INFO, {"bootstrapBasePath": root})}
    return encode_hfile(sorted(cells), info)


def write_index(folder: pathlib.Path, data: bytes) -> pathlib.Path:
    path = folder / INDEX_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return folder


def read(folder: pathlib.Path, *partitions: str) -> dict[tuple[str, str], FileRef]:
    return read_sources(open_storage(str(folder)), partitions)


TWO = (
    cell("p=a", {"f1": status(f"file:{ROOT}/p=a/1.parquet"), "f2": status(f"{ROOT}/p=a/2.parquet", 2**40)}),
    cell("p=b", {"f1": status(f"file:{ROOT}/p=b/1.parquet", -5)}),
)


def test_sources_of_the_partitions_by_file_group(tmp_path: pathlib.Path) -> None:
    write_index(tmp_path, index_bytes(*TWO))
    a = {
        ("p=a", "f1"): FileRef("p=a/1.parquet", 10),
        ("p=a", "f2"): FileRef("p=a/2.parquet", 2**40),
    }
    assert read(tmp_path, "p=a") == a
    assert read(tmp_path, "p=a", "p=b") == {**a, ("p=b", "f1"): FileRef("p=b/1.parquet", 0)}
    assert read(tmp_path, "p=c") == read(tmp_path) == {}


def test_a_table_without_an_index_has_no_sources(tmp_path: pathlib.Path) -> None:
    assert read(tmp_path, "p=a") == {}


def test_the_partition_without_a_path(tmp_path: pathlib.Path) -> None:
    write_index(tmp_path, index_bytes(cell("", {"f": status(f"{ROOT}/1.parquet")})))
    assert read(tmp_path, "") == {("", "f"): FileRef("1.parquet", 10)}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (index_bytes(cell("p=a", {"f": status("/etc/passwd")})), "outside of the bootstrap base path"),
        (index_bytes(cell("p=a", {"f": status(f"{ROOT}/../x")})), "refused"),
        (index_bytes(cell("p=a", {"f": status("s3://other/x")})), "outside of the bootstrap base path"),
        (index_bytes(cell("p=a", {"f": status(None)})), "path"),
        (index_bytes(cell("p=a", {"f": status(ROOT + "/p=a", is_dir=True)})), "is a folder"),
        (index_bytes(cell("p=a", {}, stated="p=b")), "is of partition 'p=b'"),
        (index_bytes(*TWO, root=None), "lacks INDEX_INFO"),
        (index_bytes(*TWO, root=""), "bootstrapBasePath"),
        (encode_hfile([(b"part=p=a", b"Obj\x01")], {"INDEX_INFO": b"Obj\x01"}), "damaged"),
        (index_bytes((b"part=p=a", TWO[0][1][:-1])), "damaged or truncated"),
        (b"", "damaged"),
        (b"\0" * 5000, "damaged"),
    ],
)
def test_damaged_and_hostile_indexes_are_refused(tmp_path: pathlib.Path, data: bytes, named: str) -> None:
    write_index(tmp_path, data)
    with pytest.raises(CorruptFile, match=named):
        read(tmp_path, "p=a")


def test_any_changed_byte_is_an_error_or_gives_paths_inside(tmp_path: pathlib.Path) -> None:
    """Bytes of values, of the framing and of the trailer, each changed alone; and every third truncation."""
    whole, rng = index_bytes(*TWO), random.Random(28)
    errors = 0
    for place in [*rng.sample(range(len(whole)), 300), *range(0, len(whole), 97)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        errors += _fails_or_is_inside(write_index(tmp_path, bytes(changed)))
    for end in range(0, len(whole), 61):
        errors += _fails_or_is_inside(write_index(tmp_path, whole[:end]))
    assert errors > 100
    assert not _fails_or_is_inside(write_index(tmp_path, whole))


def _fails_or_is_inside(folder: pathlib.Path) -> bool:
    try:
        sources = read(folder, "p=a", "p=b")
    except CorruptFile:
        return True
    assert all(".." not in ref.path and not ref.path.startswith("/") for ref in sources.values())
    return False


def test_a_count_of_files_beyond_the_bytes_is_damage(tmp_path: pathlib.Path) -> None:
    """The map of the record says that it has 2^40 entries."""
    row, value = cell("p=a", {"f1": status(f"{ROOT}/1.parquet")})
    key = b"\x02\x02\x04f1"  # branch 1, a block of one entry, its key
    assert value.count(key) == 1
    count = b"\x80\x80\x80\x80\x80\x80\x20"
    grown = value.replace(key, b"\x02" + count + b"\x04f1")
    write_index(tmp_path, index_bytes((row, grown)))
    with pytest.raises(CorruptFile, match="damaged"):
        read(tmp_path, "p=a")
