"""`penstock demo`: the main job on a table that real Hudi wrote (`penstock.engine.demo`), or that table alone."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer


def demo(
    unpack: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--unpack",
            metavar="DIR",
            help="Only put the demo's table into a new folder DIR/orders, and print its path: a table for trials.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Read a table that Hudi wrote by four roads, and compare each with the rows Hudi returned."""
    if unpack is not None:
        from penstock.engine.demo.sample import packaged_data, unpack_new

        typer.echo(unpack_new(packaged_data(), unpack))
        return
    from penstock.engine.demo.main import run

    raise typer.Exit(run())
