"""Grammars of log files: framing, delete lists, Avro records, positions."""

from __future__ import annotations

import base64
import json
import struct
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.proto.model.splits import VisibleInstants
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.cdc.images import ChangeKind
from penstock.reader.cdc.logged import _kinds
from penstock.reader.cdc.logged_schema import SIDES, parse_logged_schema
from penstock.reader.kernels.deletes import decode_delete_list
from penstock.reader.log.block_selection import CountedBlocks
from penstock.reader.log.record_positions import _positions
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock, read_blocks
from penstock.table.log.delete_list import ARRAY, DeleteListDecoder
from penstock.table.log.delete_list import decode_delete_list as plain_decoder
from penstock.table.log.deletes import DeleteRecords, OrderingItems, decode_deletes
from penstock.table.log.positions import cardinality
from penstock.table.schema.avro import AvroField, Primitive, RecordSchema, RecordType, parse_record_schema
from tests.fuzz.grammar import Case, Decoder, Wire, some_text
from tests.fuzz.grammar_avro import SameValues, plain_rows, random_record

PLACE = BlockPlace("t", "f.log", 0, "20260101000000000")


def by_both(decoders: list[Any]) -> Any:
    """The result of both implementations, or the error that both raise."""
    answers: list[Any] = []
    for path in decoders:
        try:
            answers.append(("answer", path()))
        except PenstockError as error:
            answers.append(("error", error))
    kinds = [kind if kind == "answer" else value.code for kind, value in answers]
    assert kinds[0] == kinds[1], f"the implementations differ: {kinds}: {answers}"
    if answers[0][0] == "error":
        raise answers[0][1]
    assert answers[0][1] == answers[1][1], f"the implementations differ: {answers[0][1]} and {answers[1][1]}"
    return answers[0][1]


def _value(wire: Wire, kind: int) -> tuple[bytes, int, str]:
    """A wrapper's value: bytes, its number, its text in hex."""
    rng = wire.rng
    match kind:
        case 0:
            return b"", 0, ""
        case 1:
            number = rng.randrange(2)
            return wire.raw(bytes([number])), number, ""
        case 4 | 5:
            number = rng.randrange(-(2**31), 2**31)
            return struct.pack("<i" if kind == 4 else "<q", number), number, ""
        case 6 | 7 | 9:
            text = some_text(rng).encode() if kind == 7 else rng.randbytes(rng.choice((1, 2, 9, 40)))
            return wire.text(text), 0, text.hex()
    number = rng.choice((0, 1, -1, 63, 64, 2**31 - 1, -(2**31)))
    return wire.zigzag(number), number, ""


def _deletes(wire: Wire) -> Case:
    rng, records, rows = wire.rng, [], []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 40))):
        key = some_text(rng)
        body = wire.zigzag(1) + wire.text(key.encode())
        body += wire.zigzag(1) + wire.text(b"p") if rng.random() < 0.3 else wire.zigzag(0)
        kind = rng.randrange(13)
        body += wire.zigzag(kind)
        items: list[tuple[int, int, str]] = []
        if kind == ARRAY:
            body += wire.zigzag(1)
            kinds = [rng.randrange(12) for _ in range(rng.choice((0, 1, 2, 3)))]
            body += wire.zigzag(len(kinds)) if kinds else b""
            for item in kinds:
                value, number, text = _value(wire, item)
                body += wire.zigzag(item) + value
                items.append((item, number, text))
            body += wire.zigzag(0)
            rows.append((key, kind, len(items), "", items))
        else:
            value, number, text = _value(wire, kind)
            body += value
            rows.append((key, kind, number, text, []))
        records.append(body)
    content = b""
    while records:
        taken = rng.randrange(1, len(records) + 1)
        block = b"".join(records[:taken])
        sized = rng.random() < 0.3
        content += wire.zigzag(-taken) + wire.zigzag(len(block)) if sized else wire.zigzag(taken)
        content += block
        records = records[taken:]
    content = wire.raw(content + wire.zigzag(0))
    return Case(wire.big(3, 4) + wire.big(len(content), 4) + content, None, rows)


def _rows_of(result: DeleteRecords) -> list[Any]:
    items = result.items
    remaining = [] if items is None else list(zip(*_columns(items), strict=True))
    rows, at = [], 0
    for key, kind, number, text in zip(result.keys.to_pylist(), *_columns(result), strict=True):
        count = number if kind == ARRAY else 0
        mine = [(item, value, content.hex()) for item, value, content in remaining[at : at + count]]
        rows.append((key, kind, number, text.hex(), mine))
        at += count
    return rows


def _columns(items: DeleteRecords | OrderingItems) -> tuple[list[int], list[int], list[bytes]]:
    return items.kinds.tolist(), items.numbers.tolist(), items.texts.to_pylist()


def _delete_rows(data: bytes, decoder: DeleteListDecoder) -> list[Any]:
    return _rows_of(decode_deletes(data, PLACE, decoder))


def _decode_deletes(data: bytes, _context: Any) -> Any:
    rows = by_both([partial(_delete_rows, data, decoder) for decoder in (decode_delete_list, plain_decoder)])
    result = decode_deletes(data, PLACE, decode_delete_list)
    for kind in (pa.int64(), pa.int32(), pa.bool_(), pa.float64()):
        values, default = result.ordering_as(kind)
        assert len(values) == len(default) == len(rows)
        values.validate(full=True)
    result.ordering_tuples([pa.int64(), pa.int32()])
    return rows


def _kryo_text(wire: Wire, text: str) -> bytes:
    data = wire.raw(text.encode("ascii"))
    return data[:-1] + bytes([data[-1] | 0x80]) if len(data) > 1 else b"\x81"


def _kryo(wire: Wire) -> Case:
    rng, model = wire.rng, "org.apache.hudi.common.model."
    rows: list[Any] = []
    count = rng.choice((0, 1, 2, 3, 9))
    data = b"\1\0" + _kryo_text(wire, f"[L{model}DeleteRecord;") + b"\1" + bytes([wire.number(count + 1) & 0x7F])
    for number in range(count):
        data += b"\1\1" + (_kryo_text(wire, f"{model}DeleteRecord") if not number else b"") + b"\1"
        key = "k" * rng.choice((2, 5, 40)) + str(number)
        data += b"\1" + _kryo_text(wire, key) + _kryo_text(wire, "p=1")
        match rng.randrange(4):
            case 0:
                data, row = data + b"\0", (key, 0, 0, "")
            case 1:
                value = rng.randrange(-60, 60)
                data, row = (
                    data + b"\2" + bytes([wire.number((value << 1 ^ value >> 63) & 0x7F) & 0x7F]),
                    (key, 2, value, ""),
                )
            case 2:
                data, row = data + b"\3\1" + _kryo_text(wire, "text"), (key, 7, 0, b"text".hex())
            case _:
                data, row = data + b"\5" + wire.raw(b"\1"), (key, 1, 1, "")
        rows.append((*row, []))
    return Case(struct.pack(">ii", 2, len(data)) + data, None, rows)


def _content(wire: Wire, records: list[bytes]) -> bytes:
    body = b"".join(wire.big(len(record), 4) + record for record in records)
    return wire.big(wire.rng.randrange(4), 4) + wire.big(len(records), 4) + body


def _avro(wire: Wire) -> Case:
    node, write = random_record(wire.rng)
    pairs = [write(wire) for _ in range(wire.rng.choice((0, 1, 1, 2, 5, 30)))]
    names = [field["name"] for field in node["fields"]]
    columns = names if wire.rng.random() < 0.5 else wire.rng.sample(names, wire.rng.randrange(1, len(names) + 1))
    meaning = [{name: row[name] for name in columns} for _, row in pairs]
    return Case(_content(wire, [data for data, _ in pairs]), [json.dumps(node), columns], meaning)


def _avro_rows(data: bytes, schema: RecordSchema, columns: list[str], compiled: bool) -> SameValues:
    begin, end = record_bounds(data, PLACE, compiled=compiled)
    decoder = AvroDecoder(schema, columns, schema, compiled=compiled)
    batches = list(decoder.decode(data, begin, end, PLACE))
    for batch in batches:
        batch.validate(full=True)
    return SameValues(batches)


def _decode_avro(data: bytes, context: Any) -> Any:
    schema = parse_record_schema(context[0])
    decoders = [partial(_avro_rows, data, schema, context[1], compiled) for compiled in (True, False)]
    return plain_rows(by_both(decoders).batches)


def _cdc(wire: Wire) -> Case:
    rng = wire.rng
    node, write = random_record(rng, "image")
    fields: list[Any] = [{"name": "op", "type": ["null", "string"]}, {"name": "ts_ms", "type": ["null", "string"]}]
    fields += [{"name": "before", "type": ["null", node]}, {"name": "after", "type": ["null", "image"]}]
    records, meaning = [], []
    for _ in range(rng.choice((1, 1, 2, 5))):
        op = rng.choice("iud")
        data = wire.zigzag(1) + wire.text(op.encode()) + wire.zigzag(0)
        images = []
        for side in ("before", "after"):
            if side in SIDES[{"i": ChangeKind.INSERT, "u": ChangeKind.UPDATE, "d": ChangeKind.DELETE}[op]]:
                body, row = write(wire)
                data += wire.zigzag(1) + body
                images.append(row)
            else:
                data += wire.zigzag(0)
                images.append(None)
        records.append(data)
        meaning.append((op, *images))
    schema = json.dumps({"type": "record", "name": "CDC", "fields": fields})
    return Case(_content(wire, records), schema, meaning)


def _cdc_rows(data: bytes, text: str, compiled: bool) -> Any:
    schema = parse_logged_schema(text, "f")
    begin, end = record_bounds(data, PLACE, compiled=compiled)
    kinds = _kinds(pa.py_buffer(data), begin, end, schema, PLACE)
    rows: list[Any] = [None] * len(kinds)
    for kind in ChangeKind:
        mine = np.flatnonzero(kinds == kind)
        letter = {ChangeKind.INSERT: "i", ChangeKind.UPDATE: "u", ChangeKind.DELETE: "d"}[kind]
        images: dict[str, list[Any]] = {"before": [None] * len(mine), "after": [None] * len(mine)}
        for side in SIDES[kind] if len(mine) else ():
            image = schema.image(side)
            assert isinstance(image, RecordType)
            flat = schema.flat(kind, side)
            markers = tuple(AvroField(name, Primitive("long")) for name in flat.branches)
            target = RecordSchema("image", (*image.fields, *markers), "")
            decoder = AvroDecoder(flat.writer, [field.name for field in target.fields], target, compiled=compiled)
            batches = list(decoder.decode(data, begin[mine], end[mine], PLACE))
            for name, branch in flat.branches.items():
                if any(value != branch for batch in batches for value in batch.column(name).to_pylist()):
                    raise CorruptBlock("another image than the operation says")
            images[side] = plain_rows([batch.drop_columns(list(flat.branches)) for batch in batches])
        for place, row in enumerate(mine.tolist()):
            rows[row] = (letter, images["before"][place], images["after"][place])
    return rows


def _decode_cdc(data: bytes, context: Any) -> Any:
    decoders = [partial(_cdc_rows, data, context, compiled) for compiled in (True, False)]
    return by_both(decoders)


def _roaring(wire: Wire) -> Case:
    rng, meaning, body = wire.rng, [], b""
    highs = sorted(rng.sample(range(5), rng.choice((0, 1, 1, 2))))
    for high in highs:
        keys = sorted(rng.sample(range(9), rng.choice((1, 1, 2, 5))))
        with_runs = rng.random() < 0.5
        heads, parts, flags = b"", b"", 0
        for place, key in enumerate(keys):
            start = rng.randrange(100)
            if with_runs and rng.random() < 0.5:
                positions = list(range(start, start + rng.choice((1, 50, 5000))))
                flags |= 1 << place
                parts += wire.little(1, 2) + wire.little(start, 2) + wire.little(len(positions) - 1, 2)
            elif rng.random() < 0.2:
                positions = list(range(start, start + 5000))
                bits = np.zeros(65536, np.uint8)
                bits[positions] = 1
                parts += wire.raw(np.packbits(bits, bitorder="little").tobytes())
            else:
                positions = sorted(rng.sample(range(65536), rng.choice((1, 3, 60))))
                parts += b"".join(wire.little(position, 2) for position in positions[:5])
                parts += np.array(positions[5:], "<u2").tobytes()
            heads += wire.little(key, 2) + wire.little(len(positions) - 1, 2)
            meaning += [(high << 32) + (key << 16) + position for position in positions]
        cookie = wire.little((len(keys) - 1) << 16 | 12347, 4) + bytes([flags]) if with_runs else wire.little(12346, 4)
        cookie += b"" if with_runs else wire.little(len(keys), 4)
        offsets = bytes(4 * len(keys)) if not with_runs or len(keys) >= 4 else b""
        body += wire.little(high, 4) + cookie + heads + offsets + parts
    return Case(wire.little(len(highs), 8) + body, None, meaning)


def _decode_roaring(data: bytes, _context: Any) -> Any:
    count = cardinality(base64.b64encode(data).decode())
    assert 0 <= count <= 65536 * max(len(data), 1)
    if count > 1 << 20:
        return count  # the reader decodes no more positions than a block has records
    result = _positions(data, "f").tolist()
    assert len(result) == count
    return result


def _frames(wire: Wire) -> Case:
    rng, data = wire.rng, b""
    blocks: list[Any] = []
    for _ in range(rng.choice((0, 1, 2, 3, 6))):
        kind = rng.choice((BlockKind.COMMAND, BlockKind.DELETE, BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA))
        instant = str(rng.choice((100, 200, 300)))
        entries: list[tuple[int, bytes]] = [(0, instant.encode())]
        target = ""
        if kind is BlockKind.COMMAND:
            target = str(rng.choice((100, 200, 300)))
            entries += [(1, target.encode()), (3, b"0")]
        elif kind is not BlockKind.DELETE:
            entries.append((2, b'{"type":"record"}'))
        head = wire.big(len(entries), 4)
        head += b"".join(wire.big(number, 4) + wire.big(len(text), 4) + wire.raw(text) for number, text in entries)
        content = rng.randbytes(rng.choice((0, 4, 30)))
        inside = wire.big(1, 4) + wire.big(kind, 4) + head + wire.big(len(content), 8) + content + wire.big(0, 4)
        size = len(inside) + 8
        data += wire.raw(b"#HUDI#") + wire.big(size, 8) + inside + wire.big(size + 6, 8)
        blocks.append((int(kind), instant, target, content.hex()))
    remaining: list[Any] = []
    for block in blocks:
        remaining = (
            [item for item in remaining if item[1] != block[2]]
            if block[0] == BlockKind.COMMAND
            else [*remaining, block]
        )
    order = list(dict.fromkeys(item[1] for item in remaining))
    counted = [item for instant in order for item in remaining if item[1] == instant]
    return Case(data, None, [blocks, [item[3] for item in counted]])


def _decode_frames(data: bytes, _context: Any) -> Any:
    covered, blocks = 0, []
    for item in read_blocks(data, "f"):
        start, end = (item.offset, item.end) if isinstance(item, LogBlock) else (item.start, item.end)
        assert start == covered < end <= len(data), "the items cover the file without overlap"
        covered = end
        if isinstance(item, LogBlock):
            blocks.append(item)
    assert covered == len(data)
    counted = CountedBlocks("t", VisibleInstants(frozenset(), archived_before="9" * 24))
    counted.add_file(0, "f", blocks)
    described = [(int(b.kind), b.header.instant_time, b.header.target_instant_time, _hex(data, b)) for b in blocks]
    return [described, [_hex(data, item.block) for item in counted.in_order()]]


def _hex(data: bytes, block: LogBlock) -> str:
    return data[block.content_start : block.content_end].hex()


DECODERS = (
    Decoder("delete list", _deletes, _decode_deletes),
    Decoder("kryo delete list", _kryo, lambda data, _: _rows_of(decode_deletes(data, PLACE))),
    Decoder("avro data block", _avro, _decode_avro),
    Decoder("cdc data block", _cdc, _decode_cdc),
    Decoder("record positions", _roaring, _decode_roaring),
    Decoder("log framing and commands", _frames, _decode_frames),
)
