"""A broken promise that a history shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise."""

    rule: str
    """The name of the rule."""
    subject: str
    """What it is about: a member, a split, a group, a plan."""
    text: str
    """What is wrong."""
    shown_by: tuple[str, ...]
    """Where the calls and batches are that show it, the last one first broken."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.text}"
