"""Keys and columns of target tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.sync.layout import RECORD_KEY, key_of, layout_of, widens
from penstock.proto.errors import ConfigurationError
from tests.unit.engine.sync.scripted import COLUMNS, described

NESTED = COLUMNS.append(pa.field("s", pa.struct([("a", pa.int32())])))


def test_key_is_that_of_record_and_partition() -> None:
    assert key_of(described(), (), COLUMNS) == ("id", "p")
    assert key_of(described(partition_fields=()), (), COLUMNS) == ("id",)
    assert key_of(described(record_key_fields=("p", "id")), (), COLUMNS) == ("p", "id")


@pytest.mark.parametrize(
    "changes",
    [{"record_key_fields": ("s",)}, {"record_key_fields": ()}, {"partition_fields": ("s.a",)}],
    ids=["nested key", "no key", "nested partition"],
)
def test_key_without_columns_is_the_one_of_hudi(changes: dict[str, tuple[str, ...]]) -> None:
    key = key_of(described(**changes), (), NESTED)
    assert key == RECORD_KEY
    assert set(RECORD_KEY) < set(layout_of(NESTED, key).columns.names)


def test_given_key() -> None:
    assert key_of(described(), ("p", "v"), COLUMNS) == ("p", "v")
    assert key_of(described(), RECORD_KEY, COLUMNS) == RECORD_KEY
    assert key_of(described(partition_fields=()), ("v",), COLUMNS) == ("v",)
    with pytest.raises(ConfigurationError, match="key x: expected columns with single values"):
        key_of(described(), ("x",), COLUMNS)
    with pytest.raises(ConfigurationError, match="key s: expected"):
        key_of(described(), ("s",), NESTED)
    with pytest.raises(ConfigurationError, match="moves to another partition could be lost: add p"):
        key_of(described(), ("id",), COLUMNS)


def test_layout_has_no_columns_of_hudi() -> None:
    assert layout_of(COLUMNS, ("id",)).columns.names == ["id", "p", "v"]
    shards = layout_of(COLUMNS, ("id",), "shard")
    assert shards.columns.names == ["shard", "id", "p", "v"] and shards.key == ("shard", "id")
    with pytest.raises(ConfigurationError, match="source_column 'V': the table has a column of this name"):
        layout_of(COLUMNS, ("id",), "V")


def test_widening() -> None:
    assert widens(pa.int32(), pa.int64()) and widens(pa.int64(), pa.float64()) and widens(pa.date32(), pa.string())
    assert widens(pa.decimal128(10, 2), pa.decimal128(12, 2)) and widens(pa.decimal128(10, 2), pa.decimal128(12, 4))
    assert not widens(pa.decimal128(10, 2), pa.decimal128(12, 5)) and not widens(pa.int64(), pa.int32())
    assert not widens(pa.float32(), pa.float64()), "Hudi converts floats by their text"
