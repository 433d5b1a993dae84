"""One epoch of a reader in its group: the lease, what it still allows, and the beats that renew it.

Belongs here: when a reader stops by itself. Not here: reading, committing (`group_reader`), threads (`heartbeats`).
The clock is passed in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.proto.errors import Fenced, LeaseError, PenstockError
from penstock.proto.model.groups import GroupService, Joined

_T = TypeVar("_T")

BEATS_A_LEASE: Final = 3
_HASTE: Final = 3
"""A beat that was not answered is sent again after this part of the usual pause."""
_LEAST_PAUSE_S: Final = 0.05


class Membership:
    """A member and its lease by this process's clock. Any thread.

    The lease is taken to end `lease_ms` after the *sending* of the last call that the server answered, which is never
    later than when the server ends it: until then the splits are nobody else's. Past it `require` raises Fenced, and
    does so for ever, for the work was dropped.
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
        """As the server said last."""
        return self._lease_ms

    def left_ms(self) -> int:
        """Until the lease ends by our clock; 0 when it has ended, or was taken."""
        with self._lock:
            return 0 if self._lost else max(0, self._renewed_ms + self._lease_ms - self._now_ms())

    def require(self) -> None:
        """Raises what ended the membership: the server's word, or Fenced when the lease is over."""
        with self._lock:
            if self._lost is None:
                late_ms = self._now_ms() - self._renewed_ms
                if late_ms < self._lease_ms:
                    return
                self._lost = Fenced(
                    f"reader {self.member.reader_id} of group {self.member.group}: its lease of {self._lease_ms} ms is "
                    f"over, for {late_ms} ms the server answered no heartbeat; nothing more is handed out or "
                    "committed, for the group may have given its splits to others. Join again (`Consumer.join`, or a "
                    "new Consumer): what was not committed is handed out again"
                )
            raise self._lost

    def renew(self, sent_ms: int, lease_ms: int | None = None) -> None:
        """A call sent at `sent_ms` was answered; beats also tell how long the lease is."""
        with self._lock:
            self._renewed_ms = max(self._renewed_ms, sent_ms)
            self._lease_ms = lease_ms or self._lease_ms

    def lose(self, error: PenstockError) -> None:
        """The server's word that this member is none any more; the first word counts."""
        with self._lock:
            self._lost = self._lost or error

    def asked(self, call: Callable[[], _T]) -> _T:
        """The answer to a call in which the member names itself: it renews the lease, or ends the membership."""
        self.require()
        sent_ms = self._now_ms()
        try:
            answer = call()
        except LeaseError as error:
            self.lose(error)
            raise
        self.renew(sent_ms)
        return answer

    def beat(self, door: GroupService) -> float | None:
        """One heartbeat; seconds until the next, None when there is no sense in another. None is sent once the lease is
        over: the work was dropped, and the server must not take it for going on where only its answers are lost."""
        if not self.left_ms():
            return None
        sent_ms = self._now_ms()
        pause_s = self._lease_ms / 1000 / BEATS_A_LEASE
        try:
            lease_ms = door.heartbeat(self.member)
        except PenstockError as error:
            if error.retryable:
                return max(_LEAST_PAUSE_S, pause_s / _HASTE)
            self.lose(error)
            return None
        self.renew(sent_ms, lease_ms)
        return lease_ms / 1000 / BEATS_A_LEASE


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
