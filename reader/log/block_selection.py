"""Selects the blocks of a split's log files that count, and their order (Hudi `BaseHoodieLogRecordReader`).

Decisions over block headers; `scanner` reads the content. A block counts if its instant is visible and no later
rollback block rolls it back. Blocks of one instant stay together, at the place of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.splits import VisibleInstants
from penstock.proto.value_classes import dataclass
from penstock.table.log.blocks import BlockKind, BlockPlace, LogBlock


def emission_order(
    arrivals: Sequence[str],
    compactions: Mapping[str, AbstractSet[str]],
    where: str,
    *,
    originals_first: bool = False,
) -> tuple[str, ...]:
    """The instants whose blocks count, in the order in which they are applied.

    `arrivals` are distinct instants in log order. `compactions` maps those of them that are log compactions to the
    instants they rewrote (a set, because writers list them in either order), which may be log compactions too.

    * A rewritten instant is left out.
    * A log compaction takes the place of the latest instant that it contains: what was written after that instant is
      newer, even if it is before the compacted block.
    * A log compaction none of whose instants is in the log is left out, as in Hudi: a compaction has merged them into
      the base file, with later writes.
    * With `originals_first`, a log compaction all of whose instants are in the log is left out too, and these count
      instead: their rows are the same and still have their commit times.

    CorruptBlock, beginning with `where`, for instants that rewrote each other.
    """
    if not compactions:
        return tuple(arrivals)
    _check_cycles(compactions, where)
    place = {instant: number for number, instant in enumerate(arrivals)}
    rewritten = {original for originals in compactions.values() for original in originals}
    places: dict[str, tuple[int, int]] = {}
    for number, instant in enumerate(arrivals):
        if instant in rewritten:
            continue
        if instant not in compactions:
            places[instant] = (number, number)
            continue
        originals = _rewritten_instants(instant, compactions)
        known = [place[original] for original in originals if original in place]
        if originals_first and len(known) == len(originals):
            places.update((arrivals[at], (at, at)) for at in known)
        elif known:
            places[instant] = (max(known), number)
    return tuple(sorted(places, key=places.__getitem__))


def _rewritten_instants(instant: str, compactions: Mapping[str, AbstractSet[str]]) -> set[str]:
    """The instants, none a log compaction, that a log compaction rewrote, directly or through others."""
    pending, seen = [instant], {instant}
    while pending:
        new = compactions.get(pending.pop(), frozenset()) - seen
        seen |= new
        pending.extend(new & compactions.keys())
    return seen - compactions.keys()


def _check_cycles(compactions: Mapping[str, AbstractSet[str]], where: str) -> None:
    """Removes log compactions whose instants are resolved, until none is left. CorruptBlock for a cycle."""
    unresolved = dict(compactions)
    while unresolved:
        resolved = [instant for instant, originals in unresolved.items() if not originals & unresolved.keys()]
        if not resolved:
            raise CorruptBlock(
                f"{where}: blocks of instants {', '.join(sorted(unresolved))[:200]} say they rewrote each other "
                "(COMPACTED_BLOCK_TIMES); the log is damaged: restore it"
            )
        for instant in resolved:
            del unresolved[instant]


_ROLLBACK: Final = "0"
_WITH_SCHEMA: Final = (BlockKind.AVRO_DATA, BlockKind.HFILE_DATA)


@dataclass(frozen=True, slots=True)
class CountedBlock:
    """A data or delete block that counts."""

    log: int
    """The log file: its index in `Split.logs`."""
    block: LogBlock
    """The block's header and the place of its content."""
    place: BlockPlace
    """The beginning of error texts."""


class CountedBlocks:
    """Collects blocks in scan order and returns those that count."""

    def __init__(self, table: str, visible: VisibleInstants, *, originals_first: bool = False) -> None:
        """`originals_first`: the instants that a log compaction rewrote count instead of it, if all of them are in the
        log."""
        self._table, self._visible, self._originals_first = table, visible, originals_first
        self._by_instant: dict[str, list[CountedBlock]] = {}

    def add_file(self, log: int, file: str, blocks: Iterable[LogBlock]) -> None:
        """Adds the whole blocks of the next log file. `damage` judges what lies between them."""
        for item in blocks:
            place = BlockPlace(self._table, file, item.offset, item.header.instant_time)
            if item.kind is BlockKind.COMMAND:
                self._command(item, place)
            elif item.kind is not BlockKind.CDC_DATA and self._visible.holds(item.header.instant_time):
                self._by_instant.setdefault(item.header.instant_time, []).append(CountedBlock(log, item, place))

    def in_order(self) -> list[CountedBlock]:
        """The blocks that count: instants by first arrival (log compactions move or drop them), within one in arrival
        order. CorruptBlock, naming file and block, for a block of Avro records without their schema."""
        compactions = {
            instant: times
            for instant, blocks in self._by_instant.items()
            if (times := frozenset(time for counted in blocks for time in counted.block.header.compacted_block_times))
        }
        order = emission_order(
            tuple(self._by_instant),
            compactions,
            f"table {self._table}: log compaction",
            originals_first=self._originals_first,
        )
        blocks = [counted for instant in order for counted in self._by_instant[instant]]
        for counted in blocks:
            _check_schema(counted)
        return blocks

    def _command(self, block: LogBlock, place: BlockPlace) -> None:
        """A rollback removes all blocks of its target instant seen so far, never later ones.

        Its own instant is not checked. It may be younger than the newest visible instant, because blocks of the failed
        instant are in no result.
        """
        if block.header.command != _ROLLBACK:
            raise CorruptBlock(
                f"{place}: command block of type {block.header.command[:40]!r}, expected a rollback (0): "
                "restore the file"
            )
        if not block.header.target_instant_time:
            raise CorruptBlock(f"{place}: a rollback block without TARGET_INSTANT_TIME: restore the file")
        self._by_instant.pop(block.header.target_instant_time, None)


def _check_schema(counted: CountedBlock) -> None:
    if counted.block.kind in _WITH_SCHEMA and not counted.block.header.schema_json:
        raise CorruptBlock(f"{counted.place}: a data block without SCHEMA in its header: restore the file")
