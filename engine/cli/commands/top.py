"""`penstock top`: shows the status of a server as a live display, one frame, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.engine.cli.commands.groups import alignment_fields
from penstock.engine.cli.commands.tables import catalog_fields
from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.moments import moment
from penstock.engine.cli.output.rows import ReportFormat, write_json
from penstock.engine.cli.shell import given_options, shell_of
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from penstock.engine.group.connect import GroupEnumerator
    from penstock.proto.model.catalogs import CatalogStatus
    from penstock.proto.model.groups import GroupLag, GroupStatus, ServerStatus

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
MIN_INTERVAL_S: Final = 0.2
PIPE_WIDTH: Final = 10_000
"""The width of output that does not go to a terminal, so that no column is dropped or cut."""
COLUMNS: Final = ("table", "group", "state", "lag", "age", "commits", "bytes", "behind", "readers", "pending", "held",
                  "rows/s", "bytes/s", "fenced", "expired")  # fmt: skip
"""`age`: time since the lag, with its commits and bytes, was measured. `behind`: time since the watermark of the group,
else of the table's stream, else since its newest instant."""
NAME_COLUMNS: Final = 2
MIN_NAME_CHARS: Final = 12
"""Names in the first columns are cut to so many characters before another column is dropped."""
_AT_REST: Final = ("stopped", "ended", "failed")
"""States in which a member holds back no other one."""
_SHOWN_WAITING: Final = 5
GAP: Final = 3
"""Characters between two columns."""
TEXT_COLUMNS: Final = 3
"""Number of columns, from the left, that are aligned left."""
DROP_ORDER: Final = ("bytes/s", "bytes", "expired", "fenced", "behind", "held", "commits", "rows/s", "pending",
                     "readers", "age")  # fmt: skip
"""Columns that a narrow terminal does not show, the least important first."""


@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def top(
    context: typer.Context,
    *,
    flags: dict[str, str | None],
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="Only the groups of this table.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    interval: Annotated[float, typer.Option("--interval", metavar="SECONDS", help="Time between two frames.")] = 2.0,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="Format of the output; json prints one frame.")
    ] = ReportFormat.TABLE,
) -> None:
    """Watch a server: groups, lag, watermarks, readers, throughput. Ctrl-C ends it, exit code 0."""
    if interval < MIN_INTERVAL_S:
        raise ConfigurationError(f"--interval {interval:g}: expected {MIN_INTERVAL_S:g} seconds or more")
    options = given_options(shell_of(context), flags, entry_point=EntryPoint.CONSUMER, table=table)
    from penstock.engine.group.connect import group_enumerator_for

    enumerator = group_enumerator_for(options.server, options.access)
    if form is ReportFormat.JSON:
        write_json(status_fields(enumerator.describe_server(table)))
        return
    from rich.console import Console

    console = Console(file=sys.stdout)
    if once or not console.is_terminal:
        if not console.is_terminal:
            console = Console(file=sys.stdout, width=PIPE_WIDTH)
        console.print(frame(enumerator.describe_server(table), options.server or "", console.width))
        return
    _watch(enumerator, console, options.server or "", interval, table)


def _watch(enumerator: GroupEnumerator, console: Console, address: str, interval_s: float, table: str = "") -> None:
    from rich.live import Live

    try:
        first = frame(enumerator.describe_server(table), address, console.width)
        with Live(first, console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval_s)
                live.update(frame(enumerator.describe_server(table), address, console.width), refresh=True)
    except KeyboardInterrupt:
        return


def frame(status: ServerStatus, address: str, width: int) -> RenderableType:
    """One frame, at most `width` characters wide. Columns that do not fit are dropped, and the last line names them.
    Names of tables and groups are not interpreted as markup."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(
        f"penstock {status.version} at {address}   {moment(status.now_ms)}   up {span(status.uptime_ms / 1000)}"
    )
    watermarks = {each.table: each.watermark_ms for each in status.tables}
    rows = [_cells(group, watermarks, status.now_ms) for group in shown_groups(status)]
    widths = [max([len(name), *(len(row[index][0]) for row in rows)]) for index, name in enumerate(COLUMNS)]
    visible, longest = fitting(widths, width)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for index in visible:
        max_width = longest if index < NAME_COLUMNS else None
        table.add_column(
            COLUMNS[index], justify="left" if index < TEXT_COLUMNS else "right", no_wrap=True, max_width=max_width
        )
    for row in rows:
        table.add_row(*(Text(row[index][0], style=row[index][1]) for index in visible))
    if not status.groups:
        table.add_row(Text("no groups", style="dim"))
    followed = {group.summary.table for group in status.groups}
    others = [f"{name} watermark {moment(at)}" for name, at in watermarks.items() if at and name not in followed]
    served = f"{len(status.tables)} tables" + "".join(f"; {other}" for other in others)
    served += "".join(f"; catalog {each.catalog} {each.tables} tables" for each in status.catalogs)
    left_out = [name for index, name in enumerate(COLUMNS) if index not in visible]
    if left_out:
        served += f"; no room for: {', '.join(left_out)}"
    closed = [catalog_line(each) for each in status.catalogs if each.error_code or each.problem_count]
    closed += alignment_lines(status)
    closed += [f"table {each.table} cannot be opened: {each.error_code}" for each in status.tables if each.error_code]
    holds = [Text(line, style="yellow") for line in hold_lines(status)]
    return Group(head, table, Text(served, style="dim"), *holds, *(Text(line, style="red") for line in closed))


def catalog_line(status: CatalogStatus) -> str:
    """A catalog that cannot be listed, or that has problems."""
    if not status.error_code:
        return f"catalog {status.catalog} has {status.problem_count} problems: see penstock tables list --catalogs"
    listed = "never" if status.listed_ms is None else moment(status.listed_ms)
    return f"catalog {status.catalog} cannot be listed: {status.error_code}; last listed: {listed}"


def alignment_lines(status: ServerStatus) -> list[str]:
    """One line for each alignment set in which a member waits: the member with the lowest watermark, and those that
    wait for it. Sets of different callers are different, also with the same name."""
    members: dict[tuple[str, int], list[tuple[str, int | None, bool]]] = {}
    for group in status.groups:
        if group.alignment is not None and not group.summary.tables and group.summary.state not in _AT_REST:
            name = f"{group.summary.table} {group.summary.group}"
            key = (group.alignment.set, group.alignment.set_number)
            members.setdefault(key, []).append((name, group.watermark_us, group.alignment.held))
    for stream in status.streams:
        if stream.alignment and stream.state.value not in _AT_REST:
            name, is_held = f"{stream.table} {stream.name}", stream.state.value == "held"
            key = (stream.alignment, stream.alignment_number)
            members.setdefault(key, []).append((name, stream.watermark_us, is_held))
    lines = []
    for (alignment, _), each in sorted(members.items()):
        waiting = sorted(name for name, _, is_held in each if is_held)
        if waiting:
            lowest, at_us, _ = min(each, key=lambda one: (one[1] is not None, one[1] or 0, one[0]))
            at = "without a watermark yet" if at_us is None else f"at {moment(at_us // 1000)}"
            names = ", ".join(waiting[:_SHOWN_WAITING]) + (", …" if len(waiting) > _SHOWN_WAITING else "")
            lines.append(f"alignment {alignment}: {len(waiting)} wait ({names}); the lowest is {lowest}, {at}")
    return lines


def hold_lines(status: ServerStatus) -> list[str]:
    """One line for each table whose cleaner groups and streams hold, with what is left of the bound of each; those with
    the least left first."""
    readers: dict[str, list[tuple[tuple[bool, float], str]]] = {}
    lags = [
        (each.summary.table, f"group {each.summary.group}", each.lag)
        for each in status.groups
        if not each.summary.tables
    ]
    lags += [(each.table, f"stream {each.name}", each.lag) for each in status.streams]
    for table, name, lag in lags:
        if lag is not None and lag.holds_cleaner:
            left = "no bound"
            if lag.loss_commits is not None:
                left = f"{lag.loss_commits} commit{'' if lag.loss_commits == 1 else 's'} left"
            elif lag.loss_seconds is not None:
                left = f"{span(lag.loss_seconds)} left"
            amount_left = next((each for each in (lag.loss_seconds, lag.loss_commits) if each is not None), None)
            readers.setdefault(table, []).append(((amount_left is None, amount_left or 0), f"{name} ({left})"))
    lines = []
    for table, holding in sorted(readers.items()):
        names = [text for _, text in sorted(holding)]
        more = ", …" if len(names) > _SHOWN_WAITING else ""
        lines.append(f"the cleaner of table {table} is held by {', '.join(names[:_SHOWN_WAITING])}{more}")
    return lines


def shown_groups(status: ServerStatus) -> list[GroupStatus]:
    """The groups of a frame: a group over tables, if it is there, stands for the groups of its tables."""
    over = {(group.summary.table, group.summary.group) for group in status.groups if group.summary.tables}
    return [group for group in status.groups if (group.summary.over, group.summary.group) not in over]


def fitting(widths: Sequence[int], width: int) -> tuple[tuple[int, ...], int]:
    """The indexes of the columns that fit into `width` characters, and the maximum length of a table or group name.

    Drops columns in the order of DROP_ORDER; a longer name counts as MIN_NAME_CHARS. Table, group, state and lag always
    stay, and names are cut to the remaining width."""
    visible = list(range(len(COLUMNS)))

    def total_width() -> int:
        return sum(
            (min(widths[index], MIN_NAME_CHARS) if index < NAME_COLUMNS else widths[index]) + GAP for index in visible
        )

    for name in DROP_ORDER:
        if total_width() <= width:
            break
        visible.remove(COLUMNS.index(name))
    others = sum(widths[index] + GAP for index in visible[NAME_COLUMNS:])
    left = width - others - GAP * NAME_COLUMNS
    shorter_name = min(widths[:NAME_COLUMNS])
    return tuple(visible), max(4, left - shorter_name if 2 * shorter_name < left else left // 2)


def _cells(group: GroupStatus, watermarks: dict[str, int | None], now_ms: int) -> list[tuple[str, str]]:
    summary, lag = group.summary, group.lag
    own_ms = None if group.watermark_us is None else group.watermark_us // 1000
    newest_ms = own_ms or watermarks.get(summary.table) or group.issued_ms
    is_waiting = group.alignment is not None and group.alignment.held
    state = summary.state + (" waits" if is_waiting else "") + (f" {group.error_code}" if group.error_code else "")
    return [
        (f"{summary.table} ({summary.tables})" if summary.tables else summary.table, ""),
        (summary.group, "bold"),
        (state, "yellow" if is_waiting else {"running": "green", "stopped": "red"}.get(summary.state, "yellow")),
        ("-" if lag is None else span(lag.seconds), ""),
        ("-" if lag is None or group.lag_age_ms is None else span(group.lag_age_ms / 1000), "dim"),
        ("-" if lag is None else f"{lag.commits:,}", ""),
        ("-" if lag is None else amount(lag.size_bytes), ""),
        ("-" if newest_ms is None else span(max(0, now_ms - newest_ms) / 1000), ""),
        (f"{summary.readers:,}", ""),
        (f"{group.pending_splits:,}", ""),
        (f"{group.held_splits:,}", ""),
        (f"{group.rows_per_second:,.0f}", ""),
        (amount(group.bytes_per_second), ""),
        (f"{group.fenced:,}", "red" if group.fenced else ""),
        (f"{group.expired_splits:,}", "red" if group.expired_splits else ""),
    ]


def status_fields(status: ServerStatus) -> dict[str, object]:
    """The documented fields (docs/reference/cli.md)."""
    return {
        "version": status.version,
        "now": moment(status.now_ms),
        "uptime_seconds": status.uptime_ms / 1000,
        "tables": [
            {
                "table": each.table,
                "watermark": None if each.watermark_ms is None else moment(each.watermark_ms),
                "error_code": each.error_code or None,
            }
            for each in status.tables
        ],
        "catalogs": [catalog_fields(each) for each in status.catalogs],
        "groups": [
            {
                "table": each.summary.table,
                "group": each.summary.group,
                "state": each.summary.state,
                "committed": str(each.summary.committed),
                "planned": str(each.summary.planned),
                "watermark": None if each.watermark_us is None else moment(each.watermark_us // 1000),
                "alignment": alignment_fields(each.alignment),
                "issued": None if each.issued_ms is None else moment(each.issued_ms),
                "lag": _lag_fields(each.lag, each.lag_age_ms),
                "readers": each.summary.readers,
                "tables": each.summary.tables or None,
                "over": each.summary.over or None,
                "pending_splits": each.pending_splits,
                "held_splits": each.held_splits,
                "rows": each.rows,
                "size_bytes": each.size_bytes,
                "finished_splits": each.finished_splits,
                "expired_splits": each.expired_splits,
                "fenced": each.fenced,
                "rows_per_second": round(each.rows_per_second, 3),
                "bytes_per_second": round(each.bytes_per_second, 3),
                "error_code": each.error_code or None,
            }
            for each in status.groups
        ],
    }


def _lag_fields(lag: GroupLag | None, age_ms: int | None) -> dict[str, object] | None:
    if lag is None:
        return None
    return {
        "commits": lag.commits,
        "size_bytes": lag.size_bytes,
        "seconds": lag.seconds,
        "loss_commits": lag.loss_commits,
        "loss_seconds": lag.loss_seconds,
        "holds_cleaner": lag.holds_cleaner,
        "age_seconds": None if age_ms is None else age_ms / 1000,
    }


def span(seconds: float) -> str:
    """A duration in its largest unit, with one decimal."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f}{unit}"
    return f"{seconds:.1f}s"


def amount(size_bytes: float) -> str:
    """A number of bytes in its largest binary unit, with one decimal."""
    for size, unit in ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size_bytes >= size:
            return f"{size_bytes / size:,.1f}{unit}"
    return f"{size_bytes:.0f}"
