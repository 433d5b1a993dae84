"""Where log compactions stand: originals left out, chains, order, hostile headers; whole slices against the oracle."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, PositionExpired
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, RowsOf, VisibleInstants
from penstock.reader.log.block_selection import emission_order
from tests.oracle import slice_writer
from tests.unit.reader.slices import SliceFolder, comparable

FIELDS: dict[str, Any] = {"ts": "long", "v": "string"}


def order(arrivals: str, **compactions: str) -> str:
    """One letter an instant."""
    given_sets = {name: frozenset(originals) for name, originals in compactions.items()}
    return "".join(emission_order(tuple(arrivals), given_sets, "w"))


@pytest.mark.parametrize(
    ("arrivals", "compactions", "expected"),
    [
        ("abc", {}, "abc"),
        ("abC", {"C": "ab"}, "C"),
        ("abdC", {"C": "ab"}, "Cd"),  # d was written while C ran, and is newer
        ("abdC", {"C": "ba"}, "Cd"),  # the list is a set
        ("abCdE", {"C": "ab", "E": "Cd"}, "E"),
        ("abCdfE", {"C": "ab", "E": "dC"}, "Ef"),
        ("xabCy", {"C": "ab"}, "xCy"),
        ("abCD", {"C": "a", "D": "b"}, "CD"),
        ("abDC", {"C": "a", "D": "b"}, "CD"),
        ("Cxy", {"C": "ab"}, "xy"),  # its originals were compacted into the base
        ("bxC", {"C": "ab"}, "Cx"),
        ("abxE", {"E": "Cb"}, "aEx"),  # the middle one is missing
    ],
)
def test_order(arrivals: str, compactions: dict[str, str], expected: str) -> None:
    assert order(arrivals, **compactions) == expected


@pytest.mark.parametrize("compactions", [{"C": "C"}, {"C": "D", "D": "C"}, {"C": "aD", "D": "E", "E": "C", "F": "a"}])
def test_instants_that_rewrote_each_other_are_damage(compactions: dict[str, str]) -> None:
    with pytest.raises(CorruptBlock, match=r"^w: blocks of instants C.* say they rewrote each other"):
        order("aCDEF", **compactions)


def test_long_chain_is_no_recursion() -> None:
    arrivals = tuple(f"{number}" for number in range(3000))
    chain = {str(number): frozenset({str(number - 1)}) for number in range(1, 3000)}
    assert emission_order(arrivals, chain, "w") == ("2999",)


Row = tuple[str, str]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=3), min_size=1, max_size=6), st.data())
def test_log_compactions_anywhere_change_no_row(
    tmp_path_factory: pytest.TempPathFactory, writes: list[list[str]], draw: st.DataObject
) -> None:
    """A history of upserts and deletes, with log compactions of runs of it that complete after later writes; then
    log compactions of log compactions. Rows equal those of the history without any, and the oracle's."""
    plain, rewritten = (SliceFolder(tmp_path_factory.mktemp("t"), FIELDS, CommitTimeOrdering()) for _ in "12")
    for folder in (plain, rewritten):
        folder.write_base([[_row(key, "base") for key in "abc"]])
    pending: list[tuple[str, frozenset[str], dict[str, str | None]]] = []
    current: list[tuple[str, dict[str, str | None]]] = []
    clock = itertools.count(1)
    for keys in writes:
        instant = f"{next(clock):03d}"
        effect = {key: None if draw.draw(st.integers(0, 3)) == 0 else f"{key}{instant}" for key in keys}
        for folder in (plain, rewritten):
            _write(folder, instant, effect)
        current.append((instant, effect))
        while pending and draw.draw(st.booleans()):
            _write(rewritten, pending[0][0], pending[0][2], sorted(pending.pop(0)[1], reverse=draw.draw(st.booleans())))
        if not pending and len(current) > 1 and draw.draw(st.booleans()):
            size = draw.draw(st.integers(2, len(current)))
            run, current = current[:size], current[size:]
            merged = {key: value for _, effect in run for key, value in effect.items()}
            compaction = f"{next(clock):03d}"
            pending.append((compaction, frozenset(instant for instant, _ in run), merged))
            current.insert(0, (compaction, merged))
    for instant, originals, merged in pending:
        _write(rewritten, instant, merged, sorted(originals))
    expected = sorted(comparable(_without_time(plain.rows())))
    assert sorted(comparable(_without_time(rewritten.rows()))) == expected
    assert comparable(rewritten.rows()) == comparable(rewritten.oracle())


def test_as_of_before_the_log_compaction_the_originals_count(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS, CommitTimeOrdering())
    _write(folder, "001", {"a": "1"})
    _write(folder, "002", {"a": "2"})
    _write(folder, "003", {"a": "rewritten"}, ["001", "002"])
    every = frozenset(InstantTime(text) for text in ("001", "002", "003"))
    assert [row["v"] for row in folder.rows(visible=VisibleInstants(every))] == ["rewritten"]
    assert [row["v"] for row in folder.rows(visible=VisibleInstants(every, "", "002"))] == ["2"]
    unfinished = frozenset(every - {"003"})
    assert [row["v"] for row in folder.rows(visible=VisibleInstants(unfinished))] == ["2"]


def _row(key: str, value: str) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": 1, "v": value}


def _write(
    folder: SliceFolder, instant: str, effect: dict[str, str | None], compacted: list[str] | None = None
) -> None:
    """A data and a delete block, as log compactions write them too: both with the header."""
    times = ",".join(compacted or ())
    rows = [_row(key, value) for key, value in effect.items() if value is not None]
    deleted = [(key, "IntWrapper", 0) for key, value in effect.items() if value is None]
    blocks = [slice_writer.data_block(folder.avro, rows, instant, compacted=times)] if rows or not deleted else []
    if deleted:
        blocks.append(slice_writer.delete_block(deleted, instant, compacted=times))
    folder.write_log(*blocks)


def _without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_hoodie_commit_time"} for row in rows]


@pytest.mark.parametrize(
    ("arrivals", "compactions", "expected"),
    [
        ("abdC", {"C": "ab"}, "abd"),
        ("abCdE", {"C": "ab", "E": "Cd"}, "abd"),
        ("bxC", {"C": "ab"}, "Cx"),  # one is not there
        ("bxE", {"E": "Cb"}, "Ex"),
        ("aCbxD", {"C": "a", "D": "by"}, "aDx"),
    ],
)
def test_originals_first_where_all_are_there(arrivals: str, compactions: dict[str, str], expected: str) -> None:
    given_sets = {name: frozenset(originals) for name, originals in compactions.items()}
    assert "".join(emission_order(tuple(arrivals), given_sets, "w", originals_first=True)) == expected


def test_range_never_loses_rows_that_a_log_compaction_stamped(tmp_path: pathlib.Path) -> None:
    """As 1.2.0 writes: the compacted rows carry the log compaction's instant. Ranges read the originals; rows whose
    originals are gone (compacted into the base) are an error, not left out."""
    folder = SliceFolder(tmp_path, FIELDS, CommitTimeOrdering())
    _write(folder, "001", {"a": "1"})
    _write(folder, "002", {"b": "2"})
    _write(folder, "003", {"a": "1", "b": "2"}, ["001", "002"])
    rows = RowsOf(frozenset({InstantTime("002")}), frozenset({InstantTime("003")}))
    assert [row["_hoodie_commit_time"] for row in folder.rows()] == ["003", "003"]
    assert [(row["v"], row["_hoodie_commit_time"]) for row in folder.rows(rows=rows)] == [("2", "002")]
    folder.write_base([[{**_row("c", "1"), "_hoodie_commit_time": "003"}]])
    with pytest.raises(PositionExpired, match="service 003"):
        folder.rows(rows=rows)
    assert len(folder.rows()) == 3
