"""Which columns make the keys of a table without meta columns."""

from __future__ import annotations

import pytest

from penstock.proto.errors import UnsupportedFeature
from penstock.table.properties import TableProperties, parse_table_properties
from penstock.table.record_keys import virtual_key_fields


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
    ],
)
def test_key_columns_by_key_generator(keys: str, keygen: str, fields: tuple[str, ...]) -> None:
    assert virtual_key_fields(properties(keys, keygen)) == fields


def test_stored_keys_count_where_they_are() -> None:
    assert virtual_key_fields(properties("id", "type=TIMESTAMP", meta="true")) == ()


@pytest.mark.parametrize(
    ("keys", "keygen", "says"),
    [
        ("", "type=SIMPLE", r"key columns \(none\)"),
        ("a.b", "type=SIMPLE", r"key columns a\.b"),
        ("id", "type=TIMESTAMP", "key generator TIMESTAMP"),
        ("id", "class=com.example.Mine", "key generator MINE"),
        ("a,b", "type=SIMPLE", "key generator SIMPLE for 2 columns"),
        ("id", "type=COMPLEX", "the one column 'id'"),
    ],
)
def test_what_has_no_one_form_is_refused(keys: str, keygen: str, says: str) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"virtual keys .*table /lake/t.*{says}"):
        virtual_key_fields(properties(keys, keygen))
