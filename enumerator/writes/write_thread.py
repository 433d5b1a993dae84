"""The thread in which write transactions go on without calls."""

from __future__ import annotations

import logging
import threading
from typing import Final

from penstock.enumerator.writes.transactions import WriteTransactions

TICK_S: Final = 2.0

log = logging.getLogger("penstock.enumerator.writes")


class WriteThread:
    """Calls `recover` once, and then `tick` and `measure` again and again."""

    def __init__(self, writes: WriteTransactions) -> None:
        self._writes = writes
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins; when it returns, the writes of the process before are taken over."""
        self._writes.recover()
        self._thread = threading.Thread(target=self._run, name="penstock-writes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends after the tick that is under way."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(TICK_S):
            try:
                self._writes.tick()
                self._writes.measure()
            except Exception:
                log.exception("writes: unexpected exception")
