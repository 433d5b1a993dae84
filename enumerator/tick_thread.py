"""`TickThread`: a thread that calls a function again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("penstock.enumerator")


class TickThread:
    """Calls `tick` every `interval_s` seconds, and at once after `wake`. An exception is logged, and it goes on."""

    def __init__(self, name: str, tick: Callable[[], object], interval_s: float) -> None:
        self._name = name
        self._tick = tick
        self._interval_s = interval_s
        self._woken = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins; the first call is after the interval, or after `wake`."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Makes the next call be now."""
        self._woken.set()

    def stop(self) -> None:
        """Ends after the call that is under way."""
        self._stopped = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._woken.wait(self._interval_s)
            self._woken.clear()
            if self._stopped:
                return
            try:
                self._tick()
            except Exception:
                log.exception("%s: unexpected exception", self._name)
