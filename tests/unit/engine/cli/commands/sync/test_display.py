"""The tables of a job on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.engine.cli.commands.sync.display import COLUMNS, cells, display, fields
from penstock.engine.sync.progress import TableProgress, TableState
from tests.unit.engine.sync.scripted import source_of


def shown(tables: list[TableProgress], problems: list[str], lines: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=False).print(display(tables, problems, 100.0, lines))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_cells() -> None:
    loading = TableProgress(source_of("a"), TableState.LOADING, rows=12345, loaded=1, total=4)
    assert dict(zip(COLUMNS, cells(loading, 100.0), strict=True)) == {
        "table": "a", "source": "a", "state": "loading", "rows": "12,345", "loaded": "1/4", "lag": "-", "upto": "-",
        "problem": "-",
    }  # fmt: skip
    stopped = TableProgress(source_of("a"), TableState.STOPPED, current_at_s=40.0, order_key="2026")
    stopped.failed("TABLE", "two\nlines \x1b[31m", TableState.STOPPED, 0.0)
    assert fields(stopped, 100.0) | {"problem": None} == {
        "table": "a", "source": "a", "state": "stopped", "rows": 0, "loaded": None, "lag": 60.0, "upto": "2026",
        "problem": None,
    }  # fmt: skip
    assert fields(loading, 1.0)["loaded"] == {"splits": 1, "of": 4}
    assert cells(stopped, 100.0)[4:] == ("-", "60 s", "2026", "[TABLE] two lines \\x1b[31m")


def test_display_has_a_bar_and_a_summary() -> None:
    tables = [TableProgress(source_of("a"), TableState.LOADING, loaded=1, total=2), TableProgress(source_of("b"))]
    lines = shown(tables, ["x: damaged"], 24)
    assert any("━" in line and line.startswith("a") for line in lines)
    assert lines[-2:] == ["2 tables: 1 loading, 1 waiting", "x: damaged"]


def test_small_terminal_shows_tables_that_need_attention() -> None:
    tables = [TableProgress(source_of(f"t{number}"), TableState.CURRENT) for number in range(99)]
    tables.append(TableProgress(source_of("bad"), TableState.STOPPED))
    lines = shown(tables, [], 8)
    assert len(lines) <= 8 and lines[1].startswith("bad") and lines[-1] == "100 tables: 1 stopped, 99 current"


def test_markup_of_a_name_is_text() -> None:
    assert any("[red]t" in line for line in shown([TableProgress(source_of("[red]t"))], [], 9))
