"""`Option`, an entry of the registry, and `EntryPoint`, the interfaces that accept options."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from penstock.proto.options.types import Duration, OptionType
from penstock.proto.value_classes import dataclass

OptionValue = str | int | bool | tuple[str, ...] | None


class EntryPoint(StrEnum):
    """An interface that accepts options."""

    BATCH = "batch"
    """Spark's batch read."""
    STREAM = "stream"
    """Spark's structured stream."""
    ARROW = "arrow"
    """`penstock.read`."""
    CLI = "cli"
    """The command line."""
    CONSUMER = "consumer"
    """A reader of a consumer group: `penstock.Consumer` and `penstock tail`."""


READS: Final = frozenset({EntryPoint.BATCH, EntryPoint.ARROW, EntryPoint.CLI})
GROUPS: Final = frozenset({EntryPoint.CONSUMER})
STREAMS: Final = frozenset({EntryPoint.STREAM})
TRIGGERED: Final = STREAMS | GROUPS
EVERYWHERE: Final = frozenset(EntryPoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option."""

    name: str
    """The name in camelCase, as Spark and files use it."""
    type: OptionType
    """The type, which parses values."""
    default: OptionValue = None
    """The default; None: there is none."""
    entry_points: frozenset[EntryPoint]
    """Where the option applies."""
    doc: str
    """The help text, in Markdown."""

    @property
    def python_name(self) -> str:
        """The name in snake_case: the keyword of `penstock.read`."""
        return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), self.name).replace(".", "_")

    @property
    def field(self) -> str:
        """The field of ParsedOptions: the Python name; that of a duration ends in its unit."""
        return f"{self.python_name}_us" if isinstance(self.type, Duration) else self.python_name

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return "--" + self.python_name.replace("_", "-")

    @property
    def environment_name(self) -> str:
        """The environment variable."""
        return "PENSTOCK_" + self.python_name.upper()
