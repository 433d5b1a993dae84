"""Which columns make the keys of a table without meta columns."""

from __future__ import annotations

import pytest

from penstock.proto.errors import TableError
from penstock.table.config.properties import TableProperties, parse_table_properties
from penstock.table.config.record_keys import keys_may_be_named, virtual_key_fields


def properties(keys: str, keygen: str, *, meta: str = "false") -> TableProperties:
    text = (
        f"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.recordkey.fields={keys}\n"
        f"hoodie.table.keygenerator.{keygen}\nhoodie.populate.meta.fields={meta}\n"
    )
    return parse_table_properties(text.encode(), "/lake/t")


@pytest.mark.parametrize(
    ("keys", "keygen", "fields"),
    [
        ("id", "type=SIMPLE", ("id",)),
        ("id", "class=org.apache.hudi.keygen.SimpleKeyGenerator", ("id",)),
        ("id", "type=NON_PARTITION", ("id",)),
        ("id,k2", "class=org.apache.hudi.keygen.NonpartitionedKeyGenerator", ("id", "k2")),
        ("id,k2", "type=COMPLEX_AVRO", ("id", "k2")),
        ("id", "type=COMPLEX", ("id",)),
        ("a.b", "type=SIMPLE", ("a.b",)),
    ],
)
def test_key_columns_by_key_generator(keys: str, keygen: str, fields: tuple[str, ...]) -> None:
    assert virtual_key_fields(properties(keys, keygen)) == fields


@pytest.mark.parametrize(
    ("keys", "keygen", "named"), [("id", "COMPLEX", True), ("id,k2", "COMPLEX", False), ("id", "SIMPLE", False)]
)
def test_complex_keys_of_one_column_may_be_named(keys: str, keygen: str, named: bool) -> None:
    assert keys_may_be_named(properties(keys, f"type={keygen}")) is named


def test_stored_keys_count_where_they_are() -> None:
    assert virtual_key_fields(properties("id", "type=TIMESTAMP", meta="true")) == ()


@pytest.mark.parametrize(
    ("keys", "keygen", "says"),
    [
        ("", "type=SIMPLE", "for 0 columns"),
        ("id", "type=TIMESTAMP", "key generator TIMESTAMP"),
        ("id", "class=com.example.Mine", "key generator MINE"),
        ("a,b", "type=SIMPLE", "key generator SIMPLE for 2 columns"),
    ],
)
def test_keys_that_hudi_does_not_allow_are_refused(keys: str, keygen: str, says: str) -> None:
    with pytest.raises(TableError, match=rf"virtual keys .*table /lake/t.*{says}"):
        virtual_key_fields(properties(keys, keygen))
