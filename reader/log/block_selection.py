"""Which blocks of a split's log files are part of the answer, and in what order (Hudi `BaseHoodieLogRecordReader`).

Decisions over block headers. Not here: the blocks' content (`log_records`). A block counts if its instant is visible
and no rollback block behind it takes it back; blocks of one instant stay together, at the place of its first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import CorruptBlock, UnsupportedFeature
from penstock.proto.model.splits import VisibleInstants
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock


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


_ROLLBACK: Final = "0"
_UNREAD_KINDS: Final = {
    BlockKind.HFILE_DATA: "HFile log blocks (hoodie.logfile.data.block.format=hfile)",
}


@dataclass(frozen=True, slots=True)
class CountedBlock:
    """A data or delete block that counts: in which of the split's logs (place in `Split.logs`), and where there."""

    log: int
    block: LogBlock
    place: BlockPlace


class CountedBlocks:
    """Takes in blocks in scan order, gives back those that count."""

    def __init__(self, table: str, visible: VisibleInstants, *, originals_first: bool = False) -> None:
        """`originals_first`: what log compactions rewrote counts instead of them, where all of it is there."""
        self._table, self._visible, self._originals_first = table, visible, originals_first
        self._by_instant: dict[str, list[CountedBlock]] = {}

    def add_file(self, log: int, file: str, blocks: Iterable[LogBlock]) -> None:
        """The whole blocks of one more log file (`log_damage` judges what lies between them)."""
        for item in blocks:
            place = BlockPlace(self._table, file, item.offset, item.header.instant_time)
            if item.kind is BlockKind.COMMAND:
                self._command(item, place)
            elif item.kind is not BlockKind.CDC_DATA and self._visible.holds(item.header.instant_time):
                self._by_instant.setdefault(item.header.instant_time, []).append(CountedBlock(log, item, place))

    def in_order(self) -> list[CountedBlock]:
        """The blocks that count: instants by first arrival (`log_compaction` moves and drops), within one as they
        arrived.

        UnsupportedFeature, naming file and block, for a counting block of a kind that is not read.
        """
        compactions = {
            instant: times
            for instant, blocks in self._by_instant.items()
            if (times := frozenset(time for found in blocks for time in found.block.header.compacted_block_times))
        }
        order = emission_order(
            tuple(self._by_instant),
            compactions,
            f"table {self._table}: log compaction",
            originals_first=self._originals_first,
        )
        counted = [block for instant in order for block in self._by_instant[instant]]
        for found in counted:
            _check_read(found)
        return counted

    def _command(self, block: LogBlock, place: BlockPlace) -> None:
        """A rollback takes back all blocks of its target seen so far, never later ones.

        Its own instant does not matter: it may be younger than the newest visible one, as the failed instant's
        blocks are not part of any answer.
        """
        if block.header.command != _ROLLBACK:
            raise CorruptBlock(
                f"{place}: command block of type {block.header.command[:40]!r}, and Hudi knows rollbacks (0) alone: "
                "restore the file"
            )
        if not block.header.target_instant_time:
            raise CorruptBlock(f"{place}: a rollback block without TARGET_INSTANT_TIME: restore the file")
        self._by_instant.pop(block.header.target_instant_time, None)


def _check_read(found: CountedBlock) -> None:
    header = found.block.header
    feature = _UNREAD_KINDS.get(found.block.kind, "")
    if feature:
        raise UnsupportedFeature(f"{found.place}: {feature} are not supported; let Hudi compact the file group")
    if found.block.kind is BlockKind.AVRO_DATA and not header.schema_json:
        raise CorruptBlock(f"{found.place}: a data block without SCHEMA in its header: restore the file")
