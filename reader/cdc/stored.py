"""Records of a changelog that the writer stored (`_hoodie_operation`, Flink writers), unmerged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import CorruptFile
from penstock.proto.model.changes import StoredKinds
from penstock.reader.cdc.images import StoredBatch
from penstock.reader.cdc.states import States
from penstock.reader.log.unmerged import unmerged_records
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import COMMIT_TIME
from penstock.table.schema.avro import OPERATION

_KINDS: Final = {"I": "+I", "-U": "-U", "U": "+U", "D": "-D"}
"""Hudi `HoodieOperation` by name; a record without one was inserted."""


def stored_changes(states: States, source: StoredKinds, columns: tuple[str, ...]) -> Iterator[StoredBatch]:
    """The records that the step's instant wrote into these files: its rows of the base file, then the logs' records in
    the order written."""
    needed = tuple(dict.fromkeys((*columns, OPERATION, COMMIT_TIME)))
    files = source.files
    if files.base is not None:
        for batch in states.after(type(files)(files.base, files.base_instant), needed):
            own = batch.filter(pc.equal(batch.column(COMMIT_TIME), states.step.instant))
            if own.num_rows:
                yield _stored(own, columns, states)
    if not files.logs:
        return
    context = states.slice_context(type(files)(None, "", files.logs), states.own_scan(needed))
    constants = PartitionConstants(context.scan, context.split, context.schema.table, context.schema.carried)
    for batch in unmerged_records(context):
        arrays = [_column(name, batch, constants) for name in needed]
        yield _stored(pa.RecordBatch.from_arrays(arrays, names=list(needed)), columns, states)


def _column(name: str, batch: pa.RecordBatch, constants: PartitionConstants) -> pa.Array:
    constant = constants.column(name, batch.num_rows)
    return batch.column(name) if constant is None else constant


def _stored(batch: pa.RecordBatch, columns: tuple[str, ...], states: States) -> StoredBatch:
    operations = batch.column(OPERATION).fill_null("I").dictionary_encode()
    unknown = [text for text in operations.dictionary.to_pylist() if text not in _KINDS]
    if unknown:
        raise CorruptFile(f"{states.where}: {OPERATION} {unknown[0][:40]!r}, expected one of {', '.join(_KINDS)}")
    texts = pa.array([_KINDS[text] for text in operations.dictionary.to_pylist()], pa.string())
    return StoredBatch(texts.take(operations.indices), batch.select(list(columns)))


def is_minus(kinds: pa.Array) -> np.ndarray:
    """Which kinds remove a row."""
    return np.asarray(pc.starts_with(kinds, "-").to_numpy(zero_copy_only=False))
