"""Valid Parquet files that pyarrow does not write, combined from files that it writes."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.base.file import BaseFile
from penstock.reader.split.emit import BatchSize
from penstock.table.schema.avro import parse_record_schema
from tests.fuzz import thrift_tree
from tests.fuzz.memory_storage import MemoryStorage
from tests.fuzz.thrift_tree import Node

RECORD = parse_record_schema('{"type":"record","name":"r","fields":[{"name":"text","type":["null","string"]}]}')
ENCODINGS = {"DELTA_LENGTH_BYTE_ARRAY": 6, "DELTA_BYTE_ARRAY": 7}


def chunk_of(values: list[str], **options: Any) -> tuple[Node, bytes]:
    """The footer and the pages of a file of one column."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": values}), sink, compression="none", write_statistics=False, **options)
    data = sink.getvalue()
    root, _ = thrift_tree.parse(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    return root, data[4 : 4 + pq.read_metadata(sink).row_group(0).column(0).total_compressed_size]


def without_dictionary_at_the_end(first: list[str], then: list[str], encoding: str) -> bytes:
    """A file with pages of indices, then pages of another encoding, as parquet-mr's writer of version 2 writes when a
    dictionary grows too large."""
    root, indices = chunk_of(first, use_dictionary=True)
    _, pages = chunk_of(then, use_dictionary=False, column_encoding={"text": encoding})
    (group,) = dict(root.fields)[4].value
    of_group = dict(group.fields)
    metadata = dict(dict(of_group[1].value[0].fields)[3].fields)
    metadata[2].value.append(Node(metadata[2].of, ENCODINGS[encoding]))
    for rows in (dict(root.fields)[3], of_group[3], metadata[5]):
        rows.value = len(first) + len(then)
    for size in (of_group[2], metadata[6], metadata[7]):
        size.value = len(indices) + len(pages)
    footer = thrift_tree.write(root)
    return b"PAR1" + indices + pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_pages_without_indices_after_pages_of_indices_are_read_as_text(encoding: str) -> None:
    first = [f"s{number}" for number in range(4000)] + ["l" * 20_000] * 9
    then = [f"t{number}" for number in range(3000)]
    data = without_dictionary_at_the_end(first, then, encoding)
    assert pq.read_table(io.BytesIO(data)).column(0).to_pylist() == first + then, "the file is whole"
    storage, ref = MemoryStorage({"f.parquet": data}), FileRef("f.parquet", len(data))
    with BaseFile(storage, ref, RECORD, ["text"], table="t") as base:
        (group,) = base.row_groups(WholeFile(), BatchSize(32768, 1 << 20))
        rows = [text for batch in group.batches() for text in batch.column(0).to_pylist()]
    assert rows == first + then
