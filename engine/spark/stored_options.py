"""The options of a table that `CREATE TABLE … USING penstock` creates. Pure.

Spark calls `DataSource.schema()` with the properties of the new table, and stores the schema that it returns. Later
reads get this schema, but neither the location nor the options of the table (`PythonDataSourceV2.getTable` of Spark 4.2
and 4.3 drops them). Therefore both are stored in the metadata of the schema's first column. A schema that the user
writes into the statement has no such metadata, and its table cannot be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import option_named
from penstock.table.storage.uris import folder_uri

_KEY: Final = "penstock.table"
"""The key of the options in a column's metadata."""
_FORMAT: Final = "penstock"
_OPTION_PREFIX: Final = "option."
"""Spark passes the clause OPTIONS with this prefix, and without it among the TBLPROPERTIES."""


def options_of_new_table(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of the read if `given` are the properties of a table that Spark creates; None for a load().

    ConfigurationError: no path, or TBLPROPERTIES hold an option, which would have no effect.
    """
    properties = {name.lower(): value for name, value in given.items()}
    if properties.get("provider", "").lower() != _FORMAT:
        return None
    options = {
        name.removeprefix(_OPTION_PREFIX): value
        for name, value in properties.items()
        if name.startswith(_OPTION_PREFIX)
    }
    for name in sorted(properties.keys() - options.keys()):
        if (option := option_named(name)) is not None:
            raise ConfigurationError(
                f"CREATE TABLE: TBLPROPERTIES contain the option {option.name}, which has no effect there: give it in"
                f" OPTIONS ({option.name} '…')"
            )
    path = properties.get("location") or options.get("path", "")
    if not path:
        raise ConfigurationError(
            "CREATE TABLE: no path: give LOCATION '…' or OPTIONS (path '…') with the path of the Hudi table, or with "
            "the option server its name there"
        )
    options["path"] = path if "server" in options else _absolute(path)
    _check_storable(options)
    return options


def _check_storable(options: Mapping[str, str]) -> None:
    """ConfigurationError for functions: the metadata of a table must not choose the code that its readers import."""
    for name in options:
        if (option := option_named(name)) is not None and option.name == "mergers":
            raise ConfigurationError(
                f"table of Spark's catalog: the option {option.name} is not stored, because a table must not choose "
                "the code that its readers import: install the function as an entry point of the group "
                "penstock.mergers, or give the option to a load()"
            )


def _absolute(path: str) -> str:
    """The location for reads in any process: an absolute local path, or a URI. Spark gives a local path as
    file:/PATH without percent-encoding."""
    scheme, _, rest = path.partition(":")
    if scheme.lower() == "file":
        return "/" + rest.lstrip("/")
    return path if folder_uri(path) else os.path.abspath(path)  # noqa: PTH100  keeps symbolic links, unlike resolve()


def with_stored_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema, with the options in the metadata of its first column."""
    fields = list(schema.fields)
    first = fields[0]
    metadata = {**first.metadata, _KEY: json.dumps(dict(options), sort_keys=True)}
    fields[0] = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType(fields)


def options_of_read(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read with this schema: those given, or for a table of the catalog those that it stored.

    ConfigurationError: neither the read nor the schema names a table, or a read of a table of the catalog has options
    of its own (`SELECT … FROM t WITH (…)`). Spark 4.2 and 4.3 create one source for all references of a table in a
    query (`PythonDataSourceV2.getOrCreateDataSourceInPython`), with the options of the first reference. The others
    would return wrong rows.
    """
    options = {name.lower(): value for name, value in given.items()}
    if "path" in options or "paths" in options:
        return options
    stored = next((field.metadata[_KEY] for field in schema.fields if _KEY in field.metadata), None)
    if stored is None:
        raise ConfigurationError(
            "no table: Spark passed neither a path nor a table's stored options. A table that was created with a list "
            "of columns cannot work, because Spark does not pass its path and options to the source: leave the list "
            "out, as in CREATE TABLE t USING penstock OPTIONS (path '…', columns 'a,b'). For load(): give it the path, "
            "or with the option server the table's name"
        )
    if options:
        raise ConfigurationError(
            f"a table of Spark's catalog is read with options ({', '.join(sorted(options))[:300]}): Spark would apply "
            "them to every reference of the table in the query, or to none. Create another table with these OPTIONS, "
            "or a temporary view of a load() with them"
        )
    return _parsed(stored)


def without_stored_options(schema: StructType) -> StructType:
    """The schema without the metadata of `with_stored_options`."""
    return StructType(
        [
            StructField(
                field.name, field.dataType, field.nullable, {k: v for k, v in field.metadata.items() if k != _KEY}
            )
            for field in schema.fields
        ]
    )


def _parsed(stored: object) -> dict[str, str]:
    try:
        options = json.loads(stored) if isinstance(stored, str) else None
    except json.JSONDecodeError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise ConfigurationError(
            f"the metadata {_KEY} of the table's first column is damaged: got {str(stored)[:200]!r}, expected a JSON"
            " object of options; drop the table from the catalog and create it again"
        )
    _check_storable(options)
    return options
