"""`HoldBound`: how long a reader may hold the cleaner of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.types import Duration

_COMMITS: Final = re.compile(r"([0-9]{1,7}) ?commits?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBound:
    """How long a reader may hold the cleaner: by one of two measures."""

    commits: int | None = None
    """So many writes that it has not read."""
    seconds: float | None = None
    """So long after the oldest write that it has not read completed; its requested time counts if the time of its
    completion is unknown."""

    @classmethod
    def parse(cls, text: str) -> HoldBound:
        """The bound of `48h`, `2 days` or `200 commits`. ConfigurationError for another text, and for 0."""
        match = _COMMITS.fullmatch(text.strip()) if len(text) <= 200 else None
        if match is not None and int(match[1]) > 0:
            return cls(commits=int(match[1]))
        microseconds = 0 if match is not None else Duration().parse("hold_at_most", text)
        if not microseconds:
            raise ConfigurationError(
                f"hold_at_most: got {text[:40]!r}, expected a duration such as 48h, or a number such as 200 commits"
            )
        return cls(seconds=microseconds / 1_000_000)

    @property
    def text(self) -> str:
        """The bound as text: `172800s` or `200 commits`."""
        return f"{self.commits} commits" if self.commits is not None else f"{self.seconds:.0f}s"
