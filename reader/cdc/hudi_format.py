"""Changes as Hudi's own reader returns them: `op`, `ts_ms`, `before`, `after`, all text (Hudi `CDCRelation`). Pure.

`ts_ms` is the commit's requested time. A side that a change lacks is null; if the writer logged the images of that
side, it is the text `null`, as in Hudi.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import ChangeStep
from penstock.reader.cdc.images import Batch, ChangeBatch, Images
from penstock.reader.cdc.json_text import image_texts

_OPS: Final = pa.array(["i", "u", "d"], pa.string())


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
