"""`penstock demo`: the main job on a table that real Hudi wrote (`penstock.engine.demo`)."""

from __future__ import annotations

import typer


def demo() -> None:
    """Read a table that Hudi wrote by four roads, and compare each with the rows Hudi returned."""
    from penstock.engine.demo.main import run

    raise typer.Exit(run())
