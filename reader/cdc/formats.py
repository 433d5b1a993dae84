"""The two formats of changes: rows of the table, and the rows of Hudi's own reader. Pure.

Rows of the table (`change_rows`): each side of a change is a row, with its kind, its commit and its place in the order.
Of the meta columns, a change row has key and partition, and a new row also the commit's instant. File name and sequence
number are null, whatever the source of the change is.

Hudi's format (`hudi_rows`, Hudi `CDCRelation`): `op`, `ts_ms`, `before`, `after`, all text. `ts_ms` is the commit's
requested time. A side that a change lacks is null; if the writer logged the images of that side, it is the text `null`,
as in Hudi.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import ChangeStep
from penstock.reader.cdc.images import Batch, ChangeBatch, ChangeKind, Images, StoredBatch
from penstock.reader.cdc.json_text import image_texts
from penstock.reader.cdc.states import SEQUENCE
from penstock.reader.cdc.stored import is_minus
from penstock.reader.split.read_schema import COMMIT_TIME
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE

_FILE_NAME: Final = "_hoodie_file_name"
_TYPES: Final = pa.array(["+I", "-U", "+U", "-D"], pa.string())
_OPS: Final = pa.array(["i", "u", "d"], pa.string())
_SEQUENCE_DIGITS: Final = 18
_THREE_DIGITS: Final = np.array([[ord(digit) for digit in f"{number:03}"] for number in range(1000)], np.uint8)
_PLUS_I, _MINUS_U, _PLUS_U, _MINUS_D = range(4)


def change_rows(batch: Batch, step: ChangeStep, first: int, carried: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch of changes, the first of which is number `first` of its step, with the columns `carried`."""
    match batch:
        case StoredBatch(kinds=kinds, rows=rows):
            minus = is_minus(kinds)
            numbers = np.arange(first, first + len(kinds))
            return _finished(
                rows, kinds, minus, _sequence(step, numbers, np.ones(len(kinds), np.int64), minus), step, carried
            )
        case ChangeBatch():
            return _sides(batch, step, first, carried)


def _sides(batch: ChangeBatch, step: ChangeStep, first: int, carried: pa.Schema) -> pa.RecordBatch:
    count = len(batch.kinds)
    present = np.stack([batch.has_before, batch.has_after], axis=1).ravel()
    change = np.repeat(np.arange(count), 2)[present]
    minus = np.tile([True, False], count)[present]
    kinds = batch.kinds[change]
    types = np.where(
        minus,
        np.where(kinds == ChangeKind.DELETE, _MINUS_D, _MINUS_U),
        np.where(kinds == ChangeKind.INSERT, _PLUS_I, _PLUS_U),
    )
    rows = _interleaved(batch.before, batch.after, change, minus, count)
    phase = (kinds != ChangeKind.DELETE).astype(np.int64)
    sequence = _sequence(step, first + change, phase, minus)
    return _finished(rows, _TYPES.take(pa.array(types)), minus, sequence, step, carried)


def _interleaved(
    before: Images | None, after: Images | None, change: np.ndarray, minus: np.ndarray, count: int
) -> pa.RecordBatch:
    """The old or the new row of each change, row by row."""
    if before is None or after is None:
        only = after if before is None else before
        if only is None:
            raise InvariantViolation("a change without an image before or after it")
        return only.rows if len(change) == count else only.rows.take(pa.array(change))
    places = pa.array(np.where(minus, change, count + change))
    names = [name for name in before.rows.schema.names if name in after.rows.schema.names]
    columns = [pa.concat_arrays([before.rows.column(name), after.rows.column(name)]).take(places) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _finished(
    rows: pa.RecordBatch, kinds: pa.Array, minus: np.ndarray, sequence: pa.Array, step: ChangeStep, carried: pa.Schema
) -> pa.RecordBatch:
    count = len(kinds)
    instants = pa.repeat(pa.scalar(str(step.instant), pa.string()), count)
    computed = {CHANGE_TYPE: kinds, CHANGE_INSTANT: instants, CHANGE_SEQ: sequence}
    columns: list[pa.Array] = []
    for field in carried:
        if field.name in computed:
            columns.append(computed[field.name])
        elif field.name == COMMIT_TIME:
            columns.append(pc.if_else(pa.array(minus), pa.scalar(None, pa.string()), instants))
        elif field.name in (SEQUENCE, _FILE_NAME):
            columns.append(pa.nulls(count, pa.string()))
        else:
            columns.append(rows.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=carried)


def _sequence(step: ChangeStep, numbers: np.ndarray, phase: np.ndarray, minus: np.ndarray) -> pa.Array:
    """Text in the order of changes: by order key; within a commit deletes first, then the group's place in it and the
    number in the group's step; the old row before the new one."""
    place = phase * 10**17 + step.place * 10**10 + numbers
    key = str(step.order_key).encode()
    texts = np.empty((len(place), len(key) + _SEQUENCE_DIGITS + 3), np.uint8)
    millions, below = np.divmod(place, 10**6)
    begin = len(key) + 1 + _SEQUENCE_DIGITS - 6
    # rows of a batch hardly differ above the last six digits: the text before these is made once for each value
    heads, head = np.unique(millions, return_inverse=True)
    head_texts = b"".join(b"%b.%0*d" % (key, _SEQUENCE_DIGITS - 6, one) for one in heads.tolist())
    texts[:, :begin] = np.frombuffer(head_texts, np.uint8).reshape(len(heads), begin)[head]
    texts[:, begin : begin + 3] = _THREE_DIGITS[below // 1000]
    texts[:, begin + 3 : begin + 6] = _THREE_DIGITS[below % 1000]
    texts[:, -2] = ord(".")
    texts[:, -1] = np.where(minus, ord("0"), ord("1"))
    offsets = np.arange(len(texts) + 1, dtype=np.int32) * np.int32(texts.shape[1])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(texts))


def hudi_rows(batch: Batch, step: ChangeStep, carried: pa.Schema, *, compiled: bool = True) -> pa.RecordBatch:
    """One row per change, with the columns `carried`. `compiled=False` uses Arrow functions; the results are equal."""
    if not isinstance(batch, ChangeBatch):
        raise InvariantViolation("a stored changelog has no form in Hudi's format: its states are compared")
    count = len(batch.kinds)
    columns: list[pa.Array] = []
    for field in carried:
        match field.name:
            case "op":
                columns.append(_OPS.take(pa.array(batch.kinds)))
            case "ts_ms":
                columns.append(pa.repeat(pa.scalar(str(step.instant)), count))
            case "before":
                columns.append(_texts(batch.before, batch.has_before, "before" in batch.logged, compiled))
            case "after":
                columns.append(_texts(batch.after, batch.has_after, "after" in batch.logged, compiled))
            case other:
                raise InvariantViolation(f"no column {other} in Hudi's format")
    return pa.RecordBatch.from_arrays(columns, schema=carried)


def _texts(images: Images | None, present: np.ndarray, is_logged: bool, compiled: bool) -> pa.Array:
    absent = pa.scalar("null" if is_logged else None, pa.string())
    if images is None:
        return pa.repeat(absent, len(present))
    texts = image_texts(images, compiled=compiled)
    return texts if present.all() else pc.if_else(pa.array(present), texts, absent)
