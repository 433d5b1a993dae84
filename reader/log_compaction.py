"""In what order the instants of a log count once log compactions have rewritten some of them (`COMPACTED_BLOCK_TIMES`).

Pure, over instants alone: every one given is visible and not rolled back, so as of a time before a log compaction the
originals count. Not here: finding the blocks (`log_blocks`), what wins. Source: Hudi `BaseHoodieLogRecordReader`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from penstock.proto.errors import CorruptBlock


def emission_order(
    arrivals: Sequence[str],
    compactions: Mapping[str, AbstractSet[str]],
    where: str,
    *,
    originals_first: bool = False,
) -> tuple[str, ...]:
    """The instants whose blocks count, in the order in which they do.

    `arrivals` are distinct instants in log order; `compactions` maps those of them that are log compactions to the
    instants they rewrote (a set: writers list them in either order), which may be log compactions in turn. An
    instant that was rewritten is left out; a log compaction stands where the latest of all that went into it stood,
    for what was written after that is newer, though it may stand before the compacted block. One none of whose
    originals is there is left out, as in Hudi: a compaction has put them into the base file, with what was written
    after them. With `originals_first` one all of whose originals are there is left out too, and they count: their
    rows are the same and still tell who wrote them. CorruptBlock, beginning with `where`, for instants that rewrote
    each other.
    """
    if not compactions:
        return tuple(arrivals)
    _refuse_circles(compactions, where)
    place = {instant: number for number, instant in enumerate(arrivals)}
    rewritten = {original for originals in compactions.values() for original in originals}
    stands_at: dict[str, tuple[int, int]] = {}
    for number, instant in enumerate(arrivals):
        if instant in rewritten:
            continue
        if instant not in compactions:
            stands_at[instant] = (number, number)
            continue
        originals = _went_into(instant, compactions)
        known = [place[original] for original in originals if original in place]
        if originals_first and len(known) == len(originals):
            stands_at.update((arrivals[at], (at, at)) for at in known)
        elif known:
            stands_at[instant] = (max(known), number)
    return tuple(sorted(stands_at, key=stands_at.__getitem__))


def _went_into(instant: str, compactions: Mapping[str, AbstractSet[str]]) -> set[str]:
    """The instants, none a log compaction, that a log compaction rewrote, straight or through others."""
    waiting, seen = [instant], {instant}
    while waiting:
        new = compactions.get(waiting.pop(), frozenset()) - seen
        seen |= new
        waiting.extend(new & compactions.keys())
    return seen - compactions.keys()


def _refuse_circles(compactions: Mapping[str, AbstractSet[str]], where: str) -> None:
    """Takes away log compactions whose originals are settled until none is left."""
    open_ones = dict(compactions)
    while open_ones:
        settled = [instant for instant, originals in open_ones.items() if not originals & open_ones.keys()]
        if not settled:
            raise CorruptBlock(
                f"{where}: blocks of instants {', '.join(sorted(open_ones))[:200]} say they rewrote each other "
                "(COMPACTED_BLOCK_TIMES); the log is damaged: restore it"
            )
        for instant in settled:
            del open_ones[instant]
