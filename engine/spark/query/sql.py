"""`penstock.spark.sql`: runs the user's own query, with its columns and filters handed down to the scans."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException

from penstock.engine.spark.query.column_tree import name_of
from penstock.engine.spark.query.handed_down import SessionRules
from penstock.engine.spark.query.lexer import Token, UnreadableText, tokens_of
from penstock.engine.spark.query.narrowing import columns_in, where_of_any
from penstock.engine.spark.query.scan import Scanned, ScanRequest, scan, schema_of
from penstock.engine.spark.query.session import rules_of
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.uris import redacted_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.spark.query.occurrences import Analysis, Occurrence

log = logging.getLogger("penstock.engine.spark")

_NO_OPTIONS = {
    "path": "give the path in tables",
    "server": "give the argument server",
    "columns": "the query determines the columns of each scan",
    "where": "the query determines the rows of each scan",
    "asof": "write VERSION AS OF or TIMESTAMP AS OF after the table",
    "limit": "it would count rows before Spark has filtered them; write LIMIT in the query",
    "eventtime": "a filter holds the watermark back; use load()",
}


def sql(
    spark: SparkSession,
    query: str,
    tables: Mapping[str, str],
    *,
    server: str | None = None,
    args: Mapping[str, object] | Sequence[object] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The answer of a query, as `spark.sql` gives it, over the tables in `tables`: name in the query -> path or URI, or
    with `server` the name that the server gives the table.

    Spark runs `query` as it is written; only the names of these tables are replaced. Each of their occurrences is one
    scan, which reads the columns that the query names there, and only rows that pass the conditions that mean the same
    to the scan and to Spark. Spark evaluates every condition. `VERSION AS OF` an instant and `TIMESTAMP AS OF` a
    literal read the table as of that time. Other names are those of the session. `args`: values of the parameters of
    the query, as of `spark.sql`. `options`: read options for every scan, such as timelineTimezone.

    Raises `penstock.errors.ConfigurationError`: not a query, a text without an end, a name that is no identifier, a
    clause AS OF without a literal. Spark raises its own errors for a query that it cannot analyze.
    """
    names = _names(tables)
    for option in options or {}:
        if option.lower() in _NO_OPTIONS:
            raise ConfigurationError(f"option {option} of penstock.spark.sql: {_NO_OPTIONS[option.lower()]}")
    try:
        tokens = tokens_of(query)
    except UnreadableText as error:
        raise ConfigurationError(f"cannot read the query: {error}") from None
    from penstock.engine.spark.query.occurrences import analysis_of, is_query

    if not is_query(tokens):
        first = tokens[0].text if tokens else ""
        raise ConfigurationError(
            f"penstock.spark.sql runs queries: got {first[:40]!r}, expected SELECT or WITH; write the DataFrame that "
            "it returns instead, or create a view of it"
        )
    rules = rules_of(spark)
    running = _Running(spark, tables, server, tuple((options or {}).items()), rules)
    analysis = None
    if not (rules.quoted_names and any(query[token.start] == '"' for token in tokens)):
        analysis = analysis_of(query, tokens, names, case_sensitive=rules.case_sensitive)
    if analysis is None:
        text, scans = running.unanalyzed(query, tokens, names)
    else:
        text, scans = running.analyzed(query, analysis, running.narrow(tokens, analysis))
    given: dict[str, Any] = {} if args is None else {"args": dict(args) if isinstance(args, Mapping) else list(args)}
    if not scans:
        return spark.sql(query, **given)
    try:
        return spark.sql(text, **given, **scans)
    except ParseException:
        if not any(token.is_word("insert") for token in tokens):
            spark.sql(query, **given)  # raises the error with the positions of the text as it is written
        raise
    except AnalysisException:
        if analysis is None:
            raise
        text, scans = running.analyzed(query, analysis, {})  # so that the error suggests columns of the whole tables
        return spark.sql(text, **given, **scans)


def _names(tables: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Parts of each name -> the name."""
    names: dict[tuple[str, ...], str] = {}
    for name in tables:
        parsed = name_of(name)
        if parsed is None:
            raise ConfigurationError(
                f"tables: the name {name!r} is no identifier; write names with other characters in `backticks`"
            )
        names[parsed.parts] = name
    return names


class _Running:
    """Builds the scans of one query."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Mapping[str, str],
        server: str | None,
        options: tuple[tuple[str, str], ...],
        rules: SessionRules,
    ) -> None:
        self._spark, self._tables, self._server, self._options, self._rules = spark, tables, server, options, rules
        self._scans: dict[ScanRequest, Scanned] = {}
        self._fields: dict[ScanRequest, str] = {}
        self._frames: dict[str, Any] = {}
        self._schema = cache(lambda request: schema_of(spark, request))

    def narrow(self, tokens: Sequence[Token], analysis: Analysis) -> dict[Occurrence, tuple[tuple[str, ...], str]]:
        """The columns and the `where` of each occurrence."""
        from penstock.engine.spark.query.conditions import narrowed

        schemas = {occurrence: self._schema(self._request(occurrence)) for occurrence in analysis.occurrences}
        return narrowed(analysis, tokens, schemas, self._rules)

    def analyzed(
        self, query: str, analysis: Analysis, reads: Mapping[Occurrence, tuple[tuple[str, ...], str]]
    ) -> tuple[str, dict[str, Any]]:
        """The format string of the query, and field -> scan. An occurrence that is not in `reads` reads everything."""
        from penstock.engine.spark.query.rewrite import rewritten

        fields = {}
        for whole, occurrences in self._by_request(analysis).items():
            narrow: dict[Occurrence, ScanRequest] = {}
            for occurrence in occurrences:
                columns, where = reads.get(occurrence, ((), ""))
                narrow[occurrence] = replace(whole, columns=columns, where=where)
            for occurrence, request in self._of_one_state(whole, narrow).items():
                fields[occurrence] = self._field(whole, request)
        used = set(fields.values())
        return rewritten(query, analysis, fields), {name: self._frames[name] for name in self._frames if name in used}

    def unanalyzed(
        self, query: str, tokens: Sequence[Token], names: Mapping[tuple[str, ...], str]
    ) -> tuple[str, dict[str, Any]]:
        """As `analyzed`, for a query that cannot be analyzed: whole tables, whose names Spark resolves."""
        from penstock.engine.spark.query.rewrite import with_definitions

        log.warning("the query cannot be analyzed: every column and row of its tables is read")
        words = {token.text.lower() for token in tokens if token.is_name}
        fields = {}
        for parts, name in names.items():
            last = parts[-1]
            if last.lower() not in words:
                continue
            if len(parts) > 1:
                raise ConfigurationError(
                    f"table {name!r}: this query cannot be analyzed, so that a name of one part is needed; give the "
                    "table such a name in `tables` and in the query"
                )
            request = ScanRequest(self._tables[name], self._server, (), "", self._options)
            fields["`" + last.replace("`", "``") + "`"] = self._field(request, request)
        return (with_definitions(query, tokens, fields) if fields else query), self._frames

    def _by_request(self, analysis: Analysis) -> dict[ScanRequest, list[Occurrence]]:
        """The occurrences of each table and time, by the scan of the whole table."""
        groups: dict[ScanRequest, list[Occurrence]] = {}
        for occurrence in analysis.occurrences:
            groups.setdefault(self._request(occurrence), []).append(occurrence)
        return groups

    def _of_one_state(
        self, whole: ScanRequest, narrow: Mapping[Occurrence, ScanRequest]
    ) -> Mapping[Occurrence, ScanRequest]:
        """The requests of a table's occurrences so that all read the same state of it, as in plain Spark.

        If their plans show different instants, because a commit came between two of them: one request, and so one plan,
        with the columns and rows of all. Scans that Spark plans later stay as they are: it plans a scan for each
        occurrence, also if all have the same request.
        """
        requests = tuple(dict.fromkeys(narrow.values()))
        states = {self._scanned(whole, request).visible for request in requests}
        if len(states) == 1 or None in states:
            return narrow
        schema = self._schema(whole)
        columns: tuple[str, ...] = ()
        if all(request.columns for request in requests):
            columns = columns_in(schema, {name.lower() for request in requests for name in request.columns})
        where = where_of_any([request.where for request in requests], schema)
        log.debug("table %s: %d occurrences share one scan", redacted_uri(whole.table), len(narrow))
        return dict.fromkeys(narrow, replace(whole, columns=columns, where=where))

    def _request(self, occurrence: Occurrence) -> ScanRequest:
        """The scan of the whole table."""
        options = self._options
        if occurrence.as_of is not None:
            options = (*options, ("asOf", occurrence.as_of.option(self._rules)))
        return ScanRequest(self._tables[occurrence.key], self._server, (), "", options)

    def _field(self, whole: ScanRequest, request: ScanRequest) -> str:
        """The field of a scan. Occurrences that need the same share one scan, and so one plan."""
        if request not in self._fields:
            field = self._fields[request] = f"t{len(self._fields)}"
            log.debug("query: %s reads %s", field, request)
            self._frames[field] = self._scanned(whole, request).frame
        return self._fields[request]

    def _scanned(self, whole: ScanRequest, request: ScanRequest) -> Scanned:
        if request not in self._scans:
            self._scans[request] = self._narrow(whole, request)
        return self._scans[request]

    def _narrow(self, whole: ScanRequest, request: ScanRequest) -> Scanned:
        if request == whole:
            return scan(self._spark, whole, always_now=True)
        schema = self._schema(whole)
        columns = [schema[column] for column in request.columns] if request.columns else schema.fields
        return scan(self._spark, request, type(schema)(columns), always_now=True)
