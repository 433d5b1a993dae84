"""Log files of Hudi, parsed one block and one record at a time."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow.parquet as pq

COMMAND, DELETE, CORRUPT, AVRO_DATA, HFILE_DATA, PARQUET_DATA, CDC_DATA = range(7)
INSTANT_TIME, TARGET_INSTANT_TIME, SCHEMA, COMMAND_TYPE, COMPACTED, POSITIONS, _, PARTIAL, POSITIONS_BASE = range(9)

_WRAPPERS = [
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", "string"),
    ("DateWrapper", "int"),
    ("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    ("TimeMicrosWrapper", "long"),
    ("TimestampMicrosWrapper", "long"),
]
_SEVERAL = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [
        {
            "name": "wrappedValues",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": [
                        "null",
                        *(name for name, _ in _WRAPPERS),
                        {"type": "record", "name": "LocalDateWrapper", "fields": [{"name": "value", "type": "int"}]},
                    ],
                },
            ],
        }
    ],
}
DELETE_LIST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [
            {
                "name": "deleteRecordList",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieDeleteRecord",
                        "fields": [
                            {"name": "recordKey", "type": ["null", "string"]},
                            {"name": "partitionPath", "type": ["null", "string"]},
                            {
                                "name": "orderingVal",
                                "type": [
                                    "null",
                                    *(
                                        {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}
                                        for name, kind in _WRAPPERS
                                    ),
                                    _SEVERAL,
                                ],
                            },
                        ],
                    },
                },
            }
        ],
    }
)


class DamagedInside(Exception):
    """A block with a valid frame whose header or schema is invalid: Hudi fails on it."""


@dataclass(frozen=True)
class Block:
    """One block: type ordinal, headers by ordinal, content."""

    kind: int
    headers: dict[int, str]
    content: bytes

    def header(self, ordinal: int) -> str:
        """A header entry that Hudi requires."""
        if ordinal not in self.headers:
            raise DamagedInside
        return self.headers[ordinal]


def blocks(data: bytes) -> Iterator[Block]:
    """Every valid block of a file; bytes between them are skipped, as in Hudi."""
    at = 0
    while at < len(data):
        if not is_whole(data, at):
            next_magic = data.find(b"#HUDI#", at + 6 if data[at : at + 6] == b"#HUDI#" else at + 1)
            at = len(data) if next_magic < 0 else next_magic
            continue
        (size,) = struct.unpack_from(">q", data, at + 6)
        version, kind, entries = struct.unpack_from(">iii", data, at + 14)
        assert version == 1
        place, end, headers = at + 26, at + 6 + size, {}
        for _entry in range(entries):
            if place + 8 > end:
                raise DamagedInside
            ordinal, length = struct.unpack_from(">ii", data, place)
            if not 0 <= length <= end - place - 8:
                raise DamagedInside
            headers[ordinal] = data[place + 8 : place + 8 + length].decode(errors="replace")  # as Java
            place += 8 + length
        (length,) = struct.unpack_from(">q", data, place)
        yield Block(kind, headers, data[place + 8 : place + 8 + length])
        at += 14 + size
        assert struct.unpack_from(">q", data, at - 8)[0] == size + 6


def is_whole(data: bytes, at: int) -> bool:
    """Whether Hudi would read a block here: its size fits, its end repeats the size, a block or the end of the file
    follows."""
    if data[at : at + 6] != b"#HUDI#" or len(data) < at + 14:
        return False
    (size,) = struct.unpack_from(">q", data, at + 6)
    end = at + 14 + size
    if size < 32 or end > len(data) or struct.unpack_from(">q", data, end - 8)[0] != size + 6:
        return False
    return len(data) - end < 6 or data[end : end + 6] == b"#HUDI#"


def data_records(block: Block) -> list[dict[str, Any]]:
    """The records of a data block as dicts: fastavro's, or pyarrow's of a Parquet file."""
    if block.kind == PARQUET_DATA:
        return list(pq.read_table(io.BytesIO(block.content)).to_pylist())
    try:
        schema = fastavro.parse_schema(json.loads(block.header(SCHEMA)))
    except (ValueError, fastavro.schema.SchemaParseException) as error:
        raise DamagedInside from error
    _version, count = struct.unpack_from(">ii", block.content, 0)
    place, records = 8, []
    for _record in range(count):
        (length,) = struct.unpack_from(">i", block.content, place)
        body = io.BytesIO(block.content[place + 4 : place + 4 + length])
        record = fastavro.schemaless_reader(body, schema, None)
        assert isinstance(record, dict)
        records.append(record)
        place += 4 + length
    assert place == len(block.content)
    return records


def delete_entries(block: Block) -> list[tuple[str, str, Any]]:
    """(key, wrapper's name or '', value) of a delete block of version 3; several values as a list of such pairs."""
    version, length = struct.unpack_from(">ii", block.content, 0)
    assert version == 3
    assert length == len(block.content) - 8
    record = fastavro.schemaless_reader(
        io.BytesIO(block.content[8:]), DELETE_LIST, None, return_record_name=True, return_named_type=True
    )
    entries = []
    for entry in record["deleteRecordList"]:
        wrapped = entry["orderingVal"]
        name, value = ("", None) if wrapped is None else (wrapped[0], wrapped[1].get("value"))
        if name == "ArrayWrapper":
            value = [
                ("", None) if item is None else (item[0], item[1]["value"]) for item in wrapped[1]["wrappedValues"]
            ]
        entries.append((entry["recordKey"], name, value))
    return entries


def positions(block: Block) -> list[int] | None:
    """The base rows of a block's records, or None without them."""
    if not block.headers.get(POSITIONS):
        return None
    data = io.BytesIO(base64.b64decode(block.headers[POSITIONS]))
    values: list[int] = []
    for _bitmap in range(struct.unpack("<Q", data.read(8))[0]):
        (high,) = struct.unpack("<I", data.read(4))
        values += [(high << 32) + low for low in _roaring(data)]
    return values


def _roaring(data: io.BytesIO) -> list[int]:
    (cookie,) = struct.unpack("<I", data.read(4))
    runs = b""
    if cookie & 0xFFFF == 12347:
        containers = (cookie >> 16) + 1
        runs = data.read((containers + 7) // 8)
    else:
        assert cookie == 12346
        (containers,) = struct.unpack("<I", data.read(4))
    heads = [struct.unpack("<HH", data.read(4)) for _ in range(containers)]
    if not runs or containers >= 4:
        data.read(4 * containers)
    values: list[int] = []
    for number, (key, last) in enumerate(heads):
        if runs and runs[number // 8] & (1 << number % 8):
            for _run in range(struct.unpack("<H", data.read(2))[0]):
                first, more = struct.unpack("<HH", data.read(4))
                values += [(key << 16) + low for low in range(first, first + more + 1)]
        elif last + 1 > 4096:
            bits = data.read(8192)
            values += [(key << 16) + low for low in range(65536) if bits[low // 8] & (1 << low % 8)]
        else:
            values += [(key << 16) + low for low in struct.unpack(f"<{last + 1}H", data.read(2 * (last + 1)))]
    return values
