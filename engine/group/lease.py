"""The lease of a reader of a consumer group: when it ends, the heartbeats that renew it, and the reader's clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from penstock.proto.errors import Fenced, LeaseError, PenstockError
from penstock.proto.group_service import GroupService
from penstock.proto.model.groups import Joined

_T = TypeVar("_T")

HEARTBEATS_PER_LEASE: Final = 3
_RETRY_DIVISOR: Final = 3
"""A heartbeat that was not answered is repeated after the usual interval divided by this."""
_MIN_INTERVAL_S: Final = 0.05


class Membership:
    """A member of a group, and its lease by the clock of this process. Any thread.

    The lease is assumed to end `lease_ms` after the last call that the server answered was *sent*. The server never
    ends it earlier, so until then no other reader holds the splits. After the end `require` raises Fenced, and does so
    permanently, because the reader dropped its work.
    """

    def __init__(self, joined: Joined, sent_ms: int, now_ms: Callable[[], int]) -> None:
        self.member = joined.member
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._lease_ms = joined.lease_ms
        self._renewed_ms = sent_ms
        self._lost: PenstockError | None = None

    @property
    def lease_ms(self) -> int:
        """The length of the lease, from the newest answer of the server."""
        return self._lease_ms

    def left_ms(self) -> int:
        """Milliseconds until the lease ends; 0 if it ended or was lost."""
        with self._lock:
            return 0 if self._lost else max(0, self._renewed_ms + self._lease_ms - self._now_ms())

    def require(self) -> None:
        """Returns while the lease holds. Raises the error with which the server ended the membership, or Fenced if the
        lease ended."""
        with self._lock:
            if self._lost is None:
                late_ms = self._now_ms() - self._renewed_ms
                if late_ms < self._lease_ms:
                    return
                self._lost = Fenced(
                    f"reader {self.member.reader_id} of group {self.member.group}: its lease of {self._lease_ms} ms is "
                    f"over: the server answered no heartbeat for {late_ms} ms. Nothing more is handed out or "
                    "committed, because the group may have assigned its splits to other readers. Join again "
                    "(`Consumer.join`, or a new Consumer): what was not committed is handed out again"
                )
            raise self._lost

    def renew(self, sent_ms: int, lease_ms: int | None = None) -> None:
        """Renews the lease from `sent_ms`, when an answered call was sent. `lease_ms`: its length from now on."""
        with self._lock:
            self._renewed_ms = max(self._renewed_ms, sent_ms)
            self._lease_ms = lease_ms or self._lease_ms

    def lose(self, error: PenstockError) -> None:
        """Ends the membership with the server's error. The first error stays."""
        with self._lock:
            self._lost = self._lost or error

    def call(self, operation: Callable[[], _T], *, renews: bool = True) -> _T:
        """The answer of a call in which the member identifies itself. It renews the lease, unless `renews` is False; a
        LeaseError ends the membership."""
        self.require()
        sent_ms = self._now_ms()
        try:
            answer = operation()
        except LeaseError as error:
            self.lose(error)
            raise
        if renews:
            self.renew(sent_ms)
        return answer

    def beat(self, service: GroupService) -> float | None:
        """Sends one heartbeat. Returns the seconds until the next one; None if no further one makes sense.

        After the end of the lease no heartbeat is sent: the reader dropped its work, and a server whose answers were
        lost must not count it as alive.
        """
        if not self.left_ms():
            return None
        sent_ms = self._now_ms()
        interval_s = self._lease_ms / 1000 / HEARTBEATS_PER_LEASE
        try:
            lease_ms = service.heartbeat(self.member)
        except PenstockError as error:
            if error.retryable:
                return max(_MIN_INTERVAL_S, interval_s / _RETRY_DIVISOR)
            self.lose(error)
            return None
        self.renew(sent_ms, lease_ms)
        return lease_ms / 1000 / HEARTBEATS_PER_LEASE


_STOP_TIMEOUT_S: Final = 1.0


class HeartbeatThread:
    """Calls `beat` after each interval that it returned. Ends when it returns None, or when stopped."""

    def __init__(self, beat: Callable[[], float | None], first_s: float) -> None:
        self._beat = beat
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(first_s,), name="penstock-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No heartbeat begins after this returns; one under way may still be answered. May be called again."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_STOP_TIMEOUT_S)

    def _run(self, first_s: float) -> None:
        interval_s: float | None = first_s
        while interval_s is not None and not self._stopped.wait(interval_s):
            interval_s = self._beat()


def monotonic_ms() -> int:
    """Milliseconds of a clock that never runs backwards and, where the system has one, also counts while the machine
    is suspended: a lease ends then too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


class Heartbeat(Protocol):
    """Heartbeats that are sent until they are stopped."""

    def stop(self) -> None:
        """No heartbeat begins after this returns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The clock, the waits and the heartbeats of a reader. Tests replace them."""

    now_ms: Callable[[], int] = monotonic_ms
    """Milliseconds of a clock that never runs backwards."""
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    """Waits for so many seconds; returns early when the event is set."""
    start_heartbeat: Callable[[Callable[[], float | None], float], Heartbeat] = HeartbeatThread
    """Starts heartbeats with a call and the seconds before its first one."""
