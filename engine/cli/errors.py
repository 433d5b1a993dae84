"""The error line and the exit code of a failed command: one line on stderr, and a traceback only with -vv.

The exit codes are `PenstockError.exit_code` and those of `OWN_CODES`; docs/reference/errors.md is generated from both.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.engine.cli.output.terminal_text import one_line
from penstock.proto.errors import PenstockError

EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
"""The exit code that shells use for a command ended by Ctrl-C."""

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "ok",
    EXIT_ERROR: "error: no table at the path, an unsupported feature, a failed check of `doctor`, a bug",
    EXIT_USAGE: "usage: an unknown or impossible option, column, time or filter",
    3: "data problem: corrupt, cleaned or invalidated",
    4: "authentication: a token, a certificate, or permissions, also on storage",
    75: "storage or the server did not answer: try again",
    EXIT_INTERRUPTED: "interrupted (Ctrl-C)",
}
"""The meaning of each exit code; there are no others."""


@dataclass(frozen=True, slots=True)
class OwnCode:
    """An error code of the command line that belongs to no `PenstockError`."""

    exit_code: int
    """The exit code of the command."""
    doc: str
    """The meaning of the code."""
    advice: str
    """What to do about the error."""


OWN_CODES: Final[Mapping[str, OwnCode]] = {
    "USAGE": OwnCode(
        EXIT_USAGE,
        "The command line itself: an unknown command or flag, a missing argument.",
        "read the `--help` of the command that the text names",
    ),
    "SYSTEM": OwnCode(
        EXIT_ERROR, "The operating system reported an error.", "fix its cause, such as no space left or no permission"
    ),
    "BUG": OwnCode(
        EXIT_ERROR, "A bug in Penstock.", "report it, with the output of the same command after `penstock -vv`"
    ),
    "INTERRUPTED": OwnCode(EXIT_INTERRUPTED, "Ctrl-C.", "nothing; incomplete output files do not exist"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a command."""

    code: str
    """The stable error code."""
    text: str
    """The message, on one line."""
    exit_code: int
    """The exit code of the command."""
    details: str = ""
    """The traceback; '' if it is not printed."""


def failure_of(error: BaseException, *, with_traceback: bool = False) -> Failure:
    """The failure for an error that ended a command. Errors outside `penstock.proto.errors` are reported as bugs."""
    details = "".join(traceback.format_exception(error)) if with_traceback else ""
    match error:
        case PenstockError():
            return Failure(error.code, one_line(str(error)), error.exit_code, details)
        case KeyboardInterrupt():
            return Failure("INTERRUPTED", "interrupted", EXIT_INTERRUPTED, details)
        case OSError():
            return Failure("SYSTEM", one_line(_system_text(error)), EXIT_ERROR, details)
        case _:
            text = (
                f"{type(error).__name__}: {one_line(str(error))}. This is a bug in Penstock: please report it, with "
                "the output of the same command after `penstock -vv`"
            )
            return Failure("BUG", text, EXIT_ERROR, details)


def _system_text(error: OSError) -> str:
    """The system's message, with the file if it is known."""
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def rendered(failure: Failure, log_format: str) -> str:
    """The failure as `error [CODE]: text`, or as one line of JSON."""
    if log_format == "json":
        fields = {"level": "error", "code": failure.code, "message": failure.text, "exit_code": failure.exit_code}
        return json.dumps(fields | ({"traceback": failure.details} if failure.details else {})) + "\n"
    return f"{failure.details}error [{failure.code}]: {failure.text}\n"
