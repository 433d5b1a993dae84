"""What every reader of a split does around `read_split`: it resumes after a retryable error, and delivers the report.

Imported by Spark tasks, so it imports neither the planner nor the reader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from penstock.proto.errors import InvariantViolation, PenstockError, code_and_text
from penstock.proto.logging import log_event_to
from penstock.proto.retry import Retry

if TYPE_CHECKING:
    from penstock.reader.split.emit import SplitBatch


def resumed(
    open_split: Callable[[int], Generator[SplitBatch, None, None]], retry: Retry
) -> Generator[SplitBatch, None, None]:
    """The batches of a split that `open_split` reads from an ordinal on. After a retryable error the split is read
    again from the row after the last batch. Closing the generator closes the reading."""
    next_ordinal = 0
    reading: Generator[SplitBatch, None, None] | None = None

    def step() -> SplitBatch | None:
        nonlocal reading
        if reading is None:
            reading = open_split(next_ordinal)
        try:
            return next(reading, None)
        except PenstockError:
            reading = None
            raise

    try:
        while (piece := retry.call(step)) is not None:
            next_ordinal = piece.next_ordinal
            yield piece
    finally:
        if reading is not None:
            reading.close()


def deliver(
    send_report: Callable[[], None], retry: Retry, log: logging.Logger, *, table: str, plan: str, slot: int, index: int
) -> None:
    """Sends the report of a split whose rows were returned: a report that cannot be delivered is logged and fails
    nothing."""
    try:
        retry.call(send_report)
    except (PenstockError, InvariantViolation) as error:  # the latter: a bug of the server
        code, text = code_and_text(error)
        log_event_to(
            log,
            "report not delivered",
            level=logging.WARNING,
            table=table,
            plan=plan,
            slot=slot,
            index=index,
            code=code,
            error=text[:500],
        )
