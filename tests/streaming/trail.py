"""The history of a stream in the model's form: the batches of one source, each between two positions.

Derives the delivered and the known slices of a batch, and its rows, with `recorded`. Never imports `penstock`: a
position is parsed from the text of Spark's offset, or passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.streaming.recorded import Place, Recorded
from tests.streaming.reference_model import Planned, Row, Slice

WHOLE = 2**31 - 1
"""The index of a position after all file groups of a commit."""
NOWHERE: Place = ("0", WHOLE)
AFTER_ALL: Place = ("9", 0)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position of a source with its watermark; `done` splits of its snapshot are delivered (None: it has none).

    `is_inside`: more of the snapshot follows.
    """

    place: Place
    done: int | None
    at_us: int | None
    is_end: bool
    is_inside: bool = False

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> Mark:
        """Parses the JSON of an offset."""
        snapshot = offset["snapshot"]
        done = None if snapshot is None else int(snapshot["done"])
        is_inside = snapshot is not None and done < snapshot["total"]
        return cls((offset["order_key"], offset["index"]), done, offset["watermark_us"], offset["ended"], is_inside)

    def has_passed(self, order_key: str) -> bool:
        """Whether all of a commit was delivered."""
        return not self.is_inside and self.place >= (order_key, WHOLE)


@dataclass(frozen=True, slots=True)
class Leg:
    """A batch of a source: from the mark before it to the mark after it, and the number of revealed commits."""

    before: Mark
    after: Mark
    step: int

    @property
    def is_empty(self) -> bool:
        """Whether the micro-batch has no data of this source."""
        return self.before == self.after

    @property
    def has_commits(self) -> bool:
        """Whether the batch has more than elapsed time or the end."""
        return (self.before.place, self.before.done) != (self.after.place, self.after.done)


def carried_us(rows: pa.Table) -> list[int | None]:
    """The watermark that each row of a micro-batch carries, in microseconds."""
    marks: list[int | None] = rows["_penstock_watermark"].cast(pa.int64()).to_pylist()
    return marks


class SourceHistory:
    """The batches of one source for the model. `snapshot_at`: the stream began with the table after so many commits;
    `upto`: it ends there; `unit`: an idle timeout."""

    def __init__(
        self,
        recorded: Recorded,
        legs: Sequence[Leg],
        *,
        snapshot_at: int = 0,
        upto: Place = AFTER_ALL,
        idle_timeout: int = 0,
    ) -> None:
        self._recorded, self._upto, self._idle_timeout = recorded, upto, idle_timeout
        self.legs = [leg for leg in legs if not leg.is_empty]
        self._start = NOWHERE
        self._snapshot: list[tuple[Slice, list[Row]]] = []
        if snapshot_at:
            self._start = (recorded.commits[snapshot_at - 1].order_key, WHOLE)
            self._snapshot = sorted(recorded.snapshot(snapshot_at), key=_in_event_time_order)

    def planned(self) -> list[Planned]:
        """Each batch at its planning time."""
        return [self._planned(leg) for leg in self.legs]

    def rows(self, leg: Leg) -> list[Row]:
        """The rows of a batch."""
        first, end = leg.before.done or 0, leg.after.done or 0
        of_snapshot = [row for _, rows in self._snapshot[first:end] for row in rows]
        return of_snapshot + self._recorded.rows(max(leg.before.place, self._start), leg.after.place)

    def has_watermark(self, leg: Leg) -> bool:
        """Whether a row carries its watermark: a row of the table, or a marker."""
        return bool(self.rows(leg)) or (not leg.is_empty and not leg.has_commits) or leg.after.is_end

    def _planned(self, leg: Leg) -> Planned:
        done = leg.after.done if leg.after.done is not None else len(self._snapshot)
        pieces = [piece for piece, _ in self._snapshot]
        place, step = leg.after.place, leg.step
        return Planned(
            delivered=pieces[:done] + self._recorded.slices(self._start, place, step),
            coming=pieces[done:] + self._recorded.slices(max(place, self._start), self._upto, step),
            idle=self._timeouts(leg),
            is_end=leg.after.is_end,
        )

    def _timeouts(self, leg: Leg) -> int:
        if leg.has_commits or leg.after.is_end or not self._idle_timeout:
            return 0
        assert leg.before.at_us is not None and leg.after.at_us is not None
        times, rest = divmod(leg.after.at_us - leg.before.at_us, self._idle_timeout)
        assert times > 0 and rest == 0, f"the watermark of an idle table moved by {leg}"
        return times


def _in_event_time_order(piece: tuple[Slice, list[Row]]) -> tuple[int, int]:
    lowest, highest = piece[0].lowest, piece[0].highest
    return (-1, -1) if lowest is None or highest is None else (lowest, highest)
