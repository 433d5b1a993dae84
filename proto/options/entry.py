"""What an entry of the registry of options is, and the doors that options come in by.

Belongs here: a new door, a new fact of every option. Not here: the options (`options`). Standard library only, no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.proto.options.types import Duration, OptionType

OptionValue = str | int | bool | tuple[str, ...] | None


class EntryPoint(StrEnum):
    """Where options come in."""

    BATCH = "batch"
    STREAM = "stream"
    ARROW = "arrow"
    CLI = "cli"
    CONSUMER = "consumer"


READS: Final = frozenset({EntryPoint.BATCH, EntryPoint.ARROW, EntryPoint.CLI})
GROUPS: Final = frozenset({EntryPoint.CONSUMER})
STREAMS: Final = frozenset({EntryPoint.STREAM})
TRIGGERED: Final = STREAMS | GROUPS
EVERYWHERE: Final = frozenset(EntryPoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. `default` None: there is none."""

    name: str
    type: OptionType
    default: OptionValue = None
    entry_points: frozenset[EntryPoint]
    doc: str

    @property
    def python_name(self) -> str:
        """snake_case: the keyword of `penstock.read`."""
        return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), self.name).replace(".", "_")

    @property
    def field(self) -> str:
        """The field of ParsedOptions: the Python name, with the unit behind that of a duration."""
        return f"{self.python_name}_us" if isinstance(self.type, Duration) else self.python_name

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return "--" + self.python_name.replace("_", "-")

    @property
    def environment_name(self) -> str:
        """The environment variable."""
        return "PENSTOCK_" + self.python_name.upper()
