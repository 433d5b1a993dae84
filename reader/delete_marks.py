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

from penstock.proto.errors import ConfigurationError
from penstock.proto.splits import DeleteMarker, Scan
from penstock.reader.mark_texts import has_mark, has_text
from penstock.table.schema.avro import OPERATION, AvroType, Primitive, RecordSchema

DELETE_MARK: Final = "_hoodie_is_deleted"
_GONE: Final = ("D", "-U")
_TEXT: Final = Primitive("string")


@dataclass(frozen=True, slots=True)
class DeleteMarks:
    """flag: the boolean column or ''. operation: the operation column or ''. custom: a column's value, or None;
    custom_type: that column's type."""

    flag: str = ""
    operation: str = ""
    custom: DeleteMarker | None = None
    custom_type: AvroType = _TEXT

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
            found.append(has_mark(batch.column(self.custom.field), self.custom_type, self.custom.value))
        marked: np.ndarray | None = None
        for answers in found:
            if answers.true_count:
                truths = answers.fill_null(False).to_numpy(zero_copy_only=False)
                marked = truths if marked is None else marked | truths
        return marked


def delete_marks(scan: Scan, record: RecordSchema) -> DeleteMarks:
    """The marks of the scan's table. A custom column that the table lacks marks nothing, as in Hudi.

    ConfigurationError for a nested custom column: its values have no text of their own.
    """
    fields = record.by_name()
    flag = fields.get(DELETE_MARK)
    operation = fields.get(OPERATION)
    custom = scan.delete_marker
    if custom is not None and custom.field not in fields:
        custom = None
    kind = _TEXT if custom is None else fields[custom.field].type
    if custom is not None and not has_text(kind):
        raise ConfigurationError(
            f"table {scan.table}: column {custom.field!r} marks deletes and is {kind}, whose values have no text to "
            "compare with the marker; name a column that is no record, list or map"
        )
    return DeleteMarks(
        flag=DELETE_MARK if flag is not None and flag.type == Primitive("boolean") else "",
        operation=OPERATION if operation is not None and operation.type == Primitive("string") else "",
        custom=custom,
        custom_type=kind,
    )
