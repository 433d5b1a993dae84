"""The targets of mutated bytes: the public parsers of `table` and `reader`, one target for each kind of member.

A target returns for accepted bytes and raises a PenstockError for refused ones. Anything else is a bug.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable

import pyarrow as pa

from penstock.enumerator.planning.event_time.bounds import EventTimeColumn, row_group_bounds, row_group_sizes
from penstock.proto.errors import CorruptBlock, PenstockError
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.base.file import BaseFile
from penstock.reader.base.orc_file import OrcFile
from penstock.reader.kernels.deletes import decode_delete_list
from penstock.reader.log.parquet_block import ParquetBlock
from penstock.reader.split.emit import BatchSize
from penstock.table.base_formats import read_other_footer
from penstock.table.config.merge_rules import merge_mode
from penstock.table.config.properties import load_properties
from penstock.table.hfile.reader import HFile
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock, read_blocks
from penstock.table.log.delete_list import decode_delete_list as plain_decoder
from penstock.table.log.deletes import decode_deletes
from penstock.table.log.positions import cardinality
from penstock.table.metadata.column_stats import combined_stats
from penstock.table.metadata.files import data_files, partition_paths
from penstock.table.metadata.records import RecordReader
from penstock.table.orc import orc_footer
from penstock.table.parquet.footer import read_base_footer
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.history import history_json, parse_history
from penstock.table.timeline.active import list_timeline, timeline_of
from penstock.table.timeline.archive import ArchiveCache, read_archive
from penstock.table.timeline.archive_v1 import archive_entries
from penstock.table.timeline.archive_v2 import completions_by_instant, history_files, read_completions
from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.commits import parse_commit
from penstock.table.timeline.instants import Action, Instant, State
from penstock.table.timeline.services.plans import parse_clean, parse_compaction_plan, parse_requested_replace
from tests.fuzz.corpus import Member, schema_of_parquet
from tests.fuzz.memory_storage import PROPERTIES, MemoryStorage, history_of

_PLACE = BlockPlace("table", "file", 0, "20260101000000000")
_HISTORY_FILE = "20260101000000000_20260101000000001_0.parquet"


def run(member: Member, data: bytes) -> str:
    """The outcome of the bytes: 'answer', or the code of the error. Does not catch other exceptions."""
    try:
        _TARGETS[member.kind](data, member)
    except PenstockError as error:
        return error.code
    return "answer"


def _instant(action: Action) -> Instant:
    time = InstantTime("20260101000000000")
    return Instant(requested_time=time, completion_time=time, action=action, state=State.COMPLETED, file_name="file")


def _log(data: bytes, _member: Member) -> None:
    whole = pa.py_buffer(data)
    covered = 0
    for item in read_blocks(whole, "file"):
        start, end = (item.offset, item.end) if isinstance(item, LogBlock) else (item.start, item.end)
        assert start == covered < end <= len(data), "the items cover the file without overlap"
        covered = end
        if isinstance(item, LogBlock):
            try:
                _block(whole, item)
            except PenstockError:
                continue
    assert covered == len(data)


def _block(whole: pa.Buffer, block: LogBlock) -> None:
    content = whole.slice(block.content_start, block.content_end - block.content_start)
    if block.header.record_positions is not None:
        cardinality(block.header.record_positions)
    match block.kind:
        case BlockKind.DELETE:
            deletes = decode_deletes(content, _PLACE, decode_delete_list)
            slow = decode_deletes(content, _PLACE, plain_decoder)
            assert deletes.keys.equals(slow.keys) and (deletes.kinds == slow.kinds).all()
            deletes.ordering_as(pa.int64())
            deletes.ordering_tuples([pa.int64(), pa.string()])
        case BlockKind.AVRO_DATA | BlockKind.CDC_DATA:
            schema = parse_record_schema(block.header.schema_json)
            begin, end = record_bounds(whole, _PLACE, block.content_start, block.content_end)
            columns = [field.name for field in schema.fields]
            for batch in AvroDecoder(schema, columns, schema).decode(whole, begin, end, _PLACE):
                batch.validate(full=True)
        case BlockKind.PARQUET_DATA:
            schema = parse_record_schema(block.header.schema_json)
            parquet = ParquetBlock(content, _PLACE, "table", schema, compiled=True)
            parquet.num_rows()
            for batch in parquet.decode([field.name for field in schema.fields]):
                batch.validate()


def _parquet(data: bytes, member: Member) -> None:
    record = parse_record_schema(_schema_of(member.data))
    storage, ref = MemoryStorage({"file.parquet": data}), FileRef("file.parquet", len(data))
    names = [field.name for field in record.fields]
    with BaseFile(storage, ref, record, names, table="table", compiled=True) as file:
        for group in file.row_groups(WholeFile(), BatchSize(1000, 1 << 20)):
            for batch in group.batches():
                batch.validate()  # without checking texts for UTF-8, which needs a pass over every value
    footer = read_base_footer(storage, ref)
    row_group_sizes(footer, 1 << 20)
    for field in record.fields:
        row_group_bounds(footer, EventTimeColumn(field.name, field.type))


def _lance(data: bytes, _member: Member) -> None:
    """The planner's part. `run_batch.LanceBatch` decodes columns."""
    footer = read_other_footer(MemoryStorage({"file.lance": data}), FileRef("file.lance", len(data)))
    assert footer.rows >= 0 and all(footer.names)


def _orc(data: bytes, member: Member) -> None:
    record = parse_record_schema(_schema_of_orc(member.data))
    storage, ref = MemoryStorage({"file.orc": data}), FileRef("file.orc", len(data))
    names = [field.name for field in record.fields]
    with OrcFile(storage, ref, record, names, table="table") as file:
        for group in file.row_groups(WholeFile(), BatchSize(1000, 1 << 20)):
            for batch in group.batches():
                batch.validate()
    assert read_other_footer(storage, ref).rows >= 0


@functools.lru_cache(maxsize=64)
def _schema_of_orc(data: bytes) -> str:
    return orc_footer(pa.BufferReader(data), "file").avro_json


@functools.lru_cache(maxsize=64)
def _schema_of(data: bytes) -> str:
    return schema_of_parquet(data)


def _hfile(data: bytes, _member: Member) -> None:
    file = HFile(pa.BufferReader(data), "file")
    schema = file.info().get(b"schema", b"").decode("utf-8", "replace")
    cells = list(file.scan())
    assert list(file.lookup([row for row, _ in cells[:3]])) == cells[:3]
    reader = RecordReader(schema, "file")
    for _row, value in cells:
        for use in (partition_paths, functools.partial(data_files, "p"), combined_stats):
            try:
                use([reader.read(value) if value else None])
            except PenstockError:
                continue


def _schema(data: bytes, _member: Member) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CorruptBlock("no text") from None  # as in `read_blocks`
    record = parse_record_schema(text)
    arrow_schema(record)


def _history_text(data: bytes, _member: Member) -> None:
    text = data.decode("utf-8", "replace")
    parse_history(history_json('{"version_id": 99999999999999999, "fields": []}', text, "file"), "file")


def _positions(data: bytes, _member: Member) -> None:
    assert 0 <= cardinality(base64.b64encode(data).decode()) <= 65536 * len(data)
    cardinality(data.decode("latin-1"))


def _history(data: bytes, _member: Member) -> None:
    manifest = f'{{"files":[{{"fileName":"{_HISTORY_FILE}"}}]}}'.encode()
    storage = history_of({f".hoodie/timeline/history/{_HISTORY_FILE}": data}, manifest)
    properties = load_properties(storage)
    completions_by_instant(read_completions(storage, properties))
    read_archive(storage, properties, ArchiveCache())


def _manifest(data: bytes, _member: Member) -> None:
    storage = history_of({}, data)
    history_files(storage, load_properties(storage))


def _properties(data: bytes, _member: Member) -> None:
    storage = MemoryStorage({".hoodie/hoodie.properties": data})
    properties = load_properties(storage)
    timeline_of(list_timeline(storage, properties), properties)
    merge_mode(properties)


def _archive(data: bytes, _member: Member) -> None:
    problem: PenstockError | None = None
    try:
        for _ in archive_entries(data, "file"):
            pass
    except PenstockError as error:
        problem = error
    old = PROPERTIES.replace(b"version=2", b"version=1").replace(b"version=9", b"version=6")
    storage = MemoryStorage(
        {".hoodie/hoodie.properties": old, ".hoodie/archived/.commits_.archive.1_1-0-1": data}, "memory"
    )
    read_archive(storage, load_properties(storage), ArchiveCache())
    if problem is not None:
        raise problem


_TARGETS: dict[str, Callable[[bytes, Member], object]] = {
    "log": _log,
    "commit": lambda data, _: parse_commit(data, _instant(Action.DELTA_COMMIT)),
    "replacecommit": lambda data, _: parse_commit(data, _instant(Action.REPLACE_COMMIT)),
    "compaction_plan": lambda data, _: parse_compaction_plan(data, _instant(Action.COMPACTION)),
    "requested_replace": lambda data, _: parse_requested_replace(data, _instant(Action.REPLACE_COMMIT)),
    "clean": lambda data, _: parse_clean(data, _instant(Action.CLEAN)),
    "avro_record": lambda data, _: single_record(data, "file"),
    "schema_history": _history_text,
    "hfile": _hfile,
    "manifest": _manifest,
    "archive": _archive,
    "history": _history,
    "properties": _properties,
    "parquet": _parquet,
    "lance": _lance,
    "orc": _orc,
    "schema": _schema,
    "positions": _positions,
}
