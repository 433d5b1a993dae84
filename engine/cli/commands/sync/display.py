"""The tables of `penstock sync` on a terminal: a line for each, with a bar while it is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.engine.cli.output.terminal_text import one_line
from penstock.engine.sync.progress import TableProgress, TableState

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS: Final = ("table", "source", "state", "rows", "loaded", "lag", "upto", "problem")
_BAR_WIDTH: Final = 16
_FIRST: Final = (
    TableState.STOPPED,
    TableState.RETRYING,
    TableState.LOADING,
    TableState.FOLLOWING,
    TableState.WAITING,
    TableState.CURRENT,
)
"""The states in the order in which a small terminal shows their tables."""


def cells(one: TableProgress, now_s: float) -> tuple[str, ...]:
    """The texts of a table, in the order of COLUMNS. `lag` is the time since the target had everything."""
    return (
        one.source.target_table,
        one.source.name,
        one.state.value,
        f"{one.rows:,}",
        f"{one.loaded}/{one.total}" if one.total else "-",
        "-" if one.current_at_s is None else f"{max(now_s - one.current_at_s, 0):.0f} s",
        one.order_key or "-",
        one_line(f"[{one.error_code}] {one.error}") if one.error else "-",
    )


def fields(one: TableProgress, now_s: float) -> dict[str, object]:
    """The values of a table for programs, by the names of COLUMNS; null: none."""
    return {
        "table": one.source.target_table,
        "source": one.source.name,
        "state": one.state.value,
        "rows": one.rows,
        "loaded": {"splits": one.loaded, "of": one.total} if one.total else None,
        "lag": None if one.current_at_s is None else round(max(now_s - one.current_at_s, 0.0), 3),
        "upto": one.order_key or None,
        "problem": {"code": one.error_code, "text": one.error} if one.error else None,
    }


def display(tables: Sequence[TableProgress], problems: Sequence[str], now_s: float, lines: int) -> RenderableType:
    """The tables that need attention first, at most so many, and a line with the number of all by state."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    shown = sorted(tables, key=lambda one: _FIRST.index(one.state))[: max(lines - 3 - len(problems), 1)]
    grid = Table(*COLUMNS, box=None, pad_edge=False)
    for one in shown:
        texts: list[RenderableType] = [Text(text) for text in cells(one, now_s)]
        if one.total:
            texts[COLUMNS.index("loaded")] = ProgressBar(one.total, one.loaded, width=_BAR_WIDTH)
        grid.add_row(*texts)
    counts = Counter(one.state for one in tables)
    summary = ", ".join(f"{counts[state]} {state.value}" for state in _FIRST if counts[state])
    return Group(grid, Text(f"{len(tables)} tables: {summary or 'none'}"), *(Text(one_line(one)) for one in problems))
