"""Small inputs that would decode to much: each is decoded or refused within the memory of a batch.

A bomb is valid in its format. Its docstring has the size that an unbounded decoder would allocate.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.base.file import BaseFile
from penstock.reader.kernels.deletes import decode_delete_list
from penstock.reader.split.emit import BatchSize
from penstock.reader.topics.json.columns import JsonColumns
from penstock.reader.topics.json.rows import JsonRows
from penstock.table.config.properties import load_properties
from penstock.table.log.blocks import BlockPlace
from penstock.table.log.delete_list import decode_delete_list as plain_delete_list
from penstock.table.log.deletes import decode_deletes
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.timeline.archive import ArchiveCache, read_archive
from tests.fuzz.grammar import zigzag
from tests.fuzz.memory_storage import MemoryStorage, history_of

PLACE = BlockPlace("t", "f.log", 0, "1")
_FIXED = {"type": "fixed", "name": "F", "size": 1 << 20}
_VECTOR = {**_FIXED, "logicalType": "vector", "dimension": 1 << 18, "elementType": "FLOAT"}


def _avro(fields: dict[str, Any], records: list[bytes]) -> int:
    """Rows by the compiled and the fallback decoder."""
    node = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    schema = parse_record_schema(json.dumps(node))
    content = struct.pack(">ii", 3, len(records)) + b"".join(struct.pack(">i", len(r)) + r for r in records)
    rows = []
    for compiled in (True, False):
        begin, end = record_bounds(content, PLACE, compiled=compiled)
        decoder = AvroDecoder(schema, list(fields), schema, compiled=compiled)
        rows.append(sum(batch.num_rows for batch in decoder.decode(content, begin, end, PLACE)))
    assert rows[0] == rows[1]
    return rows[0]


def _chain_of_records() -> int:
    """100 KB: 28 records around each of 100 000 bytes, 650 MB of objects."""
    kind: Any = "int"
    for level in range(28):
        kind = {"type": "record", "name": f"n{level}", "fields": [{"name": "a", "type": kind}]}
    return _avro({"a": {"type": "array", "items": kind}}, [zigzag(100_000) + b"\2" * 100_000 + b"\0"])


def _wide_and_empty() -> int:
    """33 KB of records and a schema of 19 000 columns: 780 MB of lanes."""
    return _avro({f"c{number}": "string" for number in range(19_000)}, [b""] * 8192)


def _long_symbol() -> int:
    """40 KB of indexes of a symbol of 256 KiB: 2 GB of text."""
    symbols = {"type": "enum", "name": "E", "symbols": ["a" * (1 << 18), "b"]}
    return _avro({"e": symbols}, [b"\0"] * 200 + [b"\2"] * 8000)


def _long_symbol_in_one_record() -> int:
    """8 KB of indexes of a symbol of 64 KiB in one record: 524 MB of text."""
    symbols = {"type": "enum", "name": "E", "symbols": ["a" * (1 << 16), "b"]}
    return _avro({"e": {"type": "array", "items": symbols}}, [zigzag(8000) + bytes(8001)])


def _null_fixed() -> int:
    """40 KB of nulls of a fixed of 1 MiB: 8 GB."""
    return _avro({"e": ["null", _FIXED]}, [b"\0"] * 8000)


def _null_vector() -> int:
    """40 KB of nulls of a vector of 1 MiB: 8 GB."""
    return _avro({"e": ["null", _VECTOR]}, [b"\0"] * 8000)


def _null_fixed_in_a_list() -> int:
    """8 KB of nulls of a fixed of 1 MiB: 8 GB."""
    return _avro({"e": {"type": "array", "items": ["null", _FIXED]}}, [zigzag(8000) + bytes(8001)])


def _counts() -> int:
    """An array with a count of 2^62 items."""
    return _avro({"e": {"type": "array", "items": "long"}}, [zigzag(2**62) + b"\2\2\0", zigzag(-(2**63)) + b"\2\2\0"])


def _deletes(body: bytes, version: int = 3) -> int:
    content = struct.pack(">ii", version, len(body)) + body
    rows = []
    for decode_list in (decode_delete_list, plain_delete_list):
        try:
            rows.append(len(decode_deletes(content, PLACE, decode_list)))
        except PenstockError as error:
            rows.append(-1)
            refused = error
    assert rows[0] == rows[1]
    if rows[0] < 0:
        raise refused
    return rows[0]


def _delete_count() -> int:
    """A delete list with a count of 2^62 records."""
    return _deletes(zigzag(2**62) + b"\2\0\0\0" * 20_000)


def _ordering_values() -> int:
    """One delete with 2^40 ordering values."""
    return _deletes(zigzag(1) + b"\2\2k\0" + zigzag(12) + b"\2" + zigzag(2**40) + bytes(30_000))


def _repeated_key() -> int:
    """60 KB: one key of 50 000 bytes with 2000 references: 100 MB in 64 KB, and so on."""
    model = b"org.apache.hudi.common.model."
    key = b"k" * 49_999 + bytes([ord("k") | 0x80])
    name = b"[L" + model + b"HoodieKey" + bytes([ord(";") | 0x80])
    records = b"\1" + key + b"p" + bytes([ord("=") | 0x80]) + b"\3" * 15_000
    count = 15_002
    length = bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])
    return _deletes(b"\1\0" + name + b"\1" + length + records, 1)


def _json(text: bytes) -> int:
    schema = parse_record_schema('{"type":"record","name":"r","fields":[{"name":"a","type":["null","string"]}]}')
    decoders = [path(schema.fields, arrow_schema(schema), ()) for path in (JsonRows, JsonColumns)]
    answers = [path.values([text]) for path in decoders]
    assert answers[0].reasons.keys() == answers[1].reasons.keys()
    assert answers[0].rows.equals(answers[1].rows)
    if answers[0].reasons:
        raise CorruptBlock(answers[0].reasons[0])
    return len(answers[0].rows.column(0)[0].as_py())


def _deep_text() -> int:
    """A text column whose value has 600 nesting levels: recursion ends at half of them."""
    return _json(b'{"a":' + b"[" * 600 + b"]" * 600 + b"}")


def _deeper_text() -> int:
    """100 000 levels."""
    return _json(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def _shown_text() -> int:
    """A schema whose error text contains a value with the maximum nesting of the JSON parser."""
    for depth in range(900, 1000):
        node = '{"a":' * depth + "1" + "}" * depth
        field = f'{{"name":"a","type":{{"type":"enum","name":"e","symbols":{node}}}}}'
        try:
            parse_record_schema(f'{{"type":"record","name":"r","fields":[{field}]}}')
        except PenstockError as error:
            refused = error
    raise refused


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def _repeated_value_in_a_base_file() -> int:
    """A few KB: a text of 1 MiB in each of 4000 rows, 4 GB."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), pa.array(["x" * (1 << 20)]))
    data = _parquet(pa.table({"key": pa.array([f"k{row}" for row in range(4000)]), "s": text}))
    record = parse_record_schema(
        '{"type":"record","name":"r","fields":[{"name":"key","type":"string"},{"name":"s","type":["null","string"]}]}'
    )
    storage, rows = MemoryStorage({"file.parquet": data}), 0
    with BaseFile(storage, FileRef("file.parquet", len(data)), record, ["key", "s"], table="t") as file:
        for group in file.row_groups(WholeFile(), BatchSize(8192, 16 << 20)):
            rows += sum(batch.num_rows for batch in group.batches())
    return rows


def _repeated_metadata_in_a_history() -> int:
    """A few KB: the metadata of 400 000 rows is one text of 1 KiB, and all have the same instant."""
    commit = json.dumps({"partitionToWriteStats": {}, "extraMetadata": {"k": "x" * 1024}}).encode()
    count = 400_000
    columns = {"instantTime": "20260101000000000", "completionTime": "20260101000000001", "action": "commit"}
    arrays = [pa.array([0] * count, pa.int32())] * 4
    values = [*(pa.array([text]) for text in columns.values()), pa.array([commit], pa.binary())]
    texts = [pa.DictionaryArray.from_arrays(*pair) for pair in zip(arrays, values, strict=True)]
    name = "20260101000000000_20260101000000001_0.parquet"
    data = _parquet(pa.table(dict(zip([*columns, "metadata"], texts, strict=True))))
    storage = history_of({f".hoodie/timeline/history/{name}": data}, b'{"files":[{"fileName":"%s"}]}' % name.encode())
    return len(read_archive(storage, load_properties(storage), ArchiveCache()).instants)


BOMBS: tuple[tuple[Callable[[], int], int | str], ...] = (
    (_chain_of_records, 1),
    (_wide_and_empty, "CORRUPT_BLOCK"),
    (_long_symbol, 8200),
    (_long_symbol_in_one_record, "CORRUPT_BLOCK"),
    (_null_fixed, 8000),
    (_null_vector, 8000),
    (_null_fixed_in_a_list, 1),
    (_counts, "CORRUPT_BLOCK"),
    (_delete_count, "CORRUPT_BLOCK"),
    (_ordering_values, "CORRUPT_BLOCK"),
    (_repeated_key, "CORRUPT_BLOCK"),
    (_deep_text, 1200),
    (_deeper_text, "CORRUPT_BLOCK"),
    (_shown_text, "CORRUPT_FILE"),
    (_repeated_value_in_a_base_file, 4000),
    (_repeated_metadata_in_a_history, 1),
)
"""Each with its expected number of rows, or the code of the error."""
