"""The processes of a table's life that write, read and serve with Penstock (`life_process`)."""

from __future__ import annotations

import json
import pathlib
import select
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.interop.peer_process import PeerProcess

POLL_S: Final = 0.005
"""From one look at a request to the next."""
SCRIPT = pathlib.Path(__file__).with_name("life_process.py")


class LifePeer(PeerProcess):
    """A process that stays for all requests. `cpu_s` has the processor time of the newest one."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__([sys.executable, "-P", SCRIPT], folder)
        self.cpu_s = 0.0

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def ask(self, action: str, path: pathlib.Path, **request: Any) -> dict[str, Any]:
        """The answer to a request. RuntimeError: Penstock failed, other than by a conflict."""
        answer: dict[str, Any] = self._ask({"do": action, "path": str(path), **request})
        self.cpu_s = answer["cpu_s"]
        return answer

    def kill_after(self, begun: Callable[[], bool], seconds: float, request: Mapping[str, Any]) -> bool:
        """Kills the process so many seconds after it has begun to carry out a request. False: it answered before."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        is_answered = False
        while not is_answered and not begun():
            is_answered = self._answers_within(POLL_S)
        is_answered = is_answered or self._answers_within(seconds)
        self._process.kill()
        self._process.wait(30)
        return not is_answered

    def _answers_within(self, seconds: float) -> bool:
        readable, _, _ = select.select([self._process.stdout], [], [], seconds)
        return bool(readable)


def kill_a_service(folder: pathlib.Path, path: pathlib.Path, begun: Callable[[], bool], seconds: float) -> bool:
    """Maintains a table in a new process, and kills that. False: it had ended before."""
    peer = LifePeer(folder)
    peer.started()
    try:
        return peer.kill_after(begun, seconds, {"do": "maintain", "path": str(path)})
    finally:
        peer.stop()


class Services(threading.Thread):
    """Calls `serve` at an interval until it is stopped. `failure` is its error."""

    def __init__(self, serve: Any, every_s: float) -> None:
        super().__init__(name="life-services", daemon=True)
        self._serve, self._every_s, self._stop_requested = serve, every_s, threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Serves."""
        try:
            while not self._stop_requested.wait(self._every_s):
                self._serve()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def stop(self) -> None:
        """Returns after the current service."""
        self._stop_requested.set()
        self.join()
