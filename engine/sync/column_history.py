"""Whether the columns that a copy has are still the same columns of the source. Pure.

Names and types do not say so: with a schema-on-read history, `ALTER TABLE` can rename columns, or drop a column and add
another one of its name. Hudi then reads other values of rows that no commit has written again. The history has an id
for each column and nested field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from penstock.table.schema.history import HistoryField, SchemaHistory


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """The columns of a source, as stored with a position."""

    ids: Mapping[str, int | None]
    """Names of columns and, joined by dots, of nested fields, with their ids; None without a history, and then only
    columns."""
    is_renamed: bool = False
    """Whether the history has a version in which a name has another id, or an id another name."""

    def as_json(self) -> dict[str, object]:
        """The form in which it is stored."""
        return {"ids": dict(self.ids), "is_renamed": self.is_renamed}


def known_columns(names: Iterable[str], history: SchemaHistory | None) -> KnownColumns:
    """The columns of a table with these names and this history."""
    own = [name for name in names if name not in (*META_COLUMNS, OPERATION)]
    if history is None:
        return KnownColumns(dict.fromkeys(own))
    current = _ids(history.current.columns)
    listed = {name: id_ for name, id_ in current.items() if name.partition(".")[0] in own}
    names_by_id = {id_: name for name, id_ in current.items()}
    older = [one for version in history.versions[1:] for one in _ids(version.columns).items()]
    is_renamed = any(
        current.get(name, id_) != id_ or names_by_id.get(id_, name) != name for name, id_ in older
    )  # fmt: skip
    return KnownColumns({**dict.fromkeys(own), **listed}, is_renamed)


def parsed_columns(value: object) -> KnownColumns | None:
    """The columns of `KnownColumns.as_json`; None for None. ConfigurationError for anything else."""
    if value is None:
        return None
    match value:
        case {"ids": dict(ids), "is_renamed": bool(is_renamed)} if all(
            isinstance(name, str) and (id_ is None or type(id_) is int) for name, id_ in ids.items()
        ):
            return KnownColumns(ids, is_renamed)
    raise ConfigurationError(f"columns of a position: got {str(value)[:100]}")


def check_kept(table: str, before: KnownColumns, now: KnownColumns, history: SchemaHistory | None) -> None:
    """SchemaMismatch if a column is gone, or has the values of another one: the rows of the copy are then not those of
    Hudi, also where no commit has written them again."""
    again = "load the table again (--restart)"
    known = before.ids
    if history is not None and not any(id_ is not None for id_ in known.values()):
        # the history began after the copy had its rows: its first version has the columns of before
        oldest = _ids(history.versions[-1].columns)
        known = {**known, **{name: id_ for name, id_ in oldest.items() if name.partition(".")[0] in known}}
    if history is None and before.is_renamed:
        raise SchemaMismatch(
            f"table {table}: a writer without schema-on-read has ended its schema history, so Hudi finds the columns "
            f"of older files by their names now, and some had other names: {again}"
        )
    names = {id_: name for name, id_ in now.ids.items() if id_ is not None}
    for name, id_ in known.items():
        if history is None and "." in name:
            continue  # without a history only columns are listed; the type of the column has its fields
        if name not in now.ids:
            renamed = f": its name is now {names[id_]}" if id_ in names else ""
            raise SchemaMismatch(f"table {table}: the source no longer has column {name}{renamed}: {again}")
        if history is not None and id_ is not None and now.ids[name] != id_:
            raise SchemaMismatch(
                f"table {table}: column {name} is another column than before, which was dropped or renamed: {again}"
            )


def _ids(fields: Sequence[HistoryField], prefix: str = "") -> dict[str, int]:
    ids: dict[str, int] = {}
    for one in fields:
        if prefix or one.name not in (*META_COLUMNS, OPERATION):
            ids[prefix + one.name] = one.id
            ids.update(_ids(one.children, f"{prefix}{one.name}."))
    return ids
