"""Options of a new table: those that do not fit are refused, with a text that names the table and the way out."""

from __future__ import annotations

import datetime
import decimal
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.errors import ConfigurationError, SchemaMismatch, UnsupportedFeature
from penstock.table.config.properties import load_properties
from penstock.table.storage.local_writes import LocalStorage

SCHEMA = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("city", pa.string()), ("day", pa.date32())])
TIMES = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy-MM"}
TEXT_TIMES = {
    "timestamp.type": "DATE_STRING",
    "input.dateformat": "yyyy-MM-dd",
    "output.dateformat": "yyyy-MM",
    "timezone": "UTC",
}
TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal": pa.decimal128(10, 2),
    "timestamp": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "bytes": pa.binary(),
    "list": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.string()),
    "struct": pa.struct([("x", pa.string()), ("inner", pa.struct([("y", pa.int32())]))]),
}
OF_EACH_TYPE = pa.schema(list(TYPES.items()))
VALUES: dict[str, Any] = {
    "id": "a",
    "text": "2024-01-05",
    "int": 1,
    "long": 2,
    "bool": True,
    "float": 0.5,
    "double": 1e10,
    "date": datetime.date(2020, 1, 5),
    "decimal": decimal.Decimal("1.50"),
    "struct": {"x": "b", "inner": {"y": 7}},
}


def create(path: pathlib.Path, **settings: Any) -> dict[str, str]:
    """The properties of a new table."""
    given = {"schema": SCHEMA, "record_key": "id", "buckets": 2, **settings}
    create_table(str(path), **given)
    return dict(load_properties(LocalStorage(str(path))).raw)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (
            {"record_key": "uid"},
            SchemaMismatch,
            r"record_key names column 'uid', and the schema has id, seq, city, day",
        ),
        ({"partition_by": "town"}, SchemaMismatch, "partition_by names column 'town'"),
        ({"ordering": ["seq", "ts"]}, SchemaMismatch, "ordering names column 'ts'"),
        ({"ordering": "day"}, SchemaMismatch, "'day' is a date: .*order by a timestamp or a number"),
        (
            {"schema": SCHEMA.append(pa.field("_hoodie_operation", pa.string()))},
            SchemaMismatch,
            "'_hoodie_operation' is one of Hudi's own: leave it out",
        ),
        ({"buckets": None}, ConfigurationError, "buckets=None, expected index='bucket' with the number of buckets"),
        ({"buckets": 0}, ConfigurationError, "buckets=0, expected"),
        (
            {"index": "simple"},
            ConfigurationError,
            r"index='simple' and buckets=2, expected .* simple, bloom, .* without",
        ),
        ({"index": "hbase"}, UnsupportedFeature, "index 'hbase' cannot be written: its keys are in HBase, outside of"),
        ({"index": "hash"}, ConfigurationError, "index='hash'"),
        (
            {"partition_by": ["city", "seq"], "table_version": 6},
            UnsupportedFeature,
            "one key column 'id', in a table of version 6: .* have two key columns, one partition column or none, or",
        ),
        *(
            (
                {"schema": OF_EACH_TYPE, "record_key": name},
                UnsupportedFeature,
                f"key column '{name}' is .*rows would repeat",
            )
            for name in ("timestamp", "local", "bytes")
        ),
        *(
            ({"schema": OF_EACH_TYPE, "record_key": name}, SchemaMismatch, f"key column '{name}' is .*of a plain type")
            for name in ("list", "struct", "struct.inner", "map")
        ),
        (
            {"schema": OF_EACH_TYPE, "record_key": "struct.none"},
            SchemaMismatch,
            r"record_key names column 'struct\.none', and",
        ),
        (
            {"schema": OF_EACH_TYPE, "partition_by": "struct.x"},
            SchemaMismatch,
            r"partition_by names column 'struct\.x'",
        ),
        *(
            (
                {"schema": OF_EACH_TYPE, "partition_by": name},
                UnsupportedFeature,
                f"partition column '{name}' is .*disagree",
            )
            for name in ("timestamp", "local", "bytes", "float", "double", "list", "struct", "map")
        ),
        *(
            (
                {"schema": OF_EACH_TYPE, "partition_by": name, "key_generator": "TIMESTAMP", "time_partitions": TIMES},
                SchemaMismatch,
                f"partition column '{name}' is .*: expected whole numbers or timestamps",
            )
            for name in ("text", "date", "decimal", "double", "bool")
        ),
        (
            {
                "schema": OF_EACH_TYPE,
                "partition_by": ["text:SIMPLE", "int:TIMESTAMP"],
                "key_generator": "CUSTOM",
                "time_partitions": TEXT_TIMES,
            },
            SchemaMismatch,
            "partition column 'int' is int32: expected text, as its time partitions say",
        ),
        (
            {"partition_by": "city", "time_partitions": TIMES},
            ConfigurationError,
            "got time_partitions, and no partition column is a TIMESTAMP",
        ),
        (
            {"partition_by": "seq:TIMESTAMP", "key_generator": "custom", "table_version": 6},
            ConfigurationError,
            "key generator CUSTOM needs version 9",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_settings_that_do_not_fit_are_refused(
    tmp_path: pathlib.Path, settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    path = tmp_path / "t"
    with pytest.raises(error, match=f"(?s)^table {path}.*{words}"):
        create(path, **settings)
    assert not path.exists(), "nothing is created"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"table_type": "MERGE_ON_READ"}, "got 'MERGE_ON_READ', expected merge_on_read or copy_on_write"),
        ({"table_version": 8}, "creates tables of version 6"),
        ({"table_version": 6, "ordering": ["seq", "id"]}, "a table of version 6 has one; got 2; use version 9"),
        ({"record_key": ()}, "record key: got no columns"),
        ({"name": "a/b"}, "table name 'a/b'"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_settings_of_no_table_are_refused(tmp_path: pathlib.Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        create(tmp_path / "t", **settings)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("leftover", ["hoodie.properties", "hoodie.properties.backup"])
def test_folder_with_table_is_refused(tmp_path: pathlib.Path, leftover: str) -> None:
    file = tmp_path / "t/.hoodie" / leftover
    file.parent.mkdir(parents=True)
    file.write_text("x")
    with pytest.raises(
        ConfigurationError, match=f"table {tmp_path / 't'} exists; write into it, or give another folder"
    ):
        create(tmp_path / "t")
    assert [path.name for path in file.parent.iterdir()] == [leftover] and file.read_text() == "x"


def test_table_of_another_process_is_left(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process creates the table after this one looked."""
    make_folder = LocalStorage.make_folder

    def raced(storage: LocalStorage, path: str) -> None:
        make_folder(storage, path)
        (tmp_path / "t/.hoodie/hoodie.properties").write_text("other")

    monkeypatch.setattr(LocalStorage, "make_folder", raced)
    with pytest.raises(ConfigurationError, match="was created by another process at the same time"):
        create(tmp_path / "t")
    assert (tmp_path / "t/.hoodie/hoodie.properties").read_text() == "other"


@pytest.mark.parametrize(
    ("keys", "partitions", "generator"),
    [("id", (), "NON_PARTITION"), ("id", "city", "SIMPLE"), (["id", "seq"], "city", "COMPLEX")],
)
def test_key_generator_follows_from_columns(
    tmp_path: pathlib.Path, keys: str | list[str], partitions: str | tuple[str, ...], generator: str
) -> None:
    raw = create(tmp_path / "lake", record_key=keys, partition_by=partitions)
    assert raw["hoodie.table.keygenerator.type"] == generator
    assert raw["hoodie.table.name"] == "lake"


@pytest.mark.parametrize(("version", "history"), [(9, "timeline/history"), (6, "archived")])
def test_index_is_stored_and_folders_are_those_of_layout(tmp_path: pathlib.Path, version: int, history: str) -> None:
    bucket = create(tmp_path / "b", table_version=version)
    assert (bucket["hoodie.index.type"], bucket["hoodie.bucket.index.num.buckets"]) == ("BUCKET", "2")
    assert (tmp_path / "b/.hoodie" / history).is_dir()
    simple = create(tmp_path / "s", index="simple", buckets=None, table_version=version)
    assert simple["hoodie.index.type"] == "SIMPLE" and "hoodie.bucket.index.num.buckets" not in simple
    bloom = create(tmp_path / "g", index="global_bloom", buckets=None, table_version=version)
    assert bloom["hoodie.index.type"] == "GLOBAL_BLOOM" and "hoodie.bucket.index.num.buckets" not in bloom


def test_time_partitions_are_recorded_once_with_prefix(tmp_path: pathlib.Path) -> None:
    given = {"timestamp.type": "UNIX_TIMESTAMP", "hoodie.keygen.timebased.output.dateformat": "yyyy-MM"}
    raw = create(tmp_path / "t", partition_by="seq", key_generator="timestamp", time_partitions=given)
    recorded = {name: value for name, value in raw.items() if "timebased" in name}
    assert recorded == {f"hoodie.keygen.timebased.{name}": value for name, value in TIMES.items()}


@pytest.mark.parametrize(
    "settings",
    [
        *({"record_key": name} for name in ("text", "int", "long", "bool", "float", "double", "date", "decimal")),
        *({"record_key": name} for name in ("struct.x", ["struct.inner.y", "id"])),
        *({"partition_by": name} for name in ("text", "int", "long", "bool", "date", "decimal")),
        {"partition_by": "long", "key_generator": "TIMESTAMP", "time_partitions": TIMES},
        {"partition_by": "timestamp", "key_generator": "TIMESTAMP", "time_partitions": TIMES},
        {"partition_by": "text:TIMESTAMP", "key_generator": "CUSTOM", "time_partitions": TEXT_TIMES},
        {"partition_by": ["text", "int"]},
        {"partition_by": "text", "table_version": 6},
    ],
    ids=str,
)
@pytest.mark.sampled(4)
def test_table_that_is_created_can_be_written(tmp_path: pathlib.Path, settings: dict[str, Any]) -> None:
    create(tmp_path / "t", schema=OF_EACH_TYPE, **settings)
    row = pa.Table.from_pylist([VALUES], OF_EACH_TYPE)
    write(str(tmp_path / "t"), row)
    write(str(tmp_path / "t"), row)
    assert penstock.read(str(tmp_path / "t")).read_all().num_rows == 1


def test_changes_that_writers_keep_are_properties(tmp_path: pathlib.Path) -> None:
    plain = create(tmp_path / "plain")
    assert plain["hoodie.table.cdc.enabled"] == "false" and "hoodie.allow.operation.metadata.field" not in plain
    logged = create(tmp_path / "logged", change_logging="data_before")
    assert logged["hoodie.table.cdc.enabled"] == "true"
    assert logged["hoodie.table.cdc.supplemental.logging.mode"] == "DATA_BEFORE"
    changelog = create(tmp_path / "changelog", store_operations=True)
    assert changelog["hoodie.allow.operation.metadata.field"] == "true"
    assert changelog["hoodie.write.ignore.failed"] == "false", "Spark's writer would lose rows"
    with pytest.raises(ConfigurationError, match="change_logging: got 'all', expected one of op_key_only, "):
        create(tmp_path / "unknown", change_logging="all")
    assert not (tmp_path / "unknown").exists()
