"""The entries of the golden tables that count, and Penstock's query for each (tests/golden/README.md)."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, Latest, Query, ReadOptimized, Snapshot, SnapshotAsOf

_HERE = pathlib.Path(__file__).parent
_RANGE_OPTIONS = {
    "hoodie.datasource.query.type",
    "hoodie.datasource.read.begin.instanttime",
    "hoodie.datasource.read.end.instanttime",
    "hoodie.datasource.query.incremental.format",
}
_FALLBACK = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
_BY_ID = "hoodie.schema.on.read.enable"
"""Hudi matches columns of a table with a schema history by id only if the reader sets this; Penstock does so by
default."""

_DATA_ACTIONS = ("commit", "deltacommit", "replacecommit")
_HUDI_DEFECTS = re.compile(r"_failed_leftover_v[89]|payload_postgres_v6")
"""Cases in which Hudi's own rows are wrong, according to their notes."""


@dataclass(frozen=True)
class Entry:
    """A query of a golden table. `must_fail`: the files of the range are deleted, so the expected result is an error.
    `columns_by_name`: Hudi matched the columns by name, although the table has a schema history."""

    case: str
    query_id: str
    query: Query
    must_fail: bool
    columns_by_name: bool = False

    def __str__(self) -> str:
        return f"{self.case}/{self.query_id}"


def counted_entries() -> list[Entry]:
    """Every counted entry, in the catalogue's order."""
    return [
        entry
        for file in sorted(_HERE.glob("cases_*.json"))
        for case in json.loads(file.read_text())
        if not _HUDI_DEFECTS.search(case["name"])
        for entry in _entries_of(case)
    ]


def counted_changes() -> list[Entry]:
    """Every counted entry of change data capture, in the catalogue's order."""
    counts = []
    for file in sorted(_HERE.glob("cases_*.json")):
        for case in json.loads(file.read_text()):
            for query in case["queries"]:
                if query["query"] == "cdc" and _counts_as_changes(query):
                    span = _changes_range(case, query.get("begin"), query.get("end"))
                    if span is not None:
                        counts.append(Entry(case["name"], query["id"], Changes(ChangeFormat.HUDI, *span), False))
    return counts


def counted_mergers() -> list[Entry]:
    """Every counted entry of the tables with custom mergers: a table without meta columns has no ranges in Hudi."""
    return [
        Entry(case["name"], query["id"], _merger_query(query), False)
        for case in json.loads((_HERE / "mergers.json").read_text())
        for query in case["queries"]
        if not query.get("error")
    ]


def _merger_query(query: Mapping[str, Any]) -> Query:
    if "begin" in query:
        return Incremental(Position(InstantTime(query["begin"])), Position(InstantTime(query["end"])))
    return SnapshotAsOf(InstantTime(query["as_of"])) if "as_of" in query else Snapshot()


def _counts_as_changes(query: Mapping[str, Any]) -> bool:
    if query.get("error") or not query.get("expected") or "@" in query["id"] or "WRONG" in (query.get("note") or ""):
        return False
    return _is_plain(query) and query.get("hudi") != "1.0.2"


def _changes_range(case: Mapping[str, Any], begin: str | None, end: str | None) -> tuple[Position, Position] | None:
    """Hudi bounds changes by requested times, Penstock by order keys: None if the set of instants is no range of
    Penstock."""
    data = sorted((c or r, r) for r, c, action in case["instants"] if action in _DATA_ACTIONS)
    expected = [place for place, (_, r) in enumerate(data) if r > (begin or "") and (not end or r <= end)]
    if not expected or expected != list(range(expected[0], expected[-1] + 1)):
        return None
    after = EARLIEST if expected[0] == 0 else Position(InstantTime(data[expected[0] - 1][0]))
    return after, Position(InstantTime(data[expected[-1]][0]))


def _entries_of(case: Mapping[str, Any]) -> Iterator[Entry]:
    has_history = any(_BY_ID in (query.get("options") or {}) for query in case["queries"])
    for query in case["queries"]:
        must_fail = bool(query.get("error")) and query["id"].endswith("_nofallback") and bool(query.get("end"))
        if query["query"] != "cdc" and _counts(query, must_fail):
            by_name = has_history and _BY_ID not in (query.get("options") or {})
            yield Entry(case["name"], query["id"], _penstock_query(query), must_fail, columns_by_name=by_name)


def _counts(query: Mapping[str, Any], must_fail: bool) -> bool:
    if must_fail:
        return True
    if query.get("error") or not query.get("expected") or "@" in query["id"] or "WRONG" in (query.get("note") or ""):
        return False
    return query["query"] != "incremental" or (_is_plain(query) and query.get("hudi") != "1.0.2")


def _is_plain(query: Mapping[str, Any]) -> bool:
    """Whether Hudi's range has Penstock's bounds, and no option changes its rows."""
    extra = set(query.get("options") or {}) - _RANGE_OPTIONS
    if not query.get("end"):
        extra.discard(_FALLBACK)
    return not extra and (query.get("bounds") or "").startswith("begin exclusive, end inclusive")


def _penstock_query(query: Mapping[str, Any]) -> Query:
    match query["query"]:
        case "snapshot":
            return Snapshot()
        case "read_optimized":
            return ReadOptimized()
        case "time_travel":
            return SnapshotAsOf(InstantTime(query["as_of"]))
        case "incremental":
            own = query.get("penstock") or {}
            begin, end = own.get("after", query.get("begin")), own.get("upto", query.get("end"))
            after = Position(InstantTime(begin)) if begin and len(begin) >= 14 else EARLIEST
            return Incremental(after, Position(InstantTime(end)) if end else Latest())
    raise AssertionError(f"unknown kind of query in the catalogue: {query['query']}")
