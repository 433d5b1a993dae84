"""The table of a write as tasks on executors need it: values that Spark pickles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.operations import Operation
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.engine.write.settings import WriteSettings
from penstock.proto import errors
from penstock.proto.errors import PenstockError
from penstock.proto.model.splits import Scan, Split
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.avro import RecordSchema
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.writer.index.slices import LatestSlice, TableSlices

_NAMED_ERROR: Final = re.compile(r"penstock\.proto\.errors\.(\w+): ([^\n]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """A table in one state."""

    path: str
    """Its base path."""
    settings: WriteSettings
    """Its settings."""
    operation: Operation
    """The operation of the write."""
    record: RecordSchema | None
    """Its schema with meta columns; None for a table without any."""
    scan: Scan | None = None
    """How slices are read, for a task that reads rows of logs."""
    splits: Mapping[GroupId, Split] = field(default_factory=dict)
    """The slices as they are read, for such a task."""

    @property
    def preparation(self) -> RowPreparation:
        """How data becomes rows."""
        return RowPreparation(self.settings, self.operation)

    def storage(self) -> WritableStorage:
        """Its files."""
        return open_writable(self.path)

    def current(self, slices: Sequence[LatestSlice] = ()) -> CurrentTable:
        """The table with these of its slices."""
        by_partition: dict[str, list[LatestSlice]] = {}
        for item in slices:
            by_partition.setdefault(item.partition, []).append(item)
        return CurrentTable(
            table=HudiTable(self.storage(), self.settings.properties),
            record=self.record,
            slices=TableSlices(by_partition, frozenset()),
            scan=self.scan,
            splits=self.splits,
        )


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raises an error of Penstock that ended a task as itself, with its text alone: Spark's own has the text among the
    stacks of both languages."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        error_of_task = error_in(str(error))
        if error_of_task is None:
            raise
        raise error_of_task from error


def error_in(text: str) -> PenstockError | None:
    """The last error of Penstock that a text of Spark names; None if there is none."""
    for name, message in reversed(_NAMED_ERROR.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return kind(message.strip())
    return None
