"""The keys that a filter requires: by the stored key, and by a column whose text is the key."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.enumerator.planning.pruning.required_keys import required_keys
from penstock.table.config.properties import parse_table_properties
from penstock.table.predicate.parse import parse_predicate

SCHEMA = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("id", pa.string()),
        ("n", pa.int64()),
        ("day", pa.date32()),
        ("p", pa.int32()),
    ]
)
TEXT = (
    "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\nhoodie.timeline.layout.version=1\n"
)


def keys(where: str, fields: tuple[str, ...] = ("id",), keygen: str = "SIMPLE") -> frozenset[str] | None:
    properties = replace(
        parse_table_properties(TEXT.encode(), "/t"), record_key_fields=fields, keygen_type=keygen, keygen_class=""
    )
    return required_keys(parse_predicate(where, SCHEMA), properties, ("p",))


@pytest.mark.parametrize("keygen", ["SIMPLE", "NON_PARTITION", "TIMESTAMP", "COMPLEX", "CUSTOM", "SPARK_SQL", ""])
def test_the_stored_key_names_keys_of_every_generator(keygen: str) -> None:
    assert keys("_hoodie_record_key IN ('a', 'id:b')", ("id", "n"), keygen) == {"a", "id:b"}


@pytest.mark.parametrize(
    ("where", "fields", "keygen", "expected"),
    [
        ("id = 'a'", ("id",), "SIMPLE", {"a"}),
        ("id = 'a'", ("id",), "TIMESTAMP", {"a"}),
        ("n = -5", ("n",), "NON_PARTITION", {"-5"}),
        ("n = 5 AND _hoodie_record_key IN ('5', '6')", ("n",), "SIMPLE", {"5"}),
        ("n = 5 OR _hoodie_record_key = '6'", ("n",), "SIMPLE", None),
        ("id = 'a'", ("id",), "COMPLEX", None),
        ("id = 'a'", ("id",), "CUSTOM", None),
        ("id = 'a'", ("id", "n"), "SIMPLE", None),
        ("id = 'a'", (), "SIMPLE", None),
        ("id = 'a'", ("ID",), "SIMPLE", None),
        ("id IN ('a', '')", ("id",), "SIMPLE", None),
        ("day = DATE '2026-01-01'", ("day",), "SIMPLE", None),
        ("p = 5", ("p",), "SIMPLE", None),
        ("n = 5", ("id",), "SIMPLE", None),
    ],
)
def test_a_key_column_counts_only_if_its_text_is_the_key(
    where: str, fields: tuple[str, ...], keygen: str, expected: set[str] | None
) -> None:
    assert keys(where, fields, keygen) == expected
