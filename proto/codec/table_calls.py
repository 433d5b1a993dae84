"""The calls that list and administer tables, and list their instants, ⇄ messages.

What comes from the other side is checked and bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.model.catalogs import CatalogStatus, ServedTable, TableList
from penstock.proto.model.reports import INSTANT_STATES, TimelineInstant, TimelinePage
from penstock.proto.v1 import penstock_pb2 as pb

MAX_TABLES: Final = 1_000_000
"""Tables of one list."""
MAX_CATALOGS: Final = 100
"""Catalogs of one server."""
MAX_PAGE_INSTANTS: Final = 100_000
"""Instants of one page of a timeline."""
MAX_LINES: Final = 1_000
"""Problems of a list or a catalog."""
MAX_ERROR_CHARS: Final = 2_000
"""Longest text of an error."""
MAX_PATTERN_CHARS: Final = 400
"""Longest pattern."""


def list_request(pattern: str, *, catalogs: bool) -> pb.ListTablesRequest:
    """A request for the tables that match the pattern."""
    with check.encoding("list of tables"):
        return pb.ListTablesRequest(pattern=pattern, catalogs=catalogs)


def listed_from_message(message: pb.ListTablesRequest) -> tuple[str, bool]:
    """The pattern, and whether catalogs are requested."""
    return check.text("list of tables", "pattern", message.pattern, MAX_PATTERN_CHARS) or "*", message.catalogs


def add_request(table: str, path: str, poll_interval_ms: int) -> pb.AddTableRequest:
    """A request to add a table."""
    with check.encoding("add table"):
        return pb.AddTableRequest(table=table, path=path, poll_interval_ms=poll_interval_ms)


def added_from_message(message: pb.AddTableRequest) -> tuple[str, str, int]:
    """Name, path and interval of the table to add."""
    return (
        check.name("add table", "table", message.table),
        check.name("add table", "path", message.path, check.MAX_PATH_CHARS),
        check.number("add table", "poll_interval_ms", message.poll_interval_ms),
    )


def remove_request(table: str) -> pb.RemoveTableRequest:
    """A request to remove a table."""
    with check.encoding("remove table"):
        return pb.RemoveTableRequest(table=table)


def removed_from_message(message: pb.RemoveTableRequest) -> str:
    """The name of the table to remove."""
    return check.name("remove table", "table", message.table, check.MAX_PATH_CHARS)


def refresh_request(catalog: str) -> pb.RefreshTablesRequest:
    """A request to list a catalog."""
    with check.encoding("refresh tables"):
        return pb.RefreshTablesRequest(catalog=catalog)


def refreshed_from_message(message: pb.RefreshTablesRequest) -> str:
    """The catalog to list; '' for all."""
    return check.text("refresh tables", "catalog", message.catalog)


def list_to_message(tables: TableList) -> pb.ListTablesResponse:
    """A list of tables."""
    with check.encoding("list of tables"):
        return pb.ListTablesResponse(
            version=tables.version,
            tables=map(table_to_message, tables.tables),
            catalogs=map(catalog_to_message, tables.catalogs),
            problems=tables.problems,
        )


def list_from_message(message: pb.ListTablesResponse) -> TableList:
    """ConfigurationError for a field that cannot be."""
    what = "list of tables"
    return TableList(
        version=check.number(what, "version", message.version),
        tables=tuple(map(table_from_message, check.counted(what, "tables", message.tables, MAX_TABLES))),
        catalogs=catalogs_from_message(message),
        problems=_lines(what, "problems", message.problems),
    )


def catalogs_from_message(
    message: pb.ListTablesResponse | pb.RefreshTablesResponse | pb.DescribeServerResponse,
) -> tuple[CatalogStatus, ...]:
    """ConfigurationError for a field that cannot be."""
    listed = check.counted("catalogs", "catalogs", message.catalogs, MAX_CATALOGS)
    return tuple(map(catalog_from_message, listed))


def table_to_message(table: ServedTable) -> pb.ServedTable:
    """A served table."""
    with check.encoding("table"):
        return pb.ServedTable(
            table=table.table,
            source=table.source,
            path=table.path,
            error_code=table.error_code,
            error=table.error[:MAX_ERROR_CHARS],
        )


def table_from_message(message: pb.ServedTable) -> ServedTable:
    """ConfigurationError for a field that cannot be."""
    return ServedTable(
        table=check.name("table", "table", message.table, check.MAX_PATH_CHARS),
        source=check.text("table", "source", message.source),
        path=check.text("table", "path", message.path, check.MAX_PATH_CHARS),
        error_code=check.text("table", "error_code", message.error_code),
        error=check.text("table", "error", message.error, MAX_ERROR_CHARS),
    )


def catalog_to_message(status: CatalogStatus) -> pb.CatalogStatus:
    """The status of a catalog."""
    with check.encoding("catalog"):
        return pb.CatalogStatus(
            catalog=status.catalog,
            kind=status.kind,
            tables=status.tables,
            listed_ms=status.listed_ms if status.listed_ms is not None and status.listed_ms >= 0 else None,
            error_code=status.error_code,
            error=status.error[:MAX_ERROR_CHARS],
            problem_count=status.problem_count,
            problems=[line[:MAX_ERROR_CHARS] for line in status.problems],
        )


def catalog_from_message(message: pb.CatalogStatus) -> CatalogStatus:
    """ConfigurationError for a field that cannot be."""
    what = "catalog"
    return CatalogStatus(
        catalog=check.name(what, "catalog", message.catalog),
        kind=check.text(what, "kind", message.kind),
        tables=check.number(what, "tables", message.tables),
        listed_ms=check.number(what, "listed_ms", message.listed_ms) if message.HasField("listed_ms") else None,
        error_code=check.text(what, "error_code", message.error_code),
        error=check.text(what, "error", message.error, MAX_ERROR_CHARS),
        problem_count=check.number(what, "problem_count", message.problem_count),
        problems=_lines(what, "problems", message.problems),
    )


def instants_to_message(table: str, after: str, as_of: str, max_instants: int) -> pb.ListInstantsRequest:
    """A request for a page of a timeline."""
    with check.encoding("list of instants"):
        return pb.ListInstantsRequest(table=table, after=after, as_of=as_of, max_instants=max_instants)


def instants_from_message(message: pb.ListInstantsRequest) -> tuple[str, str, str, int]:
    """(table, after, as_of, max_instants) of such a request."""
    what = "list of instants"
    return (
        check.name(what, "table", message.table, check.MAX_PATH_CHARS),
        check.instant_or_empty(what, "after", message.after),
        check.instant_or_empty(what, "as_of", message.as_of),
        check.number(what, "max_instants", message.max_instants, check.MAX_INDEX),
    )


def page_to_message(page: TimelinePage) -> pb.ListInstantsResponse:
    """A page of a timeline."""
    with check.encoding("list of instants"):
        return pb.ListInstantsResponse(
            instants=[
                pb.TimelineInstant(
                    requested_time=instant.requested_time,
                    completion_time=instant.completion_time or "",
                    action=instant.action,
                    state=instant.state,
                    file=instant.file,
                )
                for instant in page.instants
            ],
            timeline_timezone=page.timeline_timezone,
            more=page.more,
        )


def page_from_message(message: pb.ListInstantsResponse, after: str, as_of: str) -> TimelinePage:
    """The page after `after`, up to `as_of`. ConfigurationError for a field that cannot be; also for instants that are
    out of order or out of these bounds, so that requests of further pages end."""
    what = "list of instants"
    listed = check.counted(what, "instants", message.instants, MAX_PAGE_INSTANTS)
    page = TimelinePage(
        instants=tuple(map(_instant_from_message, listed)),
        timeline_timezone=check.text(what, "timeline_timezone", message.timeline_timezone),
        more=message.more,
    )
    times = [instant.requested_time for instant in page.instants]
    if times != sorted(times):
        raise check.breach(what, "instants", "another order", "instants by requested time")
    if times and (times[0] <= after or (as_of and times[-1] > as_of)):
        raise check.breach(
            what, "instants", f"{times[0]} to {times[-1]}", f"after {after or 0}, up to {as_of or 'any'}"
        )
    if page.more and not times:
        raise check.breach(what, "instants", "nothing", "an instant, because more follow")
    return page


def _instant_from_message(message: pb.TimelineInstant) -> TimelineInstant:
    what = "instant"
    completed = check.instant(what, "completion_time", message.completion_time) if message.completion_time else None
    return TimelineInstant(
        requested_time=check.instant(what, "requested_time", message.requested_time),
        completion_time=completed,
        action=check.name(what, "action", message.action),
        state=check.one_of(what, "state", message.state, INSTANT_STATES),
        file=check.name(what, "file", message.file),
    )


def _lines(what: str, field: str, lines: Sequence[str]) -> tuple[str, ...]:
    texts = check.counted(what, field, lines, MAX_LINES)
    return tuple(check.text(what, field, text, MAX_ERROR_CHARS) for text in texts)
