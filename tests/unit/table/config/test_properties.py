"""hoodie.properties: defaults, recovery, checksum, refusals."""

from __future__ import annotations

import dataclasses
import pathlib
import zlib

import pytest

from penstock.proto.errors import CorruptFile, TableError, TableNotFound, UnsupportedFeature
from penstock.table.config.properties import BACKUP_FILE, PROPERTIES_FILE, load_properties, parse_table_properties
from penstock.table.storage.filesystem import open_storage

CHECKSUM = zlib.crc32(b"db.trips")
TEXT = f"""#comment
hoodie.table.name=trips
hoodie.database.name=db
hoodie.table.checksum={CHECKSUM}
hoodie.table.version=9
hoodie.table.type=MERGE_ON_READ
hoodie.table.partition.fields=p\\:SIMPLE,t\\:TIMESTAMP
hoodie.table.ordering.fields=ts, seq
some.unknown.key=kept
"""


def _write(folder: pathlib.Path, path: str, text: str) -> None:
    target = folder / path
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)


def test_fields_and_defaults() -> None:
    result = parse_table_properties(TEXT.encode(), "/base")
    assert (result.name, result.database, result.version, result.layout) == ("trips", "db", 9, 2)
    assert (result.timeline_folder, result.history_folder) == (".hoodie/timeline", ".hoodie/timeline/history")
    assert result.partition_fields == ("p", "t") and result.ordering_fields == ("ts", "seq")
    assert result.timezone == "LOCAL" and result.base_file_format == "PARQUET" and result.populate_meta_fields
    assert result.is_merge_on_read and result.raw["some.unknown.key"] == "kept"


@pytest.mark.parametrize(
    ("version", "layout", "expected"),
    [(6, "", 1), (6, "1", 1), (7, "", 1), (8, "", 2), (9, "2", 2), (9, "1", 1)],
)
def test_layout_is_the_stored_one_else_by_version(version: int, layout: str, expected: int) -> None:
    text = f"hoodie.table.name=t\nhoodie.table.version={version}\nhoodie.archivelog.folder=history\n"
    text += f"hoodie.timeline.layout.version={layout}\n" if layout else ""
    result = parse_table_properties(text.encode(), "/base")
    assert result.layout == expected
    folders = {1: (".hoodie", ".hoodie/history"), 2: (".hoodie/timeline", ".hoodie/timeline/history")}
    assert (result.timeline_folder, result.history_folder) == folders[expected]


@pytest.mark.parametrize("key", ["hoodie.table.ordering.fields", "hoodie.table.precombine.field"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_ordering_field_by_either_key(key: str, version: int) -> None:
    text = f"hoodie.table.name=t\nhoodie.table.version={version}\n{key}=ts\n"
    assert parse_table_properties(text.encode(), "/base").ordering_fields == ("ts",)


@pytest.mark.parametrize("version", ["0", "5"])
def test_other_table_version_is_refused_by_number(version: str) -> None:
    text = f"hoodie.table.name=t\nhoodie.table.version={version}\n"
    with pytest.raises(UnsupportedFeature, match=rf"table version {version}: table /base, .*versions 6 to 9"):
        parse_table_properties(text.encode(), "/base")


def test_missing_version_is_version_zero() -> None:
    with pytest.raises(UnsupportedFeature, match="table version 0"):
        parse_table_properties(b"hoodie.table.name=t\n", "/base")


@pytest.mark.parametrize(
    ("line", "error", "match"),
    [
        ("hoodie.table.version=10", UnsupportedFeature, r"table version 10 \(native log files.*versions 6 to 9"),
        ("hoodie.table.version=11", TableError, "table version 11: .*versions 6 to 9"),
        ("hoodie.timeline.layout.version=0", TableError, "timeline layout 0"),
        ("hoodie.timeline.layout.version=3", TableError, "timeline layout 3"),
        ("hoodie.table.type=OTHER", TableError, "table type 'OTHER'"),
        ("hoodie.table.version=nine", CorruptFile, "hoodie.table.version is 'nine', expected a whole number"),
        ("hoodie.table.checksum=1", CorruptFile, f"checksum is '1', expected {CHECKSUM}"),
        ("hoodie.timeline.path=../../etc", CorruptFile, "refused"),
        ("hoodie.timeline.history.path=/etc", CorruptFile, "refused"),
        ("hoodie.table.name=", CorruptFile, "no hoodie.table.name"),
        ("x=\\u12", CorruptFile, "malformed"),
    ],
)
def test_unusable_properties_are_named(line: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        parse_table_properties((TEXT + line + "\n").encode(), "/base")
    assert type(caught.value) is error


def test_checksum_is_of_the_name_as_utf_8() -> None:
    checksum = zlib.crc32(".tåble".encode())
    text = f"hoodie.table.name=t\\u00e5ble\nhoodie.table.version=6\nhoodie.table.checksum={checksum}\n"
    assert parse_table_properties(text.encode(), "/base").name == "tåble"


@pytest.mark.parametrize("damaged", [None, "", "hoodie.table.na", TEXT.replace(str(CHECKSUM), "7"), "x=\\u1"])
def test_damaged_or_missing_file_is_replaced_by_its_backup(tmp_path: pathlib.Path, damaged: str | None) -> None:
    _write(tmp_path, BACKUP_FILE, TEXT)
    if damaged is not None:
        _write(tmp_path, PROPERTIES_FILE, damaged)
    assert load_properties(open_storage(str(tmp_path))).name == "trips"


def test_both_damaged_names_both(tmp_path: pathlib.Path) -> None:
    _write(tmp_path, PROPERTIES_FILE, "hoodie.table.na")
    _write(tmp_path, BACKUP_FILE, TEXT.replace(str(CHECKSUM), "7"))
    with pytest.raises(CorruptFile, match=r"hoodie\.properties of table .*hoodie\.properties\.backup of table"):
        load_properties(open_storage(str(tmp_path)))


def test_refused_version_is_not_hidden_by_an_older_backup(tmp_path: pathlib.Path) -> None:
    _write(tmp_path, PROPERTIES_FILE, TEXT.replace("version=9", "version=10"))
    _write(tmp_path, BACKUP_FILE, TEXT)
    with pytest.raises(UnsupportedFeature, match="table version 10"):
        load_properties(open_storage(str(tmp_path)))


def test_no_table_says_what_is_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound, match="the folder does not exist"):
        load_properties(open_storage(str(tmp_path / "none")))
    with pytest.raises(TableNotFound, match="exists but is not a Hudi table"):
        load_properties(open_storage(str(tmp_path)))
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(TableNotFound, match=r"neither .*properties nor its backup"):
        load_properties(open_storage(str(tmp_path)))
    (tmp_path / "file").write_text("x")
    with pytest.raises(TableNotFound, match="a file is there"):
        load_properties(open_storage(str(tmp_path / "file")))


def test_every_truncation_gives_an_error_of_ours_or_properties() -> None:
    data = TEXT.encode()
    whole = parse_table_properties(data, "/base")
    for end in range(len(data)):
        try:
            result = parse_table_properties(data[:end], "/base")
        except (CorruptFile, TableError):
            continue
        assert result.name == whole.name and dataclasses.is_dataclass(result)
