"""The threads of a service: one lets time pass, a few look at tables, so that a slow table holds up neither.

Not here: what a look is (`looking`).
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.enumerator.events import tell
from penstock.enumerator.looking import Looker
from penstock.enumerator.measuring import Measurer
from penstock.proto.errors import PenstockError

LOOKERS: Final = 4
"""Tables that are looked at at the same time."""


class LookingThreads:
    """Every `interval_ms`, or at once when woken: the keeper's time passes, and each table that is due is looked at.

    Ends by itself when the keeper's store failed: nothing more can be remembered.
    """

    def __init__(self, looker: Looker, interval_ms: int) -> None:
        self._looker = looker
        self._measurer = Measurer(looker)
        self._interval_s = min(interval_ms, looker.keeper.settings.lease_ms // 8) / 1000
        self._wake = threading.Event()
        self._ended = False
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._measuring = False
        self._pool = ThreadPoolExecutor(LOOKERS + 1, thread_name_prefix="penstock-look")
        self._thread = threading.Thread(target=self._run, name="penstock-time", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Has it look now."""
        self._wake.set()

    def stop(self) -> None:
        """Returns when the looks that are under way are over."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self) -> None:
        while not self._ended:
            self._wake.clear()
            try:
                self._looker.keeper.tick()
                for table in sorted(self._looker.due()):
                    self._begin(table)
                self._begin_measuring()
            except PenstockError as error:
                self._failed(error)
                return
            self._wake.wait(self._interval_s)

    def _begin(self, table: str) -> None:
        with self._lock:
            if table in self._busy or len(self._busy) >= LOOKERS:
                return
            self._busy.add(table)
        self._pool.submit(self._look_at, table)

    def _look_at(self, table: str) -> None:
        found = 0
        try:
            found = self._looker.look_at(table)
        except PenstockError as error:
            self._failed(error)
        except Exception:
            logging.getLogger("penstock.enumerator").exception("a look at table %s failed by a bug", table)
        finally:
            with self._lock:
                was_full = len(self._busy) >= LOOKERS
                self._busy.discard(table)
            if found or was_full:
                self._wake.set()

    def _begin_measuring(self) -> None:
        with self._lock:
            if self._measuring:
                return
            self._measuring = True
        self._pool.submit(self._measure)

    def _measure(self) -> None:
        try:
            self._measurer.measure()
        except PenstockError as error:
            self._failed(error)
        except Exception:
            logging.getLogger("penstock.enumerator").exception("measuring failed by a bug")
        finally:
            with self._lock:
                self._measuring = False

    def _failed(self, error: PenstockError) -> None:
        self._ended = True
        tell("the service cannot go on", level=logging.CRITICAL, reason=str(error)[:1000])
