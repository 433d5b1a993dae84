"""Footers of ORC base files."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.table.orc import is_orc, orc_footer
from penstock.table.orc_tail import orc_tail, tail_with, varint
from penstock.table.wire_message import WireMessage

ROWS = pa.table({"id": ["a", "b", None], "at": pa.array([1, 2, 3], pa.timestamp("ns"))})


def test_footer_has_rows_and_columns(tmp_path: pathlib.Path) -> None:
    orc.write_table(ROWS, tmp_path / "f.orc")
    with pa.OSFile(str(tmp_path / "f.orc")) as source:
        footer = orc_footer(source, "base file f.orc of table t")
    assert (footer.rows, footer.schema, footer.avro_json) == (3, ROWS.schema, "")


def test_the_name_decides() -> None:
    assert is_orc("p=x/a_0-1-2_3.orc") and not is_orc("p=x/a_0-1-2_3.parquet")


MAP = pa.map_(pa.string(), pa.struct({"some-name": pa.int64()}))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"some-name": [1]}),
        pa.table({"s": [{"some-name": 1}]}),
        pa.table({"l": [[{"some-name": 1}]]}),
        pa.table({"m": pa.array([[("k", {"some-name": 1})]], MAP)}),
    ],
)
def test_name_that_is_not_utf_8_is_damage(table: pa.Table) -> None:
    """It was a UnicodeDecodeError wherever the name was used first."""
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    assert orc_footer(pa.BufferReader(data), "base file f.orc of table t").rows == 1
    assert data.count(b"some-name") == 1
    with pytest.raises(pa.ArrowInvalid, match="not UTF-8"):
        orc_footer(pa.BufferReader(data.replace(b"some-name", b"\xffome-name")), "base file f.orc of table t")


def with_types(*types: bytes, tag: bytes = b"\x22") -> bytes:
    """A file with these types, which no column of its stripes has. `tag`: of each of them."""
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"id": [1]}), sink)
    data = sink.getvalue().to_pybytes()
    tail = orc_tail(pa.BufferReader(data))
    message = WireMessage(tail.footer)
    fields = message.fields(0, len(tail.footer))
    begin = next(kind.start - 2 for key, kind in fields if key == 4 and isinstance(kind, range))
    footer = tail.footer[:begin] + b"".join(tag + varint(len(kind)) + kind for kind in types)
    return data[: tail.footer_at] + tail_with(footer, tail)


def of(kind: int, *contained: int) -> bytes:
    """A type of the footer, and the types that it contains."""
    packed = b"".join(map(varint, contained))
    names = b"".join(b"\x1a\x01a" for _ in contained) if kind == STRUCT else b""
    return bytes([8, kind]) + (b"\x12" + varint(len(packed)) + packed if packed else b"") + names


LONG, LIST, STRUCT = 4, 10, 12


@pytest.mark.parametrize(
    ("types", "readable"),
    [
        ([of(STRUCT, 1), of(LONG)], True),
        ([of(STRUCT, 1), *(of(LIST, place) for place in range(2, 128)), of(LONG)], True),
        ([of(STRUCT, 1), *(of(LIST, place) for place in range(2, 129)), of(LONG)], False),
        ([of(STRUCT, 1), *(of(LIST, place) for place in range(2, 20_000)), of(LONG)], False),
        ([*(of(STRUCT, place + 1, min(place + 2, 40)) for place in range(40)), of(LONG)], False),
        ([of(STRUCT, 1, 1), of(LONG)], False),
        ([of(STRUCT, 1), of(LIST, 1)], False),
        ([of(STRUCT, 1), of(LIST, 0)], False),
        ([of(STRUCT, 1), of(LIST, 7)], False),
        ([bytes([8, STRUCT, 0x10, 1, 0x10, 1, 0x1A, 1, 97, 0x1A, 1, 97]), of(LONG)], False),
    ],
    ids=["flat", "deepest", "too-deep", "deepest-by-far", "shared", "twice", "itself", "root", "outside", "unpacked"],
)
def test_types_are_a_tree_of_few_levels(types: list[bytes], readable: bool) -> None:
    """The library of ORC ended the process for the deep ones, or took exponential memory."""
    source = pa.BufferReader(with_types(*types))
    if readable:
        assert len(orc_footer(source, "base file f.orc of table t").schema) == 1
        return
    with pytest.raises(pa.ArrowInvalid, match=r"levels|no tree"):
        orc_footer(source, "base file f.orc of table t")


@pytest.mark.parametrize("tag", [b"\xa2\x80\x80\x80\x00", varint(0x22 + (1 << 32)), varint(0x22 + (1 << 35))])
def test_tag_of_more_than_32_bits_hides_no_type(tag: bytes) -> None:
    """The library of ORC reads the lowest 32 bits of a tag."""
    deep = [of(STRUCT, 1), *(of(LIST, place) for place in range(2, 200)), of(LONG)]
    with pytest.raises(pa.ArrowInvalid, match=r"levels|tag"):
        orc_footer(pa.BufferReader(with_types(*deep, tag=tag)), "base file f.orc of table t")
