"""Typed access to the fields of a decoded metadata record, from JSON or Avro. Errors name instant, file and field.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass
from penstock.table.parquet.checks import MAX_FILE_ROWS
from penstock.table.storage.filesystem import checked_path, is_plain_path

_INT64_END = 2**63
MAX_FILE_BYTES = 2**46
"""Upper limit of the size of one file: 64 TiB, more than any object store allows."""


def _within(value: int, limit: int) -> int:
    return max(-limit, min(limit, value))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one record.

    A field of the wrong type raises CorruptFile. An absent or null field has the default value, or raises CorruptFile
    if it is required. Unknown fields are ignored.
    """

    values: Mapping[str, object]
    """The decoded fields by name."""
    where: str
    """Table, instant and file, for errors."""
    path: str = ""
    """Path of the record within the file, for errors."""

    def text(self, name: str) -> str:
        """A string; '' if absent or null."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def required_text(self, name: str) -> str:
        """A required string, not empty."""
        value = self.text(name)
        if not value:
            raise self.missing(name)
        return value

    def file_path(self, name: str) -> str:
        """A path under the table's base path; '' if absent or null."""
        return self.checked(name, self.text(name))

    def file_names(self, name: str) -> tuple[str, ...]:
        """A list of file names without folders; () if absent or null."""
        return tuple([self.bare(name, item) for item in self.texts(name)])

    def file_name(self, name: str) -> str:
        """A file name without folders; '' if absent or null."""
        value = self.text(name)
        return self.bare(name, value) if value else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; () if absent or null."""
        return tuple([self._as_text(name, item) for item in self.items(name)])

    def number(self, name: str) -> int:
        """A 64-bit whole number; 0 if absent or null."""
        value = self.values.get(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not -_INT64_END <= value < _INT64_END:
            raise self._wrong(name, value, "a 64-bit whole number")
        return value

    def count(self, name: str) -> int:
        """A number of rows of one file; negative if unknown to some writers, 0 if absent or null.

        A larger number is reduced to MAX_FILE_ROWS instead of refused: Hudi reads such a table, and no row depends on
        it.
        """
        value = self.values.get(name)
        if value is None:
            return 0
        return (
            value
            if type(value) is int and -MAX_FILE_ROWS <= value <= MAX_FILE_ROWS
            else _within(self.number(name), MAX_FILE_ROWS)
        )

    def file_bytes(self, name: str) -> int:
        """The size of one file in bytes; otherwise as `count`, with the limit MAX_FILE_BYTES."""
        return _within(self.number(name), MAX_FILE_BYTES)

    def flag(self, name: str) -> bool:
        """A boolean; False if absent or null."""
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def items(self, name: str) -> list[object]:
        """A list; [] if absent or null."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, value, "a list")
        return value

    def records(self, name: str) -> Iterator[Fields]:
        """The records of a list; none if absent or null."""
        for index, item in enumerate(self.items(name)):
            yield self.nested(f"{name}[{index}]", item)

    def mapping(self, name: str) -> Mapping[str, object]:
        """A map with text keys; empty if absent or null."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self._wrong(name, value, "a map")
        return value

    def required_mapping(self, name: str) -> Mapping[str, object]:
        """A required map, which may be empty."""
        if self.values.get(name) is None:
            raise self.missing(name)
        return self.mapping(name)

    def partitions(self, name: str, *, required: bool = False) -> Iterator[tuple[str, Fields]]:
        """The entries of a map by partition, each as a record with the value in the field `of`. Checks the keys."""
        entries = self.required_mapping(name) if required else self.mapping(name)
        for partition, value in entries.items():
            self.checked(name, partition)
            yield partition, Fields({"of": value}, self.where, f"{self.path}{name}[{partition[:100]}].")

    def within(self, name: str, where: str) -> Fields:
        """A required record, with its own `where` for errors."""
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise CorruptFile(f"{where} lacks the record {name}: the file is damaged, or Hudi did not write it")
        return Fields(value, where)

    def nested(self, name: str, value: object) -> Fields:
        """A record within this one."""
        if not isinstance(value, dict):
            raise self._wrong(name, value, "a record")
        return Fields(value, self.where, f"{self.path}{name}.")

    def checked(self, name: str, path: str) -> str:
        """The path, if it stays under the base path (`checked_path`); else CorruptFile with the field."""
        if is_plain_path(path):
            return path
        try:
            return checked_path(path)
        except CorruptFile as error:
            raise CorruptFile(f"{self.where}, field {self.path}{name}: {error}") from None

    def bare(self, name: str, value: str) -> str:
        """The text, if it is a file name without folders; else CorruptFile."""
        if not value or "/" in value:
            raise self._wrong(name, value, "a file name without folders")
        return self.checked(name, value)

    def missing(self, name: str) -> CorruptFile:
        """The error for a missing required field."""
        return CorruptFile(
            f"{self.where} lacks the field {self.path}{name}: the file is damaged, or Hudi did not write it"
        )

    def _as_text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def _wrong(self, name: str, value: object, expected: str) -> CorruptFile:
        try:
            got = str(value)[:80]
        except RecursionError:
            got = "a value that nests too deeply"
        return CorruptFile(f"{self.where}, field {self.path}{name}: got {got!r}, expected {expected}")
