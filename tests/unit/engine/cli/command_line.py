"""The outcome of a command line that ran in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit code and output of a finished command."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """stdout as text."""
        return self.stdout.decode()

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.stdout)


Cli = Callable[..., CommandResult]
