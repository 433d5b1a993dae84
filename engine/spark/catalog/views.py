"""Temporary views of all tables of a server or of a folder."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.engine.spark.catalog.table_list import is_address, tables_of
from penstock.engine.spark.catalog.view_names import view_names
from penstock.proto.options.registry import EntryPoint, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("penstock.engine.spark")


@dataclass(frozen=True, slots=True)
class CreatedViews:
    """The result of `create_views`."""

    created: Mapping[str, str]
    """The path or name on the server of the table of each view, by the name of the view."""
    failed: Mapping[str, str]
    """Why a table has no view, by the table's name in the folder or on the server."""


def create_views(
    spark: SparkSession,
    source: str | os.PathLike[str],
    *,
    prefix: str = "",
    names: Mapping[str, str] | None = None,
    replace: bool = False,
    **options: object,
) -> CreatedViews:
    """Creates a temporary view of each table of a server or of a folder. Works in classic and Spark Connect sessions.

    `source` is the address HOST:PORT of a server, or the path or URI of a folder: every folder directly in it that
    contains `.hoodie` is a table. `options` apply to each view: the options of a batch read in snake_case, such as
    `as_of`.

    The name of a view is `prefix` and the name of the table, in which every character other than an ASCII letter, a
    digit and `_` becomes `_`; `t_` precedes a name that starts with a digit. `names` sets other names: {table: view}.
    A table gets no view if another table has the same view name (Spark ignores case), if a table of the current
    database has that name, or, without `replace`, if a temporary view has it.

    A table that fails does not affect the others: `failed` has the reason, which is also logged as a warning. As with
    every DataFrame, the first query over a view sets the snapshot that it reads; `replace=True` creates the views
    again, for the newest snapshot.

    Errors: TableNotFound if there is no table, ConfigurationError for an unknown option or an unknown table in `names`.
    """
    text = os.fspath(source)
    given = {name: value for name, value in options.items() if value is not None}
    parsed = parse_options(given, entry_point=EntryPoint.BATCH, environment=os.environ)
    tables = tables_of(text, parsed.access)
    planned = view_names(list(tables), prefix=prefix, names=names)
    settings = {name: _option_text(value) for name, value in given.items()}
    if is_address(text):
        settings["server"] = text
    failed = dict(planned.refused)
    created: dict[str, str] = {}
    for table, view in planned.views.items():
        listed = tables[table]
        reason = listed.error or _clash(spark, view, replace) or _create(spark, view, listed.location, settings)
        if reason:
            failed[table] = reason
        else:
            created[view] = listed.location
    for table, reason in failed.items():
        log.warning("table %s has no view: %s", table, reason)
    return CreatedViews(created, failed)


def _clash(spark: SparkSession, view: str, replace: bool) -> str:
    """Why the name of the view must not be used; '' if it is free, or is a temporary view that may be replaced."""
    try:
        existing = spark.catalog.getTable(f"`{view}`")
    except PySparkException as error:
        return "" if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND" else error_sentence(error)
    if not existing.isTemporary:
        return f"the current database has a table or view {view}, which the view would hide: give a prefix or names"
    return "" if replace else f"a temporary view {view} exists: give replace=True, a prefix or names"


def _create(spark: SparkSession, view: str, location: str, settings: Mapping[str, str]) -> str:
    """Creates the view. Returns why that failed, or ''."""
    try:
        frame = spark.read.format("penstock").options(**settings).load(location)
        frame.createOrReplaceTempView(f"`{view}`")
    except (PySparkException, Py4JError) as error:
        return error_sentence(error)
    return ""


def error_sentence(error: Exception) -> str:
    """The sentence of the Penstock error inside an error of Spark, else the first line of the latter."""
    text = str(error)
    match = re.search(r"\bpenstock\.[\w.]*errors\.(\w+: .*)$", text, re.MULTILINE)
    return (match[1] if match else text.partition("\n")[0])[:1000]


def _option_text(value: object) -> str:
    """The value of an option as Spark passes it."""
    return json.dumps(list(value)) if isinstance(value, list | tuple) else str(value)
