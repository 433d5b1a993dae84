"""Typed access to the fields of a decoded metadata record, JSON or Avro alike. Pure.

Belongs here: the errors that name instant, file and field. Not here: which fields there are (`commits`, `plans`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.proto.errors import CorruptFile
from penstock.table.parquet.checks import MAX_FILE_ROWS
from penstock.table.storage.filesystem import checked_path

_INT64_END = 2**63
MAX_FILE_BYTES = 2**46
"""The most bytes that a file is taken to have: 64 TiB, above what any store holds."""


def _within(value: int, limit: int) -> int:
    return max(-limit, min(limit, value))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one record; `where` names table, instant and file, `path` the record within it.

    A field of another type than asked is CorruptFile; one that is absent or null is the default, or CorruptFile where
    it is required. Unknown fields are never looked at.
    """

    values: Mapping[str, object]
    where: str
    path: str = ""

    def text(self, name: str) -> str:
        """A string; '' if absent or null."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def required_text(self, name: str) -> str:
        """A string that must be there and not be empty."""
        value = self.text(name)
        if not value:
            raise self.missing(name)
        return value

    def file_path(self, name: str) -> str:
        """A path under the table's base path; '' if absent or null."""
        return self.checked(name, self.text(name))

    def file_names(self, name: str) -> tuple[str, ...]:
        """A list of file names without folders; () if absent or null."""
        return tuple(self.bare(name, item) for item in self.texts(name))

    def file_name(self, name: str) -> str:
        """A file name without folders; '' if absent or null."""
        value = self.text(name)
        return self.bare(name, value) if value else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; () if absent or null."""
        return tuple(self._as_text(name, item) for item in self.items(name))

    def number(self, name: str) -> int:
        """A 64-bit whole number; 0 if absent or null."""
        value = self.values.get(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not -_INT64_END <= value < _INT64_END:
            raise self._wrong(name, value, "a 64-bit whole number")
        return value

    def count(self, name: str) -> int:
        """A number of rows of one file, which some writers leave negative for unknown; 0 if absent or null. One that no
        file can have is MAX_FILE_ROWS: Hudi reads such a table, and no row depends on it."""
        return _within(self.number(name), MAX_FILE_ROWS)

    def file_bytes(self, name: str) -> int:
        """The size of one file, else as `count`, with MAX_FILE_BYTES."""
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
        """A map that must be there (it may be empty)."""
        if self.values.get(name) is None:
            raise self.missing(name)
        return self.mapping(name)

    def partitions(self, name: str, *, required: bool = False) -> Iterator[tuple[str, Fields]]:
        """The entries of a map by partition, each as a record whose field `of` is the value; keys are checked."""
        found = self.required_mapping(name) if required else self.mapping(name)
        for partition, value in found.items():
            self.checked(name, partition)
            yield partition, Fields({"of": value}, self.where, f"{self.path}{name}[{partition[:100]}].")

    def within(self, name: str, where: str) -> Fields:
        """A record that must be there, told of in errors by a `where` of its own."""
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise CorruptFile(f"{where} lacks the record {name}: the file is damaged or was not Hudi's")
        return Fields(value, where)

    def nested(self, name: str, value: object) -> Fields:
        """A record within this one."""
        if not isinstance(value, dict):
            raise self._wrong(name, value, "a record")
        return Fields(value, self.where, f"{self.path}{name}.")

    def checked(self, name: str, path: str) -> str:
        """The path if it stays under the base path (`checked_path`), else CorruptFile naming the field too."""
        try:
            return checked_path(path)
        except CorruptFile as error:
            raise CorruptFile(f"{self.where}, field {self.path}{name}: {error}") from None

    def bare(self, name: str, value: str) -> str:
        """The text if it is a file name without folders."""
        if not value or "/" in value:
            raise self._wrong(name, value, "a file name without folders")
        return self.checked(name, value)

    def missing(self, name: str) -> CorruptFile:
        """The error for a required field that is not there."""
        return CorruptFile(f"{self.where} lacks the field {self.path}{name}: the file is damaged or was not Hudi's")

    def _as_text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def _wrong(self, name: str, value: object, expected: str) -> CorruptFile:
        try:
            shown = str(value)[:80]
        except RecursionError:
            shown = "a value that nests too deeply"
        return CorruptFile(f"{self.where}, field {self.path}{name}: got {shown!r}, expected {expected}")
