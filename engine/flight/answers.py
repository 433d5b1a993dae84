"""The memory of answers: the tickets of all flights that are being planned have one limit together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.proto.errors import ConfigurationError, Overloaded

MAX_ANSWER_BYTES: Final = 512 << 20
"""The tickets of one answer, and of all answers that are made at once."""


class AnswerMemory:
    """Bytes of the tickets of all answers in progress. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used_bytes = 0

    @contextmanager
    def answer(self, table: str) -> Iterator[Callable[[int], None]]:
        """A function that reserves bytes for an answer, until the block ends.

        It raises ConfigurationError if the answer alone is longer than MAX_ANSWER_BYTES, and Overloaded if it is with
        the other answers in progress: so the first one that finds no memory frees its own, and the others continue.
        """
        own_bytes = 0

        def reserve(size: int) -> None:
            nonlocal own_bytes
            if own_bytes + size > MAX_ANSWER_BYTES:
                raise ConfigurationError(
                    f"table {table}: the tickets of this flight are longer than {MAX_ANSWER_BYTES} bytes: read fewer "
                    "partitions or fewer commits, or compact the table"
                )
            with self._lock:
                if self._used_bytes + size > MAX_ANSWER_BYTES:
                    raise Overloaded(
                        f"table {table}: the tickets of all flights that are planned now are longer than "
                        f"{MAX_ANSWER_BYTES} bytes: retry later"
                    )
                self._used_bytes += size
            own_bytes += size

        try:
            yield reserve
        finally:
            with self._lock:
                self._used_bytes -= own_bytes
