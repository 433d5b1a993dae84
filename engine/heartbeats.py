"""The thread that renews a reader's lease while the reader is busy. Shell: a thread, nothing is decided here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

_END_S: Final = 1.0


class HeartbeatThread:
    """Calls `beat` again and again, after as many seconds as it said last; ends when it says None, or when stopped."""

    def __init__(self, beat: Callable[[], float | None], first_s: float) -> None:
        self._beat = beat
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(first_s,), name="penstock-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No beat begins after this; one under way may still be answered. May be called again."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_END_S)

    def _run(self, pause_s: float) -> None:
        after: float | None = pause_s
        while after is not None and not self._stopped.wait(after):
            after = self._beat()
