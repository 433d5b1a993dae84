"""Finds the function that merges records of a table with a custom merger or payload class, and checks its results.

A table names a merge strategy or a payload class, which is Java. What is imported instead is chosen by the user alone:
by an option (`mergers`), or by an installed entry point of the group `penstock.mergers` whose name is that of the
table's merger. The name in the table is compared with the registered names, and never imported.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import ConfigurationError, SchemaMismatch, UnsupportedFeature
from penstock.proto.model.splits import CustomMerge
from penstock.reader.merge.payload_orders import first_value_in_log, first_value_with_base, reverse_order
from penstock.reader.values.field_paths import names_in
from penstock.reader.values.record_keys import RECORD_KEY

GROUP: Final = "penstock.mergers"
"""The group of entry points."""
DELETED: Final = "_penstock_deleted"
"""The last column of a function's batches (boolean, never null): true for a record that deletes its key."""

MergeFunction = Callable[[pa.RecordBatch, pa.RecordBatch, tuple[str, ...]], pa.RecordBatch]
"""(older, newer, ordering) -> merged; see `docs/reference/semantics.md`, "Custom mergers"."""

Mergers = tuple[tuple[str, str], ...]
"""The option `mergers`: (strategy id or payload class, `module:function`) pairs."""

_COMMIT_TIME: Final = "_hoodie_commit_time"
_TARGET: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class MergeFunctions:
    """The functions of a merger."""

    in_log: MergeFunction
    """Merges two records of a log."""
    with_base: MergeFunction
    """Merges a base row with the result of its log."""
    newest_version: int | None = None
    """Of Penstock's own functions: the newest table version for which they merge as the payload class does. None for a
    function of the user's."""


_OWN: Final[Mapping[str, MergeFunctions]] = {
    "org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload": MergeFunctions(reverse_order, reverse_order, 9),
    "org.apache.hudi.common.model.FirstValueAvroPayload": MergeFunctions(first_value_in_log, first_value_with_base, 6),
}
"""Payload classes of Hudi that order records, but in no merge mode. Hudi 0.15.0 writes tables of version 6."""


@dataclass(frozen=True, slots=True)
class Merger:
    """A function that merges the records of a table, with checks."""

    custom: CustomMerge
    """What the table names."""
    functions: MergeFunctions
    """The functions."""
    schema: pa.Schema
    """The columns of its batches: those of the table's files, then `DELETED`."""
    where: str
    """The beginning of error texts: table and file."""

    def merged(self, older: pa.RecordBatch, newer: pa.RecordBatch, *, with_base: bool = False) -> pa.RecordBatch:
        """Row i of both as one row; `with_base`: of a base file and of the result of its log.

        ConfigurationError, with table, file and merger, if the function raises an error or returns anything but a valid
        result.
        """
        ordering = names_in(self.schema, self.custom.ordering_fields)
        try:
            function = self.functions.with_base if with_base else self.functions.in_log
            result: Any = function(older, newer, ordering)
        except Exception as error:
            raise ConfigurationError(
                f"{self._what}: the function failed: {type(error).__name__}: {str(error)[:500]}"
            ) from error
        if problem := self._problem(result, older, newer):
            raise ConfigurationError(f"{self._what}: {problem}")
        merged: pa.RecordBatch = result
        return merged

    @property
    def _what(self) -> str:
        return f"{self.where}: merger {self.custom.name}"

    def _problem(self, result: Any, older: pa.RecordBatch, newer: pa.RecordBatch) -> str:
        """What is wrong with a result; '' if nothing is."""
        if not isinstance(result, pa.RecordBatch):
            return f"the function returned a {type(result).__name__}, expected a pyarrow.RecordBatch"
        if result.num_rows != newer.num_rows:
            return f"the function returned {result.num_rows} rows for {newer.num_rows} pairs: row i is that of pair i"
        if result.schema.names != self.schema.names or result.schema.types != self.schema.types:
            return f"the function returned the columns {_columns(result.schema)}, expected {_columns(self.schema)}"
        try:
            result.validate()
        except pa.ArrowInvalid as error:
            return f"the function returned an invalid batch: {str(error)[:300]}"
        deleted = result.column(DELETED)
        if deleted.null_count:
            return f"the function returned {deleted.null_count} nulls in {DELETED}, expected true or false"
        if RECORD_KEY in self.schema.names and not result.column(RECORD_KEY).equals(newer.column(RECORD_KEY)):
            return f"the function changed values of {RECORD_KEY}"
        if _COMMIT_TIME in self.schema.names:
            times, stays = result.column(_COMMIT_TIME), pc.invert(deleted)
            known = [_same(times, side.column(_COMMIT_TIME)) for side in (older, newer)]
            if pc.any(pc.and_(stays, pc.invert(pc.or_(*known)))).as_py():
                return (
                    f"the function returned a {_COMMIT_TIME} that is neither the older nor the newer record's, by "
                    "which ranges find the row"
                )
        return ""


def merger_of(custom: CustomMerge, version: int, registered: Mergers, table: pa.Schema, where: str) -> Merger:
    """The merger for what a table of this version names, with batches of these columns.

    ConfigurationError for a registered function that cannot be imported. UnsupportedFeature, beginning with what the
    table names, if no function is found. SchemaMismatch if Penstock has the function and the table lacks an ordering
    field.
    """
    functions = find_functions(custom, version, registered, where)
    present = names_in(table, custom.ordering_fields)
    missing = next((name for name in custom.ordering_fields if name not in present), None)
    if functions.newest_version is not None and missing is not None:
        raise SchemaMismatch(
            f"payload class {custom.name} with the ordering field {missing[:200]}: {where} has no such column, and "
            "no such field of a struct: register a function for the class by the option mergers"
        )
    columns = [pa.field(field.name, field.type) for field in table]
    return Merger(custom, functions, pa.schema([*columns, pa.field(DELETED, pa.bool_())]), where)


def find_functions(custom: CustomMerge, version: int, registered: Mergers, where: str) -> MergeFunctions:
    """The functions for what a table of this version names: the user's by the option, else Penstock's own, else the
    user's by an entry point. Errors as `merger_of`."""
    targets = {name.lower(): target for name, target in registered}
    if (target := targets.get(custom.name.lower())) is not None:
        return _imported(target, f"option mergers, {custom.name[:200]}")
    own = _OWN.get(custom.name) if custom.of_payload else None
    if own is not None and own.newest_version is not None and version <= own.newest_version:
        return own
    installed = _installed()
    if (target := installed.get(custom.name.lower())) is not None:
        return _imported(target, f"entry point {custom.name[:200]} of the group {GROUP}")
    kind = "payload class" if custom.of_payload else "record merge strategy"
    raise UnsupportedFeature(
        f"{kind} {custom.name[:200]} (a merger of the user's): {where} uses it, and no function is registered for it: "
        f"give the option mergers, as {custom.name[:200]}=package.module:function, or install a package with an entry "
        f"point of this name in the group {GROUP} (docs/reference/semantics.md, Custom mergers)"
    )


@functools.cache
def _installed() -> dict[str, str]:
    """Name in lower case -> target of the entry points, read once for each process."""
    from importlib.metadata import entry_points  # late: the import takes as long as a small read

    return {entry.name.lower(): entry.value for entry in entry_points(group=GROUP)}


@functools.lru_cache(maxsize=64)
def _imported(target: str, origin: str) -> MergeFunctions:
    if not _TARGET.fullmatch(target):
        raise ConfigurationError(f"{origin}: got {target[:200]!r}, expected package.module:function")
    module, _, name = target.partition(":")
    try:
        function: Any = functools.reduce(getattr, name.split("."), import_module(module))
    except Exception as error:
        raise ConfigurationError(
            f"{origin}: {target[:200]} cannot be imported: {type(error).__name__}: {str(error)[:300]}"
        ) from error
    if not callable(function):
        raise ConfigurationError(f"{origin}: {target[:200]} is a {type(function).__name__}, expected a function")
    return MergeFunctions(function, function)


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Which values are equal; two nulls are."""
    return pc.or_(pc.equal(left, right).fill_null(False), pc.and_(left.is_null(), right.is_null()))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)[:1000]
