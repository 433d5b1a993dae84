"""What a failed command says and how it exits: one line on stderr, never a traceback unless asked for with -vv.

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
"""As a shell reports a command that Ctrl-C ended."""

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "ok",
    EXIT_ERROR: "error: no table there, a feature that is not read, a check of `doctor` that failed, a bug",
    EXIT_USAGE: "usage: an unknown or impossible option, column, time or filter",
    3: "data problem: corrupt, cleaned away or invalidated",
    4: "authentication: a token, a certificate, rights; also those on storage",
    75: "storage or the server did not answer: try again",
    EXIT_INTERRUPTED: "interrupted (Ctrl-C)",
}
"""What each exit code means; there are no others."""


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A code that stands for no `PenstockError`: what it means, and what to do."""

    exit_code: int
    doc: str
    advice: str


OWN_CODES: Final[Mapping[str, OwnCode]] = {
    "USAGE": OwnCode(
        EXIT_USAGE,
        "The command line itself: an unknown command or flag, a missing argument.",
        "the `--help` of the command that the text names",
    ),
    "SYSTEM": OwnCode(EXIT_ERROR, "The operating system refused.", "mend what it says: no space left, no permission"),
    "BUG": OwnCode(
        EXIT_ERROR, "A bug in Penstock.", "report it, with the output of the same command after `penstock -vv`"
    ),
    "INTERRUPTED": OwnCode(EXIT_INTERRUPTED, "Ctrl-C.", "nothing: what was not complete is not there"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """How a command failed: a stable code, a text of one line, the exit code."""

    code: str
    text: str
    exit_code: int
    details: str = ""


def failure_of(error: BaseException, *, with_traceback: bool = False) -> Failure:
    """What to say about an error that ended a command. Errors outside `penstock.proto.errors` are bugs to report."""
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
    """What the system refused, and where, as far as it is known."""
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def rendered(failure: Failure, log_format: str) -> str:
    """The failure as `error [CODE]: text`, or as a JSON object a line."""
    if log_format == "json":
        fields = {"level": "error", "code": failure.code, "message": failure.text, "exit_code": failure.exit_code}
        return json.dumps(fields | ({"traceback": failure.details} if failure.details else {})) + "\n"
    return f"{failure.details}error [{failure.code}]: {failure.text}\n"
