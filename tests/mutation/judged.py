"""Mutants that no test can detect, because the program is the same, each with the reason."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A change that is no change of the behavior. Numbers of mutants change with the code, so the lines identify it."""

    function: str
    """Module and function, as in mutmut's name without the number."""
    removed: str
    """The changed lines, joined by a space."""
    added: str
    """What is there instead."""
    reason: str
    """Why no test can detect it."""


EQUIVALENT: tuple[Equivalent, ...] = ()
