"""A file slice read from disk to merged rows: base file by pyarrow's to_pylist, logs by `log_file`, rows as dicts."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from tests.oracle import log_file
from tests.oracle.merge import DATA, DELETE, Record, merge

KEY = "_hoodie_record_key"
_CLASSES = {
    "int": "IntWrapper",
    "long": "LongWrapper",
    "float": "FloatWrapper",
    "double": "DoubleWrapper",
    "string": "StringWrapper",
    "date": "DateWrapper",
    "decimal": "DecimalWrapper",
    "timestamp": "LongWrapper",
}
_ROWS = (log_file.AVRO_DATA, log_file.PARQUET_DATA, log_file.DELETE)
_ZEROS = {"int": 0, "date": datetime.date(1970, 1, 1)}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class FileSlice:
    """The paths to read, the instants whose blocks count, and the comparison of records.

    `ordering` is (column, its kind: a key of `_CLASSES`), or None for commit time. `sortable` maps ordering values.
    `key_fields` form the key if no meta columns are written. `stores_operation`: whether the table's schema has the
    column `_hoodie_operation`.
    """

    base: pathlib.Path | None
    logs: Sequence[pathlib.Path]
    base_instant: str = ""
    visible: Callable[[str], bool] = lambda instant: True
    ordering: tuple[str, str] | None = None
    sortable: Callable[[Any], Any] = field(default=lambda value: value)
    key_fields: Sequence[str] = ()
    stores_operation: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """Merged rows in output order."""
        blocks = self._counting_blocks()
        located = [self._located(block) for block in blocks]
        by_position = self.base is not None and bool(blocks) and all(position is not None for position in located)
        records: list[Record] = []
        for block, places in zip(blocks, located, strict=True):
            own = self._records(block)
            if by_position:
                assert places is not None
                own = [_at(record, place) for record, place in zip(own, places, strict=True)]
            records += own
        return merge(
            self._row_groups(),
            records,
            event_time=self.ordering is not None,
            key_of=(lambda row, place: place) if by_position else (lambda row, place: self._key(row)),
            ordering_of=lambda row: self._compared(row.get(self.ordering[0])) if self.ordering else None,
        )

    def _counting_blocks(self) -> list[log_file.Block]:
        by_instant: dict[str, list[log_file.Block]] = {}
        for log in self.logs:
            for block in log_file.blocks(log.read_bytes()):
                instant = block.header(log_file.INSTANT_TIME)
                if block.kind == log_file.COMMAND:
                    by_instant.pop(block.header(log_file.TARGET_INSTANT_TIME), None)
                elif block.kind in _ROWS and self.visible(instant):
                    by_instant.setdefault(instant, []).append(block)
        return [block for instant in _after_log_compaction(by_instant) for block in by_instant[instant]]

    def _located(self, block: log_file.Block) -> list[int] | None:
        if block.headers.get(log_file.POSITIONS_BASE) != self.base_instant or not self.base_instant:
            return None
        places = log_file.positions(block)
        return places if places is not None and len(places) == len(self._records(block)) else None

    def _records(self, block: log_file.Block) -> list[Record]:
        if block.kind != log_file.DELETE:
            return [self._data_record(row) for row in log_file.data_records(block)]
        return [self._delete_record(*entry) for entry in log_file.delete_entries(block)]

    def _data_record(self, row: dict[str, Any]) -> Record:
        value = row.get(self.ordering[0]) if self.ordering else None
        is_minus = self.stores_operation and row.get("_hoodie_operation") in ("D", "-U")
        if is_minus or row.get("_hoodie_is_deleted") is True:
            is_int = self.ordering is not None and self.ordering[1] == "int"
            default = value is None or (is_int and value == 0)
            return Record(self._key(row), DELETE, self._compared(value), default)
        return Record(self._key(row), DATA, self._compared(value), row=row)

    def _compared(self, value: Any) -> Any:
        """The value as Hudi compares it: a null is the integer 0, which compares only with ints and dates."""
        if value is None and self.ordering is not None:
            value = _ZEROS.get(self.ordering[1])
        return self.sortable(value)

    def _key(self, row: dict[str, Any]) -> str:
        if not self.key_fields:
            return str(row[KEY])
        texts = {name: _key_text(row[name]) for name in self.key_fields}
        return (
            next(iter(texts.values()))
            if len(texts) == 1
            else ",".join(f"{name}:{text}" for name, text in texts.items())
        )

    def _delete_record(self, key: str, wrapper: str, value: Any) -> Record:
        if self.ordering is None or wrapper == "" or (wrapper == "IntWrapper" and value == 0):
            return Record(key, DELETE, default=True)
        kind = self.ordering[1]
        own = wrapper == _CLASSES[kind] or (kind == "timestamp" and wrapper == "TimestampMicrosWrapper")
        if not own:
            return Record(key, DELETE, default=True)
        if kind == "date":
            value = datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
        if kind == "timestamp":
            value = _EPOCH + datetime.timedelta(microseconds=value)
        return Record(key, DELETE, self.sortable(value))

    def _row_groups(self) -> list[list[dict[str, Any]]]:
        if self.base is None:
            return []
        with pq.ParquetFile(self.base) as file:
            return [file.read_row_group(number).to_pylist() for number in range(file.num_row_groups)]


def _after_log_compaction(by_instant: dict[str, list[log_file.Block]]) -> list[str]:
    """Hudi's backward scan: a log compaction names its original blocks; the first original on the way is replaced by
    it."""
    went_to: dict[str, str] = {}
    backwards: list[str] = []
    for instant in reversed(by_instant):
        times = [block.headers.get(log_file.COMPACTED, "") for block in by_instant[instant]]
        if any(times):
            for original in ",".join(filter(None, times)).split(","):
                went_to[original] = went_to.get(instant, instant)
        elif went_to.get(instant, instant) not in backwards:
            backwards.append(went_to.get(instant, instant))
    return backwards[::-1]


def _key_text(value: Any) -> str:
    if value is None:
        return "__null__"
    return (str(value).lower() if isinstance(value, bool) else str(value)) or "__empty__"


def _at(record: Record, place: int) -> Record:
    return Record(place, record.what, record.ordering, record.default, record.row)
