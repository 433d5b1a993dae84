"""`penstock top`: what a server does now, as a picture that is drawn anew, one frame, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json
from penstock.engine.cli.shell import given_options, shell_of
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from penstock.engine.group.connect import GroupEnumerator
    from penstock.proto.model.groups import GroupLag, GroupStatus, ServerStatus

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
LEAST_INTERVAL_S: Final = 0.2
PIPE_WIDTH: Final = 10_000
"""Off a terminal nothing is left out or cut."""
COLUMNS: Final = ("table", "group", "state", "lag", "age", "commits", "bytes", "behind", "readers", "pending", "held",
                  "rows/s", "bytes/s", "fenced", "expired")  # fmt: skip
"""`age`: since the lag, its commits and bytes were measured."""
NAMES: Final = 2
NAME_CHARS: Final = 12
"""So many columns are names, which are cut to so many characters before another column is left out."""
GAP: Final = 3
"""Characters between two columns."""
LEFT: Final = 3
"""So many columns are text."""
GIVEN_UP: Final = ("bytes/s", "bytes", "expired", "fenced", "behind", "held", "commits", "rows/s", "pending", "readers",
                   "age")  # fmt: skip
"""What a narrow terminal does not show, the least important first."""


@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def top(
    context: typer.Context,
    *,
    flags: dict[str, str | None],
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="Only the groups of this table.")] = "",
    once: Annotated[bool, typer.Option("--once", help="One frame, and the end.")] = False,
    interval: Annotated[float, typer.Option("--interval", metavar="SECONDS", help="Between two frames.")] = 2.0,
    form: Annotated[ReportFormat, typer.Option("--format", help="Form of a frame; json is one.")] = ReportFormat.TABLE,
) -> None:
    """Watch a server: groups, lag, watermarks, readers, throughput. Ctrl-C ends it, exit code 0."""
    if interval < LEAST_INTERVAL_S:
        raise ConfigurationError(f"--interval {interval:g}: expected {LEAST_INTERVAL_S:g} seconds or more")
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
    """One picture of the server, of at most so many characters a line: columns that do not fit are left out, and the
    last line names them. Names are foreign text: never taken for markup."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(
        f"penstock {status.version} at {address}   {moment(status.now_ms)}   up {span(status.uptime_ms / 1000)}"
    )
    watermarks = {each.table: each.watermark_ms for each in status.tables}
    rows = [_cells(group, watermarks, status.now_ms) for group in status.groups]
    widths = [max([len(name), *(len(row[place][0]) for row in rows)]) for place, name in enumerate(COLUMNS)]
    shown, longest = fitting(widths, width)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for place in shown:
        most = longest if place < NAMES else None
        table.add_column(COLUMNS[place], justify="left" if place < LEFT else "right", no_wrap=True, max_width=most)
    for row in rows:
        table.add_row(*(Text(row[place][0], style=row[place][1]) for place in shown))
    if not status.groups:
        table.add_row(Text("no groups", style="dim"))
    followed = {group.summary.table for group in status.groups}
    others = [f"{name} watermark {moment(at)}" for name, at in watermarks.items() if at and name not in followed]
    served = f"{len(status.tables)} tables" + "".join(f"; {other}" for other in others)
    left_out = [name for place, name in enumerate(COLUMNS) if place not in shown]
    if left_out:
        served += f"; no room for: {', '.join(left_out)}"
    closed = [f"table {each.table} cannot be opened: {each.error_code}" for each in status.tables if each.error_code]
    return Group(head, table, Text(served, style="dim"), *(Text(line, style="red") for line in closed))


def fitting(widths: Sequence[int], width: int) -> tuple[tuple[int, ...], int]:
    """The places of the columns to show within so many characters, and the longest name of a table or group.

    Those that are in the way are taken away, the least important first; names of more than NAME_CHARS count as so many.
    Table, group, state and lag always stay, and names are cut to what is left."""
    shown = list(range(len(COLUMNS)))

    def needed() -> int:
        return sum((min(widths[place], NAME_CHARS) if place < NAMES else widths[place]) + GAP for place in shown)

    for name in GIVEN_UP:
        if needed() <= width:
            break
        shown.remove(COLUMNS.index(name))
    others = sum(widths[place] + GAP for place in shown[NAMES:])
    left = width - others - GAP * NAMES
    shorter = min(widths[:NAMES])
    return tuple(shown), max(4, left - shorter if 2 * shorter < left else left // 2)


def _cells(group: GroupStatus, watermarks: dict[str, int | None], now_ms: int) -> list[tuple[str, str]]:
    summary, lag = group.summary, group.lag
    newest_ms = watermarks.get(summary.table) or group.issued_ms
    state = summary.state + (f" {group.error_code}" if group.error_code else "")
    return [
        (summary.table, ""),
        (summary.group, "bold"),
        (state, {"running": "green", "stopped": "red"}.get(summary.state, "yellow")),
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
        "groups": [
            {
                "table": each.summary.table,
                "group": each.summary.group,
                "state": each.summary.state,
                "committed": str(each.summary.committed),
                "planned": str(each.summary.planned),
                "issued": None if each.issued_ms is None else moment(each.issued_ms),
                "lag": _lag_fields(each.lag, each.lag_age_ms),
                "readers": each.summary.readers,
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
        "age_seconds": None if age_ms is None else age_ms / 1000,
    }


def moment(at_ms: int) -> str:
    """UTC ISO text with milliseconds; of a time that no calendar has, its number."""
    try:
        text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    return text.replace("+00:00", "Z")


def span(seconds: float) -> str:
    """A length of time in two figures or so."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f}{unit}"
    return f"{seconds:.1f}s"


def amount(size_bytes: float) -> str:
    """Bytes in a unit that fits."""
    for size, unit in ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size_bytes >= size:
            return f"{size_bytes / size:,.1f}{unit}"
    return f"{size_bytes:.0f}"
