"""Partition columns out of paths: segments, escapes, the null partition, which columns take the path's value."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.config.properties import TableProperties, load_properties, parse_table_properties
from penstock.table.partitions.values import (
    DEFAULT_PARTITION,
    partition_values,
    path_value_fields,
    text_fields,
    unescape,
)
from penstock.table.storage.filesystem import open_storage

_HIVE_ESCAPED = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(1, 0x20)))


def _escape(value: str) -> str:
    """Hive's escapePathName, as Hudi's writers use it with URL encoding."""
    return "".join(f"%{ord(char):02X}" if char in _HIVE_ESCAPED else char for char in value)


@pytest.mark.parametrize(
    ("partition", "fields", "expected"),
    [
        ("p=a", ("p",), ("a",)),
        ("a", ("p",), ("a",)),
        ("P=a", ("p",), ("a",)),
        ("p=", ("p",), ("",)),
        ("x=a", ("p",), ("x=a",)),
        ("p=a=b", ("p",), ("a=b",)),
        ("p=a%2Fb", ("p",), ("a/b",)),
        ("p=50%25", ("p",), ("50%",)),
        ("p=100%", ("p",), ("100%",)),
        ("p=%zz%2", ("p",), ("%zz%2",)),
        ("2018/08/31", ("p",), ("2018/08/31",)),
        ("p=2018/08/31", ("p",), ("2018/08/31",)),
        (f"p={DEFAULT_PARTITION}", ("p",), (None,)),
        (DEFAULT_PARTITION, ("p",), (None,)),
        ("p=default", ("p",), ("default",)),
        ("p=1/d=2", ("p", "d"), ("1", "2")),
        (f"1/{DEFAULT_PARTITION}", ("p", "d"), ("1", None)),
        ("2018/10/07/5", ("dt", "hh"), None),
        ("p=1", ("p", "d"), None),
        ("d=2/p=1", ("p", "d"), None),
        ("", ("p",), None),
        ("", (), ()),
        ("p=a", (), ()),
    ],
)
def test_values(partition: str, fields: tuple[str, ...], expected: tuple[str | None, ...] | None) -> None:
    assert partition_values(partition, fields) == expected


VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.lists(st.none() | VALUES, min_size=1, max_size=3), st.booleans())
def test_escaped_values_round_trip(values: list[str | None], hive_style: bool) -> None:
    fields = tuple(f"f{index}" for index in range(len(values)))
    segments = [DEFAULT_PARTITION if value is None else _escape(value) for value in values]
    if hive_style:
        segments = [f"{name}={segment}" for name, segment in zip(fields, segments, strict=True)]
    assert partition_values("/".join(segments), fields) == tuple(values)


@given(st.text(max_size=20))
def test_unescape_takes_any_text(text: str) -> None:
    assert unescape(_escape(text)) == text
    assert isinstance(unescape(text), str)


def _table(**settings: str) -> TableProperties:
    lines = ["hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.partition.fields=p,d"]
    lines += [f"hoodie.{key.replace('__', '.')}={value}" for key, value in settings.items()]
    return parse_table_properties("\n".join(lines).encode(), "/base")


@pytest.mark.parametrize(
    ("keygen", "from_path"),
    [
        ({}, True),
        ({"table__keygenerator__type": "SIMPLE"}, True),
        ({"table__keygenerator__type": "COMPLEX_AVRO"}, True),
        ({"table__keygenerator__class": "org.apache.hudi.keygen.ComplexKeyGenerator"}, True),
        ({"table__keygenerator__class": "org.apache.spark.sql.hudi.command.SqlKeyGenerator"}, True),
        ({"table__keygenerator__type": "TIMESTAMP"}, False),
        ({"table__keygenerator__type": "CUSTOM_AVRO"}, False),
        ({"table__keygenerator__class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}, False),
        ({"table__keygenerator__class": "org.apache.hudi.keygen.CustomKeyGenerator"}, False),
        ({"table__keygenerator__class": "com.example.MyKeyGenerator"}, False),
        (
            {
                "table__keygenerator__class": "org.apache.hudi.keygen.CustomKeyGenerator",
                "table__keygenerator__type": "SIMPLE",
            },
            False,
        ),
        ({"datasource__write__slash__separated__date__partitioning": "true"}, False),
    ],
)
def test_key_generator_decides_where_values_come_from(keygen: dict[str, str], from_path: bool) -> None:
    assert path_value_fields(_table(**keygen)) == (("p", "d") if from_path else ())


BOOTSTRAPPED = {"bootstrap__base__path": "/source"}


@pytest.mark.parametrize(
    ("keygen", "fields", "from_path", "texts"),
    [
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", "p,d", ("p", "d"), ("p", "d")),
        ("org.apache.hudi.keygen.CustomKeyGenerator", "p:SIMPLE,d:TIMESTAMP", ("p", "d"), ("d",)),
        ("org.apache.hudi.keygen.CustomAvroKeyGenerator", "p:timestamp, d:simple", ("p", "d"), ("p",)),
        ("org.apache.hudi.keygen.CustomKeyGenerator", "", (), ()),
        ("org.apache.hudi.keygen.CustomKeyGenerator", "p,d", ("p", "d"), ()),
        ("org.apache.hudi.keygen.SimpleKeyGenerator", "p,d", ("p", "d"), ()),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", "s.p", ("s.p",), ()),
        ("com.example.MyKeyGenerator", "p,d", ("p", "d"), ()),
        ("com.example.MyKeyGenerator", "s.p", ("s.p",), ()),
    ],
)
def test_bootstrapped_tables_have_formatted_dates_as_texts_of_the_path(
    keygen: str, fields: str, from_path: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    stated = {"table__keygenerator__class": keygen, "table__partition__fields": fields}
    bootstrapped = _table(**stated, **BOOTSTRAPPED)
    assert path_value_fields(bootstrapped) == from_path
    assert text_fields(bootstrapped) == texts
    assert text_fields(_table(**stated)) == ()
    dropped = _table(**stated, datasource__write__drop__partition__columns="true")
    assert text_fields(dropped) == dropped.partition_fields
    slashes = {"datasource__write__slash__separated__date__partitioning": "true"}
    assert text_fields(_table(**stated, **BOOTSTRAPPED, **slashes)) == ()


def test_a_custom_key_generator_without_partition_columns_formats_none() -> None:
    text = b"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.keygenerator.type=CUSTOM\n"
    assert text_fields(parse_table_properties(text + b"hoodie.bootstrap.base.path=/source", "/base")) == ()


def test_one_partition_that_does_not_fit_sends_all_to_the_file() -> None:
    assert path_value_fields(_table(), ["a/b", "c/d"]) == ("p", "d")
    assert path_value_fields(_table(), ["a/b", "c/d/e"]) == ()


def _as_text(value: object) -> str | None:
    if isinstance(value, datetime.date | int):
        return str(value)
    assert value is None or isinstance(value, str)
    return value


@pytest.mark.golden
@pytest.mark.parametrize(
    "case",
    [
        "A_part_special_v6_h0150",
        "A_part_special_v9_h120",
        "A_key_composite_v6_h0150",
        "A_key_composite_v9_h120",
        "A_replace_ops_v9_h120",
        "A_merge_event_long_v8_h102",
        "B_v6_inc_mor",
        "C_v9_streamer_keys",
    ],
)
def test_values_of_real_paths_are_those_hudi_returned(golden: Any, case: str) -> None:
    query = next(q["id"] for q in golden.case(case)["queries"] if q["query"] == "snapshot" and not q.get("error"))
    rows = golden.expected(case, query)
    properties = load_properties(open_storage(str(golden.table(case))))
    fields = path_value_fields(properties, rows["_hoodie_partition_path"].to_pylist())
    assert fields == properties.partition_fields != ()
    for row in rows.select(["_hoodie_partition_path", *fields]).to_pylist():
        expected = tuple(_as_text(row[name]) for name in fields)
        assert partition_values(row["_hoodie_partition_path"], fields) == expected


@pytest.mark.parametrize("keygen", ["TIMESTAMP", "CUSTOM", "SIMPLE"])
def test_columns_that_files_leave_out_come_from_any_path(keygen: str) -> None:
    text = (
        f"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.partition.fields=p\n"
        f"hoodie.table.keygenerator.type={keygen}\nhoodie.datasource.write.drop.partition.columns=true\n"
        "hoodie.datasource.write.slash.separated.date.partitioning=true\n"
    )
    properties = parse_table_properties(text.encode(), "/lake/t")
    assert path_value_fields(properties, ["2020/01/02", "20200102"]) == ("p",)
    assert path_value_fields(properties, [""]) == ()
