"""Each comparison in which an order is promised detects two exchanged changes of a key, and each comparison of
watermarks one that is 1 µs higher or lower. A comparison that is not registered here fails."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pytest

from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.splits import EventTimeBounds, Split
from penstock.proto.model.streams import Progress, StreamPoint, Watermark
from tests.test_comparisons import HERE, files_of_suites

# --- order


EDITS: Final = [
    ("+I", "1", 1), ("-U", "1", 1), ("+U", "1", 2), ("-U", "1", 2), ("+U", "1", 3),
    ("+I", "2", 7), ("-D", "2", 7), ("+I", "2", 8), ("-U", "2", 8), ("+U", "2", 9), ("-D", "2", 9),
]  # fmt: skip
"""Changes of two keys: kind, key, value."""


def edits(places: Sequence[int]) -> pa.Table:
    """The changes; `places` are their sequence numbers."""
    kinds, keys, values = (list(column) for column in zip(*EDITS, strict=True))
    columns = {"_hoodie_partition_path": ["p"] * len(keys), "_hoodie_record_key": keys, "p": ["p"] * len(keys)}
    sequence = [f"{place:04}" for place in places]
    return pa.table({**columns, "id": keys, "n": values, "_change_type": kinds, "_change_seq": sequence})


LEFT: Final = edits(range(len(EDITS))).slice(4, 1).drop_columns(["_change_type", "_change_seq"])
"""The row that is left."""


def by_sequence(changes: pa.Table) -> list[dict[str, Any]]:
    """The changes in the order of their sequence numbers."""
    return sorted(changes.to_pylist(), key=lambda row: str(row["_change_seq"]))


def left_by(fold: Callable[[dict[str, int], pa.Table, str], None], changes: pa.Table) -> bool:
    """Whether a fold of micro-batches leaves the row."""
    sink: dict[str, int] = {}
    fold(sink, changes, "rows")
    return sink == {"1": 3}


RIGHT: Final = edits(range(len(EDITS)))
ORDERED: Final[dict[str, Callable[[Any, pa.Table], bool]]] = {
    "golden.changes.folded": lambda fold, changes: bool(list(fold(changes, {})) == [("p", "1")]),
    "golden.changes.canonical_changes": lambda form, changes: bool(form(changes) == form(RIGHT)),
    "golden.changes.is_in_order": lambda check, changes: bool(check(changes)),
    "interop.history_changes._fold_difference": lambda difference, changes: not difference(changes, LEFT),
    "interop.chaos_writer.folded": lambda fold, changes: bool(fold(changes.to_pylist()) == {("p", "1"): 3}),
    "interop.test_chaos.disorder": lambda find, changes: not find([(row, "file") for row in changes.to_pylist()], []),
    "streaming.test_reads.folded": left_by,
    "faults.test_fault_23_cdc.fold": lambda fold, changes: list(fold(by_sequence(changes))) == [("p", "1")],
}
"""The comparisons that depend on an order, and whether they accept these changes."""
ORDERED_ELSEWHERE: Final = {
    "faults.test_fault_23_cdc.changes": "sorts for fold",
    "golden.test_changes_fold.check": "folded",
    "golden.test_changes_fold.check_pieces": "tables are compared, with their sequence numbers",
    "golden.test_changes_fold._places": "the instants of the changes",
    "golden.test_changelog_tables.changes_of": "lists are compared",
    "hybrid.delivered.changed": "test_changes_out_of_order_are_a_problem",
}


@pytest.mark.parametrize("name", ORDERED)
def test_comparison_detects_exchanged_changes_of_a_key(name: str) -> None:
    """The sequence numbers of two successive changes of a key are exchanged."""
    module, _, function = name.rpartition(".")
    compared = getattr(importlib.import_module(f"tests.{module}"), function)

    def accepts(changes: pa.Table) -> bool:
        try:
            return ORDERED[name](compared, changes)
        except (AssertionError, KeyError):
            return False

    assert accepts(RIGHT)
    for place in range(len(EDITS) - 1):
        places = list(range(len(EDITS)))
        places[place], places[place + 1] = place + 1, place
        assert EDITS[place][1] != EDITS[place + 1][1] or not accepts(edits(places)), EDITS[place : place + 2]


def test_every_comparison_by_sequence_numbers_is_registered() -> None:
    there = {name for path in files_of_suites() for name in ordered_in(path)}
    assert there == {*ORDERED, *ORDERED_ELSEWHERE}


def ordered_in(path: pathlib.Path) -> Iterator[str]:
    """The functions of a file that use sequence numbers of changes."""
    module = path.relative_to(HERE).with_suffix("").as_posix().replace("/", ".")
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.FunctionDef)
            and not node.name.startswith("test_")
            and "_change_seq" in ast.unparse(node)
        ):
            yield f"{module}.{node.name}"


# --- watermarks


MARK_US: Final = 1_700_000_000_000_000


def as_marked(mark: Callable[[StreamPoint], Any], at_us: int) -> object:
    """The mark of a point with a watermark."""
    return mark(StreamPoint(progress=Progress(EARLIEST), watermark=Watermark(at_us=at_us)))


def as_offset(kind: Any, at_us: int) -> object:
    """The mark of a micro-batch, by the offset in Spark's checkpoint."""
    offset = {"snapshot": None, "order_key": "1", "index": 0, "watermark_us": at_us, "ended": False}
    return kind.of_offset(offset)


def as_column(carried: Callable[[pa.Table], Any], at_us: int) -> object:
    """The marks that rows carry."""
    return carried(pa.table({"_penstock_watermark": pa.array([at_us], pa.timestamp("us", "UTC"))}))


def across(kind: Any, at_us: int) -> object:
    """The marks of micro-batches that continue in a topic, by their entries in Spark's log."""
    stream = kind.__new__(kind)
    stream.last, stream.offsets = (lambda: 0), (lambda batch: ({}, {}))
    stream._log_entry = lambda batch: {"content": {"kind": "none"}, "kafka": None, "watermark_us": at_us}
    return [leg.at_us for leg in stream.legs({})]


def within(check: Callable[..., None], at_us: int) -> object:
    """Whether bounds of event times from the mark to the mark include rows at MARK_US only."""
    split = Split(
        split_id="s", partition="", partition_values=(), file_group="f", order_key=EARLIEST.order_key, base=None
    )
    return raises(lambda: check(replace(split, event_time=EventTimeBounds(at_us, at_us)), [MARK_US], Counter()))


def raises(check: Callable[[], object]) -> bool:
    """Whether a check fails."""
    try:
        check()
    except AssertionError:
        return True
    return False


MARKS: Final[dict[str, Callable[[Any, int], object]]] = {
    "streaming.test_watermarks.mark": as_marked,
    "streaming.trail.Mark": as_offset,
    "streaming.trail.carried_us": as_column,
    "hybrid.test_windows_across.Across": across,
    "golden.test_event_times.check": within,
}
"""What the suites compare with the watermarks, or event times, of their models; from a mark in microseconds."""
MARKS_OF: Final = {
    "streaming.test_watermarks": "mark",
    "streaming.test_ends": "Mark",
    "streaming.test_operators": "Mark",
    "streaming.test_reads": "carried_us",
    "spark.test_source_watermark": "carried_us",
    "hybrid.test_windows_across": "Across",
    "golden.test_event_times": "check",
}
"""Which of them each module with a comparison of watermarks uses."""


@pytest.mark.parametrize("by_us", [1, -1])
@pytest.mark.parametrize("name", MARKS)
def test_watermark_that_differs_by_a_microsecond_is_another(name: str, by_us: int) -> None:
    module, _, function = name.rpartition(".")
    compared = getattr(importlib.import_module(f"tests.{module}"), function)
    assert MARKS[name](compared, MARK_US) == MARKS[name](compared, MARK_US) != MARKS[name](compared, MARK_US + by_us)


def test_every_comparison_of_watermarks_is_registered() -> None:
    """Assertions of the suites about watermarks and bounds of event times. The models' own tests are none."""
    marked = re.compile(r"at_us|[wW]atermark|carried_us|\blow <=")
    there: set[str] = set()
    for path in files_of_suites():
        tree = ast.walk(ast.parse(path.read_text()))
        tests = [ast.unparse(node.test) for node in tree if isinstance(node, ast.Assert)]
        if any(marked.search(text) and re.search("==|<=", text) for text in tests):
            there.add(path.relative_to(HERE).with_suffix("").as_posix().replace("/", "."))
    assert there - {"streaming.test_reference_model"} == MARKS_OF.keys()
    assert not set(MARKS_OF.values()) ^ {name.rpartition(".")[2] for name in MARKS}
