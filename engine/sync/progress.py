"""The progress of the tables of a job, as people and metrics see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import TableSync


class TableState(StrEnum):
    """What a table of a job does."""

    WAITING = "waiting"
    """It was not looked at yet."""
    LOADING = "loading"
    """Its rows are copied for the first time."""
    FOLLOWING = "following"
    """Changes are copied as they are committed."""
    CURRENT = "current"
    """The target had everything at the last look."""
    RETRYING = "retrying"
    """Source or target cannot be used now; nothing is lost."""
    STOPPED = "stopped"
    """An error needs a decision; the other tables continue."""


ENDED: Final = frozenset({TableState.CURRENT, TableState.STOPPED})
"""The states with which a table has nothing left to do in a run with `once`."""


@dataclass(slots=True)
class TableProgress:
    """The progress of one table. Written by one thread at a time."""

    source: SourceTable
    """The table."""
    state: TableState = TableState.WAITING
    """What it does."""
    rows: int = 0
    """Rows written or removed since the start of this process."""
    loaded: int = 0
    """Splits of the first load in the target."""
    total: int = 0
    """Splits of the first load."""
    order_key: str = ""
    """The order key of the instant up to which the target is complete."""
    error_code: str = ""
    """The code of the last error, while the state is RETRYING or STOPPED."""
    error: str = ""
    """Its text."""
    current_at_s: float | None = None
    """When the target last had everything (`time.time`); None: not in this process."""
    failures: int = 0
    """Failed transactions since the last one that succeeded."""
    failed_s: float = 0.0
    """When the first one of them failed, on the runner's clock."""
    restart: bool = False
    """Whether the next transaction removes the rows of the source, to load it again."""
    due_s: float = 0.0
    """When the table is looked at next, on the runner's clock."""
    sync: TableSync | None = field(default=None, repr=False)
    """The copy, between two transactions; None: the next one starts from the target."""

    @property
    def place(self) -> tuple[str, str]:
        """The target and its table: one source at a time writes into it."""
        return str(self.source.entry.target), self.source.target_table

    def succeeded(self, *, restarted: bool) -> None:
        """A transaction was committed, or there was nothing to write. `restarted`: no rows are left to remove."""
        self.failures, self.error, self.error_code = 0, "", ""
        self.restart = self.restart and not restarted

    def failed(self, code: str, text: str, state: TableState, now_s: float) -> None:
        """A transaction failed: nothing of it is in the target. The next one starts from the target."""
        self.failed_s = now_s if self.failures == 0 else self.failed_s
        self.failures += 1
        self.error_code, self.error, self.state, self.sync = code, text, state, None
