"""Grammars of files: commits, archives and histories, HFiles of the metadata table, Parquet."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.enumerator.planning.event_time.bounds import EventTimeColumn, row_group_bounds, row_group_sizes
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.base.file import BaseFile
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.split.emit import BatchSize
from penstock.table.config.properties import load_properties
from penstock.table.hfile.reader import HFile
from penstock.table.log.blocks import BlockPlace
from penstock.table.metadata.files import data_files
from penstock.table.metadata.records import RecordReader
from penstock.table.parquet.footer import read_base_footer
from penstock.table.schema.avro import parse_record_schema
from penstock.table.timeline.archive import ArchiveCache, read_archive
from penstock.table.timeline.archive_v1 import archive_entries
from penstock.table.timeline.archive_v2 import completions_by_instant, read_completions
from penstock.table.timeline.commits import CommitMetadata, parse_commit
from penstock.table.timeline.instants import Action, Instant, State
from tests.fuzz import thrift_tree
from tests.fuzz.grammar import HOSTILE, Case, Decoder, Wire, some_text, zigzag
from tests.fuzz.grammar_avro import plain_rows
from tests.fuzz.memory_storage import MemoryStorage, history_of
from tests.fuzz.mutation import page_header
from tests.unit.table.metadata.hfile_writer import GZ, LZ4, NONE, SNAPPY, write_hfile

_TIME = InstantTime("20260101000000000")
_INSTANT = Instant(
    requested_time=_TIME, completion_time=_TIME, action=Action.REPLACE_COMMIT, state=State.COMPLETED, file_name="file"
)


def _nullable(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields.items()]


_STAT = {"fileId": "string", "path": "string", "prevCommit": "string", "numWrites": "long", "fileSizeInBytes": "long"}
_STAT_SCHEMA = {"type": "record", "name": "HoodieWriteStat", "fields": _nullable(_STAT)}
_COMMIT_SCHEMA = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "fields": _nullable(
        {
            "partitionToWriteStats": {"type": "map", "values": {"type": "array", "items": _STAT_SCHEMA}},
            "compacted": "boolean",
            "extraMetadata": {"type": "map", "values": "string"},
            "operationType": "string",
            "partitionToReplaceFileIds": {"type": "map", "values": {"type": "array", "items": "string"}},
        }
    ),
}
_COMMIT_PARSED = fastavro.parse_schema(_COMMIT_SCHEMA)


def _random_commit(rng: random.Random) -> dict[str, Any]:
    partitions = rng.sample(("", "p=a", "p=b/q=1", "zoë"), rng.choice((0, 1, 1, 2)))
    stats = {
        partition: [
            {
                "fileId": f"f{number}-0",
                "path": f"{partition}/f{number}-0_0-1-2_001.parquet".lstrip("/"),
                "prevCommit": rng.choice(("null", "000")),
                "numWrites": rng.choice((0, 1, 2**40)),
                "fileSizeInBytes": rng.choice((0, 435_000)),
            }
            for number in range(rng.randrange(3))
        ]
        for partition in partitions
    }
    return {
        "partitionToWriteStats": stats,
        "compacted": rng.random() < 0.3,
        "extraMetadata": {"schema": some_text(rng), "k": some_text(rng)},
        "operationType": rng.choice(("UPSERT", "INSERT_OVERWRITE", "CLUSTER")),
        "partitionToReplaceFileIds": {partition: [f"r{partition}", "a"] for partition in partitions},
    }


def _meaning_of(commit: dict[str, Any]) -> list[Any]:
    stats = [
        (partition, s["fileId"], s["path"], s["numWrites"], s["fileSizeInBytes"], s["prevCommit"].replace("null", ""))
        for partition, result in commit["partitionToWriteStats"].items()
        for s in result
    ]
    replaced = {(p, file_id) for p, ids in commit["partitionToReplaceFileIds"].items() for file_id in ids}
    return [commit["operationType"], commit["compacted"], commit["extraMetadata"], sorted(stats), sorted(replaced)]


def _container(wire: Wire, schema: bytes, body: bytes) -> bytes:
    """An Avro object container file of one record."""
    entries = wire.zigzag(2) + wire.text(b"avro.schema") + zigzag(len(schema)) + schema
    entries += wire.text(b"avro.codec") + wire.text(b"null") + wire.zigzag(0)
    sync = b"s" * 16
    return wire.raw(b"Obj\1") + entries + sync + wire.zigzag(1) + wire.zigzag(len(body)) + body + wire.raw(sync)


def _avro_text_map(wire: Wire, pairs: dict[str, str]) -> bytes:
    body = b"".join(wire.text(name.encode()) + wire.text(value.encode()) for name, value in pairs.items())
    return wire.zigzag(1) + wire.zigzag(len(pairs)) + body + wire.zigzag(0)


def _avro_commit(wire: Wire, commit: dict[str, Any]) -> bytes:
    """The record field by field, so that each number in it is a place."""
    body = wire.zigzag(1)
    for partition, stats in commit["partitionToWriteStats"].items():
        body += wire.zigzag(1) + wire.text(partition.encode())
        for stat in stats:
            body += wire.zigzag(1)
            for name, kind in _STAT.items():
                value = stat[name]
                body += wire.zigzag(1)
                body += wire.zigzag(value) if kind == "long" else wire.text(value.encode())
        body += wire.zigzag(0)
    body += wire.zigzag(0) + wire.zigzag(1) + wire.raw(bytes([commit["compacted"]]))
    body += _avro_text_map(wire, commit["extraMetadata"])
    body += wire.zigzag(1) + wire.text(commit["operationType"].encode()) + wire.zigzag(1)
    for partition, ids in commit["partitionToReplaceFileIds"].items():
        body += wire.zigzag(1) + wire.text(partition.encode()) + wire.zigzag(len(ids))
        body += b"".join(wire.text(file_id.encode()) for file_id in ids) + wire.zigzag(0)
    return body + wire.zigzag(0)


def _commit_avro(wire: Wire) -> Case:
    commit = _random_commit(wire.rng)
    schema = json.dumps(_COMMIT_SCHEMA).encode()
    return Case(_container(wire, schema, _avro_commit(wire, commit)), None, _meaning_of(commit))


def _commit_json(wire: Wire) -> Case:
    commit = _random_commit(wire.rng)
    text = json.dumps(wire.json_tree(commit), ensure_ascii=wire.rng.random() < 0.5)
    return Case(wire.raw(text.encode("utf-8", "surrogatepass")), None, _meaning_of(commit))


def _commit_values(commit: CommitMetadata) -> list[Any]:
    stats = [(s.partition, s.file_id, s.path, s.num_writes, s.file_size_bytes, s.prev_commit) for s in commit.stats]
    return [commit.operation, commit.compacted, dict(commit.extra), sorted(stats), list(commit.replaced)]


def _decode_commit(data: bytes, _context: Any) -> Any:
    return _commit_values(parse_commit(data, _INSTANT))


_ENTRY_FIELDS = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_ENTRY_SCHEMA = json.dumps(
    {"type": "record", "name": "HoodieArchivedMetaEntry", "fields": _nullable(dict.fromkeys(_ENTRY_FIELDS, "string"))}
).encode()


def _archive(wire: Wire) -> Case:
    rng, data, meaning = wire.rng, b"", []
    for _ in range(rng.choice((0, 1, 2))):
        records = []
        for _ in range(rng.choice((0, 1, 3))):
            row = (
                str(rng.randrange(10**6)),
                rng.choice(("commit", "clean")),
                rng.choice(("COMPLETED", "INFLIGHT")),
                "",
            )
            texts = [wire.zigzag(1) + wire.text(text.encode()) if text else wire.zigzag(0) for text in row]
            records.append(b"".join(texts))
            meaning.append(row)
        content = wire.big(3, 4) + wire.big(len(records), 4)
        content += b"".join(wire.big(len(record), 4) + record for record in records)
        body = wire.big(1, 4) + wire.big(3, 4) + wire.big(1, 4) + wire.big(2, 4) + wire.big(len(_ENTRY_SCHEMA), 4)
        body += wire.raw(_ENTRY_SCHEMA) + wire.big(len(content), 8) + content + wire.big(0, 4)
        size = len(body) + 8
        data += wire.raw(b"#HUDI#") + wire.big(size, 8) + body + wire.big(size + 6, 8)
    return Case(data, None, meaning)


def _decode_archive(data: bytes, _context: Any) -> Any:
    return [(e.requested_time, e.action, e.state, e.transition) for e in archive_entries(data, "f")]


def _integer_anywhere(data: bytes, harm: random.Random) -> bytes:
    at, width = harm.randrange(len(data)), harm.choice((1, 2, 4, 4, 8))
    value = harm.choice(HOSTILE) & (1 << 8 * width) - 1
    return data[:at] + value.to_bytes(width, harm.choice(("big", "little"))) + data[at + width :]


def _written(wire: Wire, table: pa.Table) -> bytes:
    """A Parquet file; if damaged, in its footer, a page's header or its pages."""
    rng, sink = wire.rng, io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression=rng.choice(("none", "gzip", "snappy", "zstd")),
        use_dictionary=rng.random() < 0.5,
        data_page_version=rng.choice(("1.0", "2.0")),
        row_group_size=rng.choice((3, 1000)),
        store_schema=False,
    )
    data = wire.changed(sink.getvalue(), thrift_tree.mutated_footer)
    data = wire.changed(data, thrift_tree.mutated_footer)
    data = wire.changed(data, page_header)
    return wire.changed(data, _integer_anywhere)


def _history(wire: Wire) -> Case:
    rng, rows = wire.rng, []
    for number in range(rng.choice((0, 1, 4))):
        commit = json.dumps(wire.json(_random_commit(rng)))
        action = rng.choice(("commit", "deltacommit", "replacecommit"))
        rows.append((f"2026010100000000{number}", f"2026010100000001{number}", action, commit.encode()))
    columns = [[row[place] for row in rows] for place in range(4)]
    names, types = ("instantTime", "completionTime", "action", "metadata"), (*[pa.string()] * 3, pa.binary())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    data = _written(wire, pa.Table.from_arrays(arrays, names=list(names)))
    return Case(data, None, {row[0]: row[1] for row in rows})


def _decode_history(data: bytes, _context: Any) -> Any:
    name = "20260101000000000_20260101000000001_0.parquet"
    files = {f".hoodie/timeline/history/{name}": data}
    storage = history_of(files, json.dumps({"files": [{"fileName": name}]}).encode())
    properties = load_properties(storage)
    archive = read_archive(storage, properties, ArchiveCache())
    completions = {
        str(requested): str(at)
        for requested, at in completions_by_instant(read_completions(storage, properties)).items()
    }
    assert {str(instant.requested_time) for instant in archive.instants} >= completions.keys()
    return completions


_FILES_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "type", "type": "int"},
            {
                "name": "filesystemMetadata",
                "type": [
                    "null",
                    {
                        "type": "map",
                        "values": {
                            "type": "record",
                            "name": "HoodieMetadataFileInfo",
                            "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
                        },
                    },
                ],
            },
        ],
    }
)


def _metadata_value(wire: Wire, key: str, sizes: dict[str, int]) -> bytes:
    files = b"".join(wire.text(name.encode()) + wire.zigzag(size) + wire.raw(b"\0") for name, size in sizes.items())
    body = wire.text(key.encode()) + wire.zigzag(2) + wire.zigzag(1)
    return body + (wire.zigzag(len(sizes)) + files if sizes else b"") + wire.zigzag(0)


def _hfile(wire: Wire) -> Case:
    rng, rows, meaning = wire.rng, [], {}
    for number in range(rng.choice((0, 1, 2, 5))):
        key = f"p={number}"
        sizes = {f"f{place}-0_0-1-2_001.parquet": rng.choice((0, 1, 2**40)) for place in range(rng.randrange(4))}
        rows.append((key.encode(), _metadata_value(wire, key, sizes)))
        meaning[key] = sizes
    codec = rng.choice((NONE, GZ, SNAPPY, LZ4))
    levels, block_rows = rng.choice((1, 2)), rng.choice((1, 2, 100))
    info = {b"schema": _FILES_SCHEMA.encode()}
    data = write_hfile(rows, codec=codec, block_rows=block_rows, levels=levels if rows else 1, info=info)
    for _ in range(6):
        data = wire.changed(data, _block_head if wire.rng.random() < 0.7 else _integer_anywhere)
    return Case(data, None, meaning)


def _block_head(data: bytes, harm: random.Random) -> bytes:
    """A number in a block's header or in the trailer."""
    magics = (b"DATABLK*", b"IDXLEAF2", b"IDXROOT2", b"FILEINF2", b"TRABLK")
    places = [place for magic in magics if (place := data.find(magic)) >= 0]
    at = harm.choice(places) + harm.choice((8, 9, 10, 12, 16, 24, 25, 29))
    return data[:at] + (harm.choice(HOSTILE) & 2**32 - 1).to_bytes(4, "big") + data[at + 4 :]


def _decode_hfile(data: bytes, _context: Any) -> Any:
    file = HFile(pa.BufferReader(data), "file")
    cells = list(file.scan())
    assert list(file.lookup([row for row, _ in cells[:3]])) == cells[:3]
    if not cells:
        return {}
    reader = RecordReader(file.info().get(b"schema", b"").decode("utf-8", "replace"), "file")
    entries = {}
    for row, value in cells:
        files = data_files("p", [reader.read(value)])
        entries[row.decode("utf-8", "replace")] = {file.file_name: file.ref.size_bytes for file in files}
    return entries


_COLUMNS = {"key": "string", "n": "long", "x": "double", "b": "boolean"}
_RECORD = parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": _nullable(_COLUMNS)}))
_ARROW_SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("b", pa.bool_())])


def _parquet(wire: Wire) -> Case:
    rng = wire.rng
    rows = [
        {
            "key": f"key-{number}" if rng.random() < 0.8 else "same",
            "n": rng.choice((None, 0, 1, -(2**63), 2**63 - 1)),
            "x": rng.choice((None, 0.5, -2.25)),
            "b": rng.choice((None, True, False)),
        }
        for number in range(rng.choice((0, 1, 7, 40)))
    ]
    return Case(_written(wire, pa.Table.from_pylist(rows, schema=_ARROW_SCHEMA)), None, rows)


def _decode_base_file(data: bytes, _context: Any) -> Any:
    storage, ref = MemoryStorage({"file.parquet": data}), FileRef("file.parquet", len(data))
    with BaseFile(storage, ref, _RECORD, list(_COLUMNS), table="table") as file:
        batches = [batch for group in file.row_groups(WholeFile(), BatchSize(10, 1 << 20)) for batch in group.batches()]
    for batch in batches:
        batch.validate()
    footer = read_base_footer(storage, ref)
    assert max(row_group_sizes(footer, len(data)), default=0) <= len(data)
    for field in _RECORD.fields:
        row_group_bounds(footer, EventTimeColumn(field.name, field.type))
    return _decodable(batches)


def _decode_parquet_block(data: bytes, _context: Any) -> Any:
    block = ParquetBlock(pa.py_buffer(data), BlockPlace("t", "f.log", 0, "1"), "table", _RECORD, compiled=True)
    batches = list(block.decode(list(_COLUMNS)))
    assert sum(batch.num_rows for batch in batches) == block.num_rows()
    return _decodable(batches)


def _decodable(batches: list[pa.RecordBatch]) -> Any:
    """The rows; the batches themselves if a text of a damaged file is not UTF-8, which the decoder does not check."""
    try:
        return plain_rows(batches)
    except UnicodeDecodeError:
        return batches


DECODERS = (
    Decoder("commit json", _commit_json, _decode_commit),
    Decoder("commit avro", _commit_avro, _decode_commit),
    Decoder("archive of layout 1", _archive, _decode_archive),
    Decoder("history of layout 2", _history, _decode_history),
    Decoder("hfile of the metadata table", _hfile, _decode_hfile),
    Decoder("base file", _parquet, _decode_base_file),
    Decoder("parquet log block", _parquet, _decode_parquet_block),
)
