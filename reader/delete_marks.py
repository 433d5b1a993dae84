"""Which data records of a log say that their key is deleted, instead of holding a row.

Belongs here: Hudi's marks (`DeleteContext`): the column `_hoodie_is_deleted`, the operation of a change log, a custom
column with a custom value. Not here: deletes that are blocks of their own, and what a delete wins against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.splits import DeleteMarker, Scan
from penstock.table.schema.avro import EnumType, Primitive, RecordSchema

DELETE_MARK: Final = "_hoodie_is_deleted"
OPERATION: Final = "_hoodie_operation"
_GONE: Final = ("D", "-U")
_TEXTS: Final = ("string", "int", "long", "boolean")


@dataclass(frozen=True, slots=True)
class DeleteMarks:
    """flag: the boolean column or ''. operation: the operation column or ''. custom: a column's value, or None."""

    flag: str = ""
    operation: str = ""
    custom: DeleteMarker | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to look at."""
        custom = self.custom.field if self.custom is not None else ""
        return tuple(filter(None, (self.flag, self.operation, custom)))

    def marked(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows of a batch with these columns are deletes; None if none is."""
        found: list[pa.Array] = []
        if self.flag:
            found.append(batch.column(self.flag))
        if self.operation:
            found.append(pc.is_in(batch.column(self.operation), value_set=pa.array(_GONE)))
        if self.custom is not None:
            found.append(pc.equal(batch.column(self.custom.field).cast(pa.string()), self.custom.value))
        marked: np.ndarray | None = None
        for answers in found:
            if answers.true_count:
                truths = answers.fill_null(False).to_numpy(zero_copy_only=False)
                marked = truths if marked is None else marked | truths
        return marked


def delete_marks(scan: Scan, record: RecordSchema) -> DeleteMarks:
    """The marks of the scan's table. A custom column that the table lacks marks nothing, as in Hudi.

    UnsupportedFeature for a custom column whose values' Java text is not known here.
    """
    fields = record.by_name()
    flag = fields.get(DELETE_MARK)
    operation = fields.get(OPERATION)
    custom = scan.delete_marker
    if custom is not None and custom.field not in fields:
        custom = None
    if custom is not None:
        kind = fields[custom.field].type
        if not (
            isinstance(kind, EnumType) or (isinstance(kind, Primitive) and not kind.logical and kind.kind in _TEXTS)
        ):
            raise UnsupportedFeature(
                f"table {scan.table}: column {custom.field!r} marks deletes and is {kind}; only text, whole numbers "
                "and booleans are read as marks"
            )
    return DeleteMarks(
        flag=DELETE_MARK if flag is not None and flag.type == Primitive("boolean") else "",
        operation=OPERATION if operation is not None and operation.type == Primitive("string") else "",
        custom=custom,
    )
