"""Types of a table beside those of its topic: what the copy has, and how rows of the table become it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.topics.connect_types import ConnectType, fields_of
from penstock.engine.sync.topics.lake_columns import check_one_form, copied_rows, joined_fields
from penstock.engine.sync.topics.values import columns_of, schema_text
from penstock.proto.errors import SchemaMismatch, UndecodableRecord

DEBEZIUM, CONNECT = "io.debezium.time", "org.apache.kafka.connect.data"
WHOLE, BIG, TEXT = (ConnectType(kind=kind) for kind in ("int32", "int64", "string"))
DOUBLE, SINGLE = ConnectType(kind="double"), ConnectType(kind="float")
MICROS = ConnectType(kind="int64", name=f"{DEBEZIUM}.MicroTimestamp")
DAY = ConnectType(kind="int32", name=f"{DEBEZIUM}.Date")
ZONED = ConnectType(kind="string", name=f"{DEBEZIUM}.ZonedTimestamp")
UTC = dt.UTC
AT = dt.datetime(2020, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 - Debezium's timestamps have no zone


def money(precision: int, scale: int) -> ConnectType:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return ConnectType(kind="bytes", name=f"{CONNECT}.Decimal", parameters=parameters)


def joined(lake: pa.DataType, event: ConnectType, key: tuple[str, ...] = ()) -> Any:
    fields = fields_of({"id": BIG, "c": event}, "t")
    return joined_fields("t", pa.schema([("id", pa.int64()), ("c", lake)]), "t", fields, key, ())


def copied(lake: pa.DataType, value: Any, event: ConnectType) -> tuple[pa.DataType, Any]:
    fields = joined(lake, event)
    own = {"_change_type": ["+I"], "_change_seq": ["0"], "_hoodie_commit_time": ["1"]}
    arrays = {name: pa.array(values) for name, values in own.items()}
    arrays |= {"c": pa.array([value, None], lake)[:1], "id": pa.array([1], pa.int64())}
    batch = copied_rows(pa.RecordBatch.from_pydict(arrays), fields, "t")
    assert batch.schema.names == ["_change_type", "_change_seq", "id", "c"]
    assert columns_of(schema_text(fields), "t").field("c").type == batch.schema.field("c").type
    return batch.schema.field("c").type, batch["c"][0].as_py()


@pytest.mark.parametrize(
    ("lake", "value", "event", "type_", "expected"),
    [
        (pa.int32(), 7, WHOLE, pa.int32(), 7),
        (pa.int64(), 1 << 40, WHOLE, pa.int64(), 1 << 40),
        (pa.int32(), 7, BIG, pa.int64(), 7),
        (pa.float64(), 0.5, WHOLE, pa.float64(), 0.5),
        (pa.int64(), 7, DOUBLE, pa.float64(), 7.0),
        (pa.decimal128(5, 2), Decimal("1.25"), money(12, 4), pa.decimal128(12, 4), Decimal("1.2500")),
        (pa.decimal128(12, 4), Decimal("1.2500"), money(5, 2), pa.decimal128(12, 4), Decimal("1.2500")),
        (pa.binary(), b"\x7b", money(5, 2), pa.decimal128(5, 2), Decimal("1.23")),
        (pa.int64(), 1_577_934_245_000_006, MICROS, pa.timestamp("us"), AT),
        (pa.timestamp("us"), AT, MICROS, pa.timestamp("us"), AT),
        (pa.int32(), -1, DAY, pa.date32(), dt.date(1969, 12, 31)),
        (pa.date32(), dt.date(2020, 1, 1), DAY, pa.date32(), dt.date(2020, 1, 1)),
        (pa.string(), "2020-01-02T04:04:05.000006+01:00", ZONED, pa.timestamp("us", "UTC"), AT.replace(tzinfo=UTC)),
        (pa.string(), "x", TEXT, pa.string(), "x"),
    ],
    ids=str,
)
def test_types_that_fit(lake: pa.DataType, value: Any, event: ConnectType, type_: pa.DataType, expected: Any) -> None:
    assert copied(lake, value, event) == (type_, expected)


@pytest.mark.parametrize(
    ("lake", "event"),
    [
        (pa.string(), WHOLE),
        (pa.int32(), TEXT),
        (pa.date32(), TEXT),
        (pa.string(), DAY),
        (pa.float64(), SINGLE),
        (pa.float32(), DOUBLE),
        (pa.timestamp("us", "UTC"), MICROS),
        (pa.int64(), DAY),
        (pa.bool_(), WHOLE),
        (pa.decimal128(5, 2), money(5, 4)),
        (pa.decimal128(5, 2), DOUBLE),
    ],
    ids=str,
)
def test_types_that_could_change_a_value_are_refused(lake: pa.DataType, event: ConnectType) -> None:
    """Text of a table may have another form than a cast; Hudi converts floats by their text."""
    with pytest.raises(SchemaMismatch, match=r"column c is .* in table t and .* in the events of topic t"):
        joined(lake, event)


def test_keys_do_not_become_floats() -> None:
    assert joined(pa.int64(), DOUBLE)
    for lake, event in ((pa.int64(), DOUBLE), (pa.float64(), WHOLE)):
        with pytest.raises(SchemaMismatch):
            joined(lake, event, ("c",))


def test_value_that_is_none_of_its_type_is_refused() -> None:
    with pytest.raises(UndecodableRecord, match=r"t: column c: .*expected timestamp"):
        copied(pa.string(), "yesterday", ZONED)


def test_columns_of_hudi_are_not_compared() -> None:
    added = ["_hoodie_commit_time", "_hoodie_operation", "_hoodie_is_deleted", "_event_lsn", "_event_seq"]
    lake = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in added)])
    assert [one["name"] for one in joined_fields("t", lake, "t", fields_of({"id": BIG}, "t"), (), ())] == ["id"]


MILLIS = ConnectType(kind="int64", name=f"{DEBEZIUM}.Timestamp")


def check(lake: pa.DataType | None, *seen: ConnectType) -> None:
    fields = [fields_of({"c": one}, "t") for one in seen]
    columns = pa.schema([] if lake is None else [("c", lake)])
    check_one_form("t", columns, "t", fields[0], [one for part in fields for one in part])


@pytest.mark.parametrize(
    ("lake", "one", "other", "texts"),
    [
        (pa.int64(), MILLIS, MICROS, "local-timestamp-millis and local-timestamp-micros"),
        (None, MILLIS, MICROS, "local-timestamp-millis and local-timestamp-micros"),
        (pa.binary(), money(12, 4), money(5, 2), r"decimal\(12, 4\) and decimal\(5, 2\)"),
        (
            pa.string(),
            ZONED,
            ConnectType(kind="int64", name=f"{CONNECT}.Timestamp"),
            "ZonedTimestamp and timestamp-millis",
        ),
        (pa.string(), TEXT, DAY, "string and date"),
    ],
    ids=str,
)
def test_column_as_sent_has_one_unit_and_scale(lake: Any, one: ConnectType, other: ConnectType, texts: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"column c of the events of topic t was .*{texts}, and table t has it as"):
        check(lake, one, other)
    check(lake, one, one)


@pytest.mark.parametrize(
    ("lake", "seen"),
    [
        (pa.timestamp("us"), (MILLIS, MICROS)),
        (pa.decimal128(12, 4), (money(12, 4), money(5, 2))),
        (pa.binary(), (money(12, 2), money(5, 2))),
        (pa.int64(), (BIG, WHOLE)),
        (None, (BIG, WHOLE)),
    ],
    ids=str,
)
def test_other_columns_may_have_had_several_types(lake: Any, seen: tuple[ConnectType, ...]) -> None:
    """The table has the meaning in its own type, or it did not change."""
    check(lake, *seen)
