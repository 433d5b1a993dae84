"""`penstock doctor`: checks this machine, a table's storage and a server; prints one line per check."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.errors import EXIT_ERROR
from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json
from penstock.engine.cli.output.terminal_text import one_line
from penstock.engine.cli.shell import Shell, given_options, shell_of, working
from penstock.proto.errors import InvariantViolation

if TYPE_CHECKING:
    from penstock.engine.doctor.findings import Finding

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")


@with_registry_flags(only=_CONNECTING)
def doctor(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="Path or URI of a table; with --server its name.", show_default=False),
    ] = None,
    *,
    flags: dict[str, str | None],
    form: Annotated[ReportFormat, typer.Option("--format", help="Form of the report.")] = ReportFormat.TABLE,
    warm: Annotated[
        bool, typer.Option("--warm", help="First compile all kernels into the cache, as an installation does once.")
    ] = False,
) -> None:
    """Check Python, libraries, Java and compiled kernels; with a table its storage; with a server its answers,
    certificate and clock. Exit code 1 if a check fails, 0 if there are only warnings."""
    shell = shell_of(context)
    options = given_options(shell, flags, table=table)
    access = options.access
    results: list[Finding] = []
    if warm:
        results += warmed(shell)
    with working(shell, "checking this machine") as show:
        for finding in findings(shell, table, options.server, access):
            results.append(finding)
            show(f"{finding.check}: done")
    if form is ReportFormat.JSON:
        write_json([finding_fields(finding) for finding in results])
    else:
        width = max(len(finding.check) for finding in results)
        for finding in results:
            sys.stdout.write(line_of(finding, width))
    if any(finding.level.value == "fail" for finding in results):
        raise typer.Exit(EXIT_ERROR)


def warmed(shell: Shell) -> Iterator[Finding]:
    """Compiles the kernels, and yields a finding for each use of them."""
    from penstock.engine.doctor.findings import Finding, Level
    from penstock.engine.doctor.warm import warm

    with working(shell, "compiling kernels") as show:
        for kernels in warm():
            show(f"{kernels.what}: done")
            yield Finding("warm", Level.OK, f"{kernels.what}: ready after {kernels.seconds:.1f} s")


def findings(shell: Shell, table: str | None, server: str | None, access: object) -> Iterator[Finding]:
    """Runs the checks, and yields a finding for each."""
    from penstock.engine.doctor.machine import machine_findings
    from penstock.engine.doctor.reach import server_findings, storage_findings
    from penstock.proto.model.access import ServerAccess

    if not isinstance(access, ServerAccess):
        raise InvariantViolation(f"access to the server is a {type(access).__name__}")
    yield from machine_findings(os.environ)
    if server is not None:
        yield from server_findings(server, access, table)
    elif table is not None:
        yield from storage_findings(shell.file.path_of(table, None))


def finding_fields(finding: Finding) -> dict[str, object]:
    """A finding's documented fields (docs/reference/cli.md)."""
    return {
        "check": finding.check,
        "level": finding.level.value,
        "text": one_line(finding.text),
        "advice": finding.advice or None,
    }


def line_of(finding: Finding, width: int) -> str:
    """The finding on one line."""
    advice = f" -> {finding.advice}" if finding.advice and finding.level.value != "ok" else ""
    return f"{finding.level.value:<4}  {finding.check:<{width}}  {one_line(finding.text + advice)}\n"
