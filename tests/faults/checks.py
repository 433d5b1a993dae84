"""Checks of the suites of faults, each with a name: `controls` has the broken part that each of them detects."""

from __future__ import annotations

from typing import NoReturn


class CheckFailed(AssertionError):
    """An invariant does not hold. `check` names it."""

    def __init__(self, check: str, text: str) -> None:
        super().__init__(f"{check}: {text}")
        self.check = check


def fail(check: str, text: str) -> NoReturn:
    """Raises."""
    raise CheckFailed(check, text)
