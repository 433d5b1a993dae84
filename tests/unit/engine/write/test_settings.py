"""Settings of a write, and the refusal of tables whose files it could not keep."""

from __future__ import annotations

import datetime
import pathlib
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.engine.table_services.serviced_table import open_rewritten, open_serviced
from penstock.engine.write.settings import parse_metadata, timeline_zone, write_settings
from penstock.proto.errors import ConfigurationError, SchemaMismatch, UnsupportedFeature
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.avro_text import avro_schema_json
from tests.unit.engine.write.recorded_storage import SCHEMA, Lake


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path / "t", (9, "merge_on_read", "bucket"), monkeypatch)


def with_properties(lake: Lake, **values: str) -> HudiTable:
    """The table with other properties; `__` stands for a dot."""
    file = lake.path / ".hoodie/hoodie.properties"
    given = {name.replace("__", "."): value for name, value in values.items()}
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in given]
    file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in given.items()), ""]))
    return open_table(str(lake.path))


def test_settings_are_those_of_table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, lake: Lake) -> None:
    settings = write_settings(lake.table(), {})
    assert settings.mode == EventTimeOrdering(("seq",)) and settings.ordering_fields == ("seq",)
    assert settings.key_fields == ("id",) and not settings.key_is_named and settings.paths.fields == ("city",)
    ordering = settings.ordering(SCHEMA)
    assert (ordering.names, [str(kind) for kind in ordering.types]) == (("seq",), ["int64"])
    plain = Lake(tmp_path / "plain", (9, "copy_on_write", "simple"), monkeypatch, ordering=(), key_generator="COMPLEX")
    settings = write_settings(plain.table(), {})
    assert settings.mode == CommitTimeOrdering() and settings.ordering_fields == ()
    assert settings.key_is_named, "a complex key of one column is <column>:<value>"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("hoodie__table__version", "8", "version 8"),
        (
            "hoodie__table__metadata__partitions__inflight",
            "column_stats",
            "Hudi is building the partitions column_stats",
        ),
        ("hoodie__populate__meta__fields", "false", "hoodie.populate.meta.fields=false"),
        ("hoodie__datasource__write__drop__partition__columns", "true", "drop.partition.columns=true are not written"),
        ("hoodie__table__recordkey__fields", "", "has no record key"),
        ("hoodie__table__keygenerator__type", "HOODIE_TABLE_METADATA", "partitions of key generator"),
    ],
    ids=lambda value: value.replace("__", ".") if "__" in value else None,
)
def test_table_that_write_cannot_keep_is_refused(lake: Lake, name: str, value: str, words: str) -> None:
    table = with_properties(lake, **{name: value})
    with pytest.raises(UnsupportedFeature, match=words) as raised:
        write_settings(table, {})
    assert f"table {lake.path}" in str(raised.value)


def test_metadata_table_is_kept_or_removed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, lake: Lake) -> None:
    listed = {"hoodie__table__metadata__partitions": "files,column_stats"}
    write_settings(with_properties(lake, **listed), {})
    old = Lake(tmp_path / "old", (6, "merge_on_read", "bucket"), monkeypatch)
    table = with_properties(old, **listed)
    with pytest.raises(UnsupportedFeature, match=r"those of version 6 are not kept current.*metadata=.off"):
        write_settings(table, {})
    write_settings(table, {}, keeps_metadata=False)
    assert (parse_metadata("files"), parse_metadata("off")) == (True, False)
    with pytest.raises(ConfigurationError, match="got 'on', expected files or off"):
        parse_metadata("on")


@pytest.mark.parametrize(
    ("folder", "words"),
    [(".bucket_index", "consistent hashing or partition-level bucket index"), (".schema", "schema-on-read history")],
)
def test_folder_of_unknown_feature_is_refused(lake: Lake, folder: str, words: str) -> None:
    write_settings(lake.table(), {})  # an empty folder is none
    file = lake.path / ".hoodie" / folder / "x"
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    with pytest.raises(UnsupportedFeature, match=f"table {lake.path} has a {words}"):
        write_settings(lake.table(), {})


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (pa.timestamp("us", "UTC"), UnsupportedFeature, r"key column 'k' is timestamp.*rows would repeat"),
        (pa.binary(), UnsupportedFeature, "key column 'k' is binary"),
        (pa.list_(pa.string()), SchemaMismatch, "key column 'k' is list.*of a plain type"),
    ],
    ids=str,
)
def test_keys_whose_text_hudis_writers_disagree_on_are_refused(
    lake: Lake, kind: pa.DataType, error: type[Exception], words: str
) -> None:
    settings = write_settings(with_properties(lake, hoodie__table__recordkey__fields="k"), {})
    record = parse_record_schema(avro_schema_json(pa.schema([("k", kind)]), "t", meta_columns=False))
    with pytest.raises(error, match=words):
        settings.keys(record)


def test_version_6_does_not_record_the_form_of_one_complex_key(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, lake: Lake
) -> None:
    assert write_settings(with_properties(lake, hoodie__table__keygenerator__type="COMPLEX"), {}).key_is_named
    old = Lake(tmp_path / "old", (6, "merge_on_read", "bucket"), monkeypatch)
    complex_keys = {"hoodie__table__keygenerator__class": "org.apache.hudi.keygen.ComplexKeyGenerator"}
    with pytest.raises(UnsupportedFeature, match="in two forms, and the table does not record which"):
        write_settings(with_properties(old, **complex_keys), {})


def test_zone_of_utc_timeline_is_utc_only(lake: Lake) -> None:
    properties = lake.table().properties
    assert timeline_zone(properties, "") is timeline_zone(properties, "UTC") is datetime.UTC
    with pytest.raises(ConfigurationError, match=f"'Europe/Oslo', and table {lake.path} has .*in UTC; leave it out"):
        timeline_zone(properties, "Europe/Oslo")


def test_zone_of_local_timeline_must_be_given(lake: Lake) -> None:
    properties = replace(lake.table().properties, timezone="LOCAL")
    with pytest.raises(ConfigurationError, match=f"table {lake.path} .*=LOCAL: .* give timeline_timezone, such as UTC"):
        timeline_zone(properties, "")
    assert str(timeline_zone(properties, "Europe/Oslo")) == "Europe/Oslo"


def test_rows_ordered_by_a_field_of_a_struct_are_neither_written_nor_rewritten(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, lake: Lake
) -> None:
    table = with_properties(lake, hoodie__table__ordering__fields="s.seq")
    with pytest.raises(UnsupportedFeature, match=r"ordered by 's\.seq', a field of a struct"):
        write_settings(table, {})
    with pytest.raises(UnsupportedFeature, match=r"ordered by 's\.seq', a field of a struct"):
        open_rewritten(str(lake.path), "")
    open_serviced(str(lake.path), "")  # cleans, archivals and savepoints compare no rows
    plain = Lake(tmp_path / "plain", (9, "merge_on_read", "bucket"), monkeypatch, ordering=())
    table = with_properties(plain, hoodie__table__ordering__fields="s.seq")
    assert write_settings(table, {}).mode == CommitTimeOrdering(), "the field is not compared"
    open_rewritten(str(plain.path), "")
