"""A server with a state folder that stops during a micro-batch, and starts again at the same address.

Decides when the server is stopped; `test_ends` has the expected rows.
"""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.server.assembly import TableFunctions, running_service
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from tests.loopback_ports import free_port
from tests.streaming.driven import Sink

AWAY_S = 9.0
"""The time of an ordinary restart under load."""


class RestartingServer:
    """Serves tables from a state folder; a context manager."""

    def __init__(self, tables: Mapping[str, str], state: pathlib.Path) -> None:
        served = {name: TableSettings(path=path) for name, path in tables.items()}
        self.address = f"127.0.0.1:{free_port()}"
        self._settings = Settings(tables=served, listen=self.address, state=str(state), poll_interval_ms=200)
        self._running: RunningServer | None = None
        self._return: threading.Thread | None = None

    def start(self) -> None:
        """Opens the state, and serves."""
        with ExitStack() as opened:
            service = opened.enter_context(
                running_service(self._settings, functions=TableFunctions(scan_event_time=scan_event_time))
            )
            self._running = serve_enumerator(service, groups=service, settings=self._settings)
            self._running.at_end(opened.pop_all().close)

    def go_away(self) -> None:
        """Stops now, and starts again after AWAY_S."""
        self._stop()
        begin_s = time.monotonic()

        def come_back() -> None:
            threading.Event().wait(AWAY_S - (time.monotonic() - begin_s))
            self.start()

        self._return = threading.Thread(target=come_back, name="server-comes-back")
        self._return.start()

    def _stop(self) -> None:
        assert self._running is not None
        self._running.stop(0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._return is not None:
            self._return.join()
        self._stop()


@dataclass(slots=True)
class RestartingSink(Sink):
    """Collects rows as `Sink`; the server stops after micro-batch `harmed` is planned, before a task reads."""

    server: RestartingServer = field(kw_only=True)
    harmed: int = 1
    waited_s: float = 0.0

    def __call__(self, frame: Any, batch_id: int) -> None:
        if batch_id != self.harmed:
            Sink.__call__(self, frame, batch_id)
            return
        self.server.go_away()
        begin_s = time.monotonic()
        Sink.__call__(self, frame, batch_id)
        self.waited_s = time.monotonic() - begin_s
