"""The model of a stream, in a few lines without Penstock: the watermark of each micro-batch, late rows, and the
micro-batch and content of each emitted window.

Has the definitions of docs/reference/streaming.md and Spark's own rule, over plain values. The values come from
`recorded`, `driven` runs streams. Never imports `penstock`. Event times are microseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

END_OF_TIME_US = 253_370_764_800_000_000
"""9999-01-01, after every event time."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: `n` is unique per write; `ts` None: no event time."""

    key: str
    ts: int | None
    g: int
    n: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a commit in a file group: the lowest and highest event time of its slice, None without any.

    `has_statistics` False: its files have no statistics, and `lowest` and `highest` are those of its rows.
    """

    lowest: int | None
    highest: int | None
    has_statistics: bool = True
    completed: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A micro-batch of a source at planning time: the slices delivered with it or before, those known but not
    delivered, completed idle timeouts, and whether it reaches the end of the range."""

    delivered: Sequence[Slice]
    coming: Sequence[Slice] = ()
    idle: int = 0
    is_end: bool = False


def bounds(piece: Slice, fallback: str, allowed: int) -> tuple[int | None, int | None]:
    """The bounds of a slice without statistics, by `watermarkFallback`."""
    if piece.has_statistics or fallback == "scan":
        return piece.lowest, piece.highest
    return (piece.completed - allowed, piece.completed) if fallback == "commitTime" else (None, None)


def watermarks(
    batches: Iterable[Planned],
    allowed: int,
    *,
    fallback: str = "scan",
    idle_timeout: int = 0,
    beyond_end: int | None = None,
) -> list[int | None]:
    """W(n) = max(W(n-1), min(high - allowed, lowest undelivered bound - 1 µs)); None before the first value.

    At the end END_OF_TIME_US, or `beyond_end` above the highest bound.
    """
    marks: list[int | None] = []
    before: int | None = None
    for batch in batches:
        known = [bounds(piece, fallback, allowed) for piece in (*batch.delivered, *batch.coming)]
        highs = [high for _, high in known if high is not None]
        lows = [low - 1 for low, _ in known[len(batch.delivered) :] if low is not None]
        waits = fallback == "hold" and any(not piece.has_statistics for piece in batch.coming)
        if batch.is_end:
            before = END_OF_TIME_US if beyond_end is None else max(highs) + beyond_end
        elif batch.idle and before is not None:
            before += batch.idle * idle_timeout
        elif highs and not waits:
            now = min([max(highs) - allowed, *lows])
            before = now if before is None else max(before, now)
        marks.append(before)
    return marks


@dataclass(frozen=True, slots=True)
class Micro:
    """A micro-batch of the engine: rows of each source, and the watermark of each (None: no row has one).

    `restarted`: the query was started again before it.
    """

    rows: tuple[Sequence[Row], ...]
    brought: tuple[int | None, ...]
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A micro-batch with the engine's actions: rows at or below `late` are dropped, state at or below `evict` is
    removed. Both are whole milliseconds."""

    rows: tuple[Sequence[Row], ...]
    late: int
    evict: int


def engine(micros: Sequence[Micro]) -> list[Step]:
    """Micro-batch n evicts by the minimum watermark of all sources before it, and drops by that of n-1.

    A source without a watermark counts as 0. After a restart a query keeps the watermark, but not per source.
    """
    steps: list[Step] = []
    by_source: dict[int, int] = {}
    evict = 0
    for number, micro in enumerate(micros):
        late = steps[-1].evict if steps else 0
        if micro.restarted:
            by_source = {}
        steps.append(Step(micro.rows, late, evict))
        for source, at in enumerate(micros[number].brought):
            if at is not None:
                by_source[source] = max(by_source.get(source, 0), at // 1000 * 1000)
        evict = max(evict, min(by_source.get(source, 0) for source in range(len(micro.rows))))
    return steps


Emitted = list[tuple[Counter[Hashable], int]]
"""For each micro-batch the rows it emits, and how many it drops as late."""


def windows(steps: Sequence[Step], size: int, slide: int, source: int = 0) -> Emitted:
    """Rows of each window and `g`: (start, g, the `n` of its rows); late ones are counted by window and `g`."""
    state: dict[tuple[int, int], list[int]] = defaultdict(list)
    emissions: Emitted = []
    for step in steps:
        dropped = set()
        for row in step.rows[source]:
            if row.ts is not None:
                last = row.ts // slide * slide
                for start in range(last, row.ts - size, -slide):
                    if start + size <= step.late:
                        dropped.add((start, row.g))
                    else:
                        state[start, row.g].append(row.n)
        closed = [place for place in state if place[0] + size <= step.evict]
        emissions.append((Counter((*place, tuple(sorted(state.pop(place)))) for place in closed), len(dropped)))
    return emissions


def sessions(steps: Sequence[Step], gap: int) -> Emitted:
    """Sessions of each `g`: (start, end, g, the `n` of its rows)."""
    state: dict[int, list[tuple[int, int, list[int]]]] = defaultdict(list)
    emissions: Emitted = []
    for step in steps:
        dropped = set()
        for row in step.rows[0]:
            if row.ts is not None:
                if row.ts + gap <= step.late:
                    dropped.add((row.ts, row.g))
                else:
                    state[row.g].append((row.ts, row.ts + gap, [row.n]))
        emitted: Counter[Hashable] = Counter()
        for g, pieces in state.items():
            merged: list[tuple[int, int, list[int]]] = []
            for start, end, rows in sorted(pieces):
                if merged and start <= merged[-1][1]:
                    merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2] + rows)
                else:
                    merged.append((start, end, rows))
            emitted.update((start, end, g, tuple(sorted(rows))) for start, end, rows in merged if end <= step.evict)
            state[g] = [piece for piece in merged if piece[1] > step.evict]
        emissions.append((emitted, len(dropped)))
    return emissions


def window_join(steps: Sequence[Step], size: int) -> Emitted:
    """Windows of both tables by start and `g`, joined: (start, g, `n` of the left, `n` of the right)."""
    emissions: Emitted = []
    for left, right in zip(windows(steps, size, size, 0), windows(steps, size, size, 1), strict=True):
        of_right = {row[:2]: row[2] for row in right[0]}  # type: ignore[index]
        joined = [(*row, of_right[row[:2]]) for row in left[0] if row[:2] in of_right]  # type: ignore[index,misc]
        emissions.append((Counter(joined), left[1] + right[1]))
    return emissions


def interval_join(steps: Sequence[Step], before: int, after: int, *, outer: bool) -> Emitted:
    """Pairs of equal `g` with left.ts - before <= right.ts <= left.ts + after, in the micro-batch of the later one.

    `outer`: a left row without a match is emitted with None when no match can follow.
    """
    buffered: tuple[list[Row], list[Row]] = ([], [])
    matched: set[Row] = set()
    emissions: Emitted = []
    for step in steps:
        fresh = tuple([row for row in rows if row.ts is not None and row.ts > step.late] for rows in step.rows)
        dropped = sum(row.ts is not None and row.ts <= step.late for rows in step.rows for row in rows)
        pairs = [(left, right) for left in fresh[0] for right in buffered[1] + fresh[1]]
        pairs += [(left, right) for left in buffered[0] for right in fresh[1]]
        pairs = [(a, b) for a, b in pairs if a.g == b.g and -before <= _at(b) - _at(a) <= after]
        emitted: Counter[Hashable] = Counter((left.n, right.n) for left, right in pairs)
        matched.update(left for left, _ in pairs)
        for rows, new in zip(buffered, fresh, strict=True):
            rows += new
        expired = [row for row in buffered[0] if _at(row) + after <= step.evict]
        emitted.update((row.n, None) for row in expired if outer and row not in matched)
        buffered[0][:] = [row for row in buffered[0] if row not in expired]
        buffered[1][:] = [row for row in buffered[1] if _at(row) + before > step.evict]
        emissions.append((emitted, dropped))
    return emissions


def _at(row: Row) -> int:
    assert row.ts is not None
    return row.ts


def deduplicated(steps: Sequence[Step], horizon: int) -> Emitted:
    """The first row of each key; its key is removed when the watermark reaches its event time + horizon.

    A row without event time is never late, and Spark uses 0 as its time.
    """
    state: dict[str, int] = {}
    emissions: Emitted = []
    for step in steps:
        emitted: Counter[Hashable] = Counter()
        dropped = 0
        for row in step.rows[0]:
            if row.ts is not None and row.ts <= step.late:
                dropped += 1
            elif row.key not in state:
                state[row.key] = (row.ts or 0) + horizon
                emitted[row.n] += 1
        state = {key: until for key, until in state.items() if until > step.evict}
        emissions.append((emitted, dropped))
    return emissions
