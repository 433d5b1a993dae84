"""Waits until a stream with the option `upto` has ended, and stops it: Spark itself does not stop such a query."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.stream_offsets import is_offset

_POLL_S: Final = 0.1


def await_end(query: StreamingQuery, timeout_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Waits until every Penstock source has delivered all rows up to its `upto` and their results are written; then
    stops the query. Returns also when the query ended by itself (`availableNow`).

    Raises the error of a failed query; TimeoutError, with the query still running, after `timeout_s` seconds.
    """
    deadline_s = clock() + timeout_s
    while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # seconds, fractions too
        if _has_ended(query.lastProgress) and _is_quiet(query.status):
            query.stop()
            return
        if clock() > deadline_s:
            raise TimeoutError(f"the stream did not end within {timeout_s} s: last progress {query.lastProgress}")


def _has_ended(progress: Mapping[str, Any] | None) -> bool:
    """Whether the last micro-batch ended each Penstock source, and there is at least one."""
    ends = [end for end in _end_offsets(progress) if is_offset(end)]
    return bool(ends) and all(end["ended"] is True for end in ends)


def _is_quiet(status: Mapping[str, Any]) -> bool:
    """Whether no micro-batch is running: one without rows follows the end, and emits the windows that the last
    watermark closed."""
    return not status["isDataAvailable"] and str(status["message"]).startswith("Waiting for")


def _end_offsets(progress: Mapping[str, Any] | None) -> Iterator[Any]:
    for source in (progress or {}).get("sources") or ():
        end = source["endOffset"]
        try:
            yield json.loads(end) if isinstance(end, str) else end
        except ValueError:
            yield None
