"""Stores the splits of held plans and rounds, in this process or in the store of the service.

The state of the core has only the number of the splits and their order.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from penstock.enumerator.store.protocol import PlanPieces, Store
from penstock.proto.codec.serialized import decode_scan, decode_split, encode_scan, encode_split
from penstock.proto.model.splits import Plan, Scan, Split

MAX_SCANS: Final = 64
"""Decoded scans in the cache; each split of a plan is returned with its scan."""
AHEAD: Final = 64
"""Splits read from the store at once, because splits are handed out in order; fewer if they are large
(`Store.splits_from`)."""
MAX_AHEAD: Final = 32
"""Runs of read-ahead splits in the cache."""


class PlanStore(Protocol):
    """Scans and splits by plan id. Any thread. KeyError for a plan that is not stored (any more)."""

    def pieces(self, plan_id: str, plan: Plan) -> tuple[PlanPieces, ...]:
        """The pieces that the journal has to append with the plan. Stores nothing."""
        ...

    def keep(self, plan_id: str, plan: Plan) -> None:
        """Stores the plan, after the decision to hold it."""
        ...

    def scan(self, plan_id: str) -> Scan:
        """The scan of the plan, which its splits share."""
        ...

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[Split]:
        """The splits, in the order of `indices`."""
        ...

    def drop(self, plan_ids: Iterable[str]) -> None:
        """Removes plans; ignores unknown ids."""
        ...


class MemoryPlanStore:
    """Plans in the memory of this process."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}

    def pieces(self, plan_id: str, plan: Plan) -> tuple[PlanPieces, ...]:
        """See `PlanStore`."""
        return ()

    def keep(self, plan_id: str, plan: Plan) -> None:
        """See `PlanStore`."""
        self._plans[plan_id] = plan

    def scan(self, plan_id: str) -> Scan:
        """See `PlanStore`."""
        return self._plans[plan_id].scan

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[Split]:
        """See `PlanStore`."""
        splits = self._plans[plan_id].splits
        return [splits[index] for index in indices]

    def drop(self, plan_ids: Iterable[str]) -> None:
        """See `PlanStore`."""
        for plan_id in plan_ids:
            self._plans.pop(plan_id, None)


class DurablePlanStore:
    """Plans in a store: encoded, read in pieces."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._scans: OrderedDict[str, Scan] = OrderedDict()
        self._runs: OrderedDict[tuple[str, int], list[bytes]] = OrderedDict()

    def pieces(self, plan_id: str, plan: Plan) -> tuple[PlanPieces, ...]:
        """See `PlanStore`."""
        return (PlanPieces(plan_id, encode_scan(plan.scan), tuple(map(encode_split, plan.splits))),)

    def keep(self, plan_id: str, plan: Plan) -> None:
        """See `PlanStore`. The journal has stored the pieces."""

    def scan(self, plan_id: str) -> Scan:
        """See `PlanStore`."""
        with self._lock:
            held = self._scans.get(plan_id)
        if held is not None:
            return held
        scan = decode_scan(self._store.scan(plan_id))
        with self._lock:
            self._scans[plan_id] = scan
            while len(self._scans) > MAX_SCANS:
                self._scans.popitem(last=False)
        return scan

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[Split]:
        """See `PlanStore`."""
        return [decode_split(self._encoded(plan_id, index)) for index in indices]

    def _encoded(self, plan_id: str, index: int) -> bytes:
        first = index - index % AHEAD
        key, place = (plan_id, first), index - first
        with self._lock:
            run = self._runs.get(key)
            if run is not None:
                self._runs.move_to_end(key)
        if run is None:
            run = self._store.splits_from(plan_id, first, AHEAD)
            with self._lock:
                self._runs[key] = run
                while len(self._runs) > MAX_AHEAD:
                    self._runs.popitem(last=False)
        return run[place] if place < len(run) else self._store.splits(plan_id, (index,))[0]

    def drop(self, plan_ids: Iterable[str]) -> None:
        """See `PlanStore`. Clears the cache; an append to the journal removes the pieces from the store."""
        gone = set(plan_ids)
        with self._lock:
            for plan_id in gone:
                self._scans.pop(plan_id, None)
            for key in [key for key in self._runs if key[0] in gone]:
                del self._runs[key]
