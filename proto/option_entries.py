"""What an entry of the registry of options is, and the doors that options come in by.

Belongs here: a new door, a new fact of every option. Not here: the options (`options`). Standard library only, no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.proto.option_types import OptionType

OptionValue = str | int | tuple[str, ...] | None


class Door(StrEnum):
    """Where options come in."""

    BATCH = "batch"
    STREAM = "stream"
    ARROW = "arrow"
    CLI = "cli"
    CONSUMER = "consumer"


READS: Final = frozenset({Door.BATCH, Door.ARROW, Door.CLI})
GROUPS: Final = frozenset({Door.CONSUMER})
EVERYWHERE: Final = frozenset(Door)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. `default` None: there is none."""

    name: str
    type: OptionType
    default: OptionValue = None
    doors: frozenset[Door]
    doc: str

    @property
    def python_name(self) -> str:
        """snake_case: the keyword of `penstock.read` and the field of GivenOptions."""
        return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), self.name)

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return "--" + self.python_name.replace("_", "-")

    @property
    def environment_name(self) -> str:
        """The environment variable."""
        return "PENSTOCK_" + self.python_name.upper()
