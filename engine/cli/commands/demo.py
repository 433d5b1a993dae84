"""`penstock demo`: runs the demo (`penstock.engine.demo`), or only unpacks its table."""

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
            help="Only unpack the demo's table into a new folder DIR/orders, and print its path.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Read a Hudi-written table in four ways, and compare each result with the rows that Hudi returned."""
    if unpack is not None:
        from penstock.engine.demo.sample import packaged_data, unpack_new

        typer.echo(unpack_new(packaged_data(), unpack))
        return
    from penstock.engine.demo.main import run

    raise typer.Exit(run())
