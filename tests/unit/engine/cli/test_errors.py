"""Error lines and exit codes of failed commands."""

from __future__ import annotations

import json

import pytest

from penstock.engine.cli.errors import EXIT_CODES, EXIT_USAGE, OWN_CODES, Failure, failure_of, rendered
from penstock.proto.errors import InvariantViolation, all_error_classes

CODES = {
    "CONFIGURATION": 2,
    "REQUEST_ID_REUSED": 2,
    "POSITION_EXPIRED": 3,
    "DATA_INVALIDATED": 3,
    "FORMAT": 3,
    "CORRUPT_BLOCK": 3,
    "CORRUPT_FILE": 3,
    "SCHEMA_MISMATCH": 3,
    "UNDECODABLE_RECORD": 3,
    "LATE_INSTANT": 3,
    "ACCESS": 4,
    "UNAUTHENTICATED": 4,
    "PERMISSION_DENIED": 4,
    "STORAGE_DENIED": 4,
    "STATE_DAMAGED": 3,
    "TARGET_CONFLICT": 3,
    "OVERLOADED": 75,
    "STORAGE": 75,
    "KAFKA_UNAVAILABLE": 75,
    "SERVER_UNAVAILABLE": 75,
    "TARGET_UNAVAILABLE": 75,
    "WRITE_CONFLICT": 75,
}


@pytest.mark.parametrize("code", sorted(all_error_classes()))
def test_exit_codes(code: str) -> None:
    error = all_error_classes()[code]("it failed")
    assert failure_of(error) == Failure(code, "it failed", CODES.get(code, 1))


def test_reference_lists_every_code_and_exit_code() -> None:
    outside = [failure_of(error) for error in (OSError(28, "full"), ValueError(), KeyboardInterrupt())]
    exit_codes = {code: own.exit_code for code, own in OWN_CODES.items()}
    assert exit_codes == {failure.code: failure.exit_code for failure in outside} | {"USAGE": EXIT_USAGE}
    used = {cls.exit_code for cls in all_error_classes().values()} | set(exit_codes.values())
    assert set(EXIT_CODES) == used | {0}


@pytest.mark.parametrize("error", [InvariantViolation("x is 1"), KeyError("k"), ValueError("")])
def test_internal_errors_ask_for_a_report(error: Exception) -> None:
    failure = failure_of(error)
    assert failure.exit_code == 1
    assert failure.code == "BUG"
    assert type(error).__name__ in failure.text
    assert "please report it" in failure.text


def test_system_errors_and_interrupts() -> None:
    assert failure_of(OSError(28, "No space left on device", "x.parquet")).exit_code == 1
    assert failure_of(KeyboardInterrupt()).exit_code == 130


def test_one_line_without_control_characters() -> None:
    failure = failure_of(all_error_classes()["CORRUPT_FILE"]("a\nb \x1b[31m"))
    assert rendered(failure, "text") == "error [CORRUPT_FILE]: a b \\x1b[31m\n"


def test_json() -> None:
    line = rendered(failure_of(all_error_classes()["STORAGE"]("away")), "json")
    assert json.loads(line) == {"level": "error", "code": "STORAGE", "message": "away", "exit_code": 75}


def test_tracebacks_are_printed_only_on_request() -> None:
    try:
        raise ValueError("x")
    except ValueError as error:
        assert "Traceback" not in rendered(failure_of(error), "text")
        assert "Traceback" in rendered(failure_of(error, with_traceback=True), "text")
