"""The verdicts of a table's life: a wrong row, a file that a clean forgot, a crowded timeline and an orphan are found,
and what is right is not."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.interop.chaos_writer import folded
from tests.interop.life_judgements import (
    Completed,
    DataFile,
    Run,
    completed_of,
    crowded,
    data_file_of,
    group_of,
    is_of_timeline,
    is_planned_service,
    not_cleaned,
    not_newest,
    orphans,
    settled,
)
from tests.interop.life_model import OPERATIONS, Read, TableModel, Write
from tests.interop.life_peers import LifePeer
from tests.interop.table_life import ATTEMPTS, Kind, Peers, TableLife

FILE_ID = "960e443c-4bdd-44bb-b17d-38c206bc409b-0"


def at(second: int) -> str:
    return f"20261126{second:09d}"


def wrote(model: TableModel, operation: str, second: int, *rows: tuple[str, str, int, int]) -> None:
    model.apply(Write(operation, [list(row) for row in rows]), at(second), at(second + 1))


def small_model() -> TableModel:
    model = TableModel(random.Random(1))
    wrote(model, "upsert", 10, ("a", "x", 5, 1), ("b", "y", 5, 2), ("c", "x", 5, 3))
    wrote(model, "upsert", 20, ("a", "x", 4, 4), ("b", "y", 6, 5))
    wrote(model, "delete", 30, ("b", "y", 0, 0))
    wrote(model, "insert_overwrite", 40, ("a", "x", 1, 6))
    return model


def test_model_merges_by_the_ordering_value() -> None:
    model = small_model()
    assert model.state(1) == [("x", "a", 1, at(10)), ("y", "b", 5, at(20)), ("x", "c", 3, at(10))]
    assert model.state() == [("x", "a", 6, at(40))]
    assert [commit.changes for commit in model.commits[1:]] == [
        (("-U", at(20), ("y", "b"), 2), ("+U", at(20), ("y", "b"), 5)),
        (("-D", at(30), ("y", "b"), 5),),
        (("-D", at(40), ("x", "a"), 1), ("+I", at(40), ("x", "a"), 6), ("-D", at(40), ("x", "c"), 3)),
    ]


def test_range_has_the_rows_that_its_commits_wrote_and_that_are_there() -> None:
    model = small_model()
    assert model.in_range(2) == model.in_range(0) == [("x", "a", 6, at(40))] and model.in_range(3) == []
    del model.commits[2:]
    assert model.in_range(0) == [("y", "b", 5, at(20))]


def test_drawn_writes_insert_new_keys_and_delete_stored_ones() -> None:
    model, drawn, ever = TableModel(random.Random(3)), set(), set()
    wrote(model, "upsert", 0, *map(tuple, model.first().rows))
    for second in range(1, 300):
        stored, write = model.commits[-1].rows.keys(), model.drawn()
        keys = {(row[1], row[0]) for row in write.rows}
        assert len(keys) == len(write.rows)
        assert write.operation not in ("insert", "bulk_insert") or not keys & ever
        assert write.operation != "delete" or keys <= stored
        assert write.operation != "insert_overwrite" or {partition for partition, _ in keys} == {"x"}
        drawn.add(write.operation)
        ever |= keys
        assert len(stored) < 300
        model.apply(write, at(second), at(second))
    assert drawn == {*OPERATIONS}
    late = [row for commit in model.commits for row in commit.changes if row[0] == "+U"]
    assert late and len(model.commits) == 300


def test_changes_of_the_model_add_up_to_its_rows() -> None:
    model = TableModel(random.Random(4))
    for second in range(50):
        model.apply(model.drawn() if second else model.first(), at(second), at(second))
    changes = [change for commit in model.commits for change in commit.changes]
    rows = [
        {"_change_type": kind, "_change_seq": f"{place:06d}", "p": key[0], "id": key[1], "n": n}
        for place, (kind, _, key, n) in enumerate(changes)
    ]
    assert folded(rows) == {key: n for key, (n, _) in model.commits[-1].rows.items()}


def test_names_of_both_layouts() -> None:
    newer, older = f"{at(1)}_{at(2)}.deltacommit", f"{at(1)}.commit"
    assert completed_of(newer) == Completed(at(1), at(2), "deltacommit")
    assert completed_of(older) == Completed(at(1), at(1), "commit")
    states = (f"{at(1)}.inflight", f"{at(1)}.commit.requested", f"{at(1)}.deltacommit.inflight")
    for name in (*states, newer, older):
        assert is_of_timeline(name) and (completed_of(name) is None) == (name in states)
    assert [name for name in states if is_planned_service(name)] == []
    assert all(is_planned_service(f"{at(1)}.{service}.requested") for service in ("compaction", "clustering", "clean"))
    assert not is_of_timeline("hoodie.properties") and not is_of_timeline(f".{older}.crc")
    assert data_file_of("x", f"{FILE_ID}_0-1-0_{at(1)}.parquet") == DataFile(f"x/{FILE_ID}", at(1), False)
    assert data_file_of("x", f".{FILE_ID}_{at(1)}.log.1_0-1-0") == DataFile(f"x/{FILE_ID}", at(1), True)
    assert data_file_of("x", ".hoodie_partition_metadata") is None
    assert group_of("x", FILE_ID) == group_of("x", f"{FILE_ID}_0-1-0_{at(1)}.parquet") == f"x/{FILE_ID}"


def known(*seconds: int, took: int = 1) -> dict[str, Completed]:
    return {at(second): Completed(at(second), at(second + took), "deltacommit") for second in seconds}


def files(*members: str) -> list[DataFile]:
    """Of `b10`, a base file of second 10 of the group g, and `l12`, a log."""
    return [DataFile("x/g", at(int(name[1:])), name[0] == "l") for name in members]


@pytest.mark.parametrize(
    ("left", "wrong"),
    [
        (["b10", "l12", "b20", "l22"], ["b10", "l12"]),
        (["l12", "b20"], ["l12"]),
        (["b20", "l22", "b40", "l42"], []),  # the state at 30 needs them
        (["b10", "l12", "l22"], []),
        (["b10", "b29"], []),  # its base file completed at 30
    ],
)
def test_file_that_a_clean_forgot_is_found(left: list[str], wrong: list[str]) -> None:
    lines = not_cleaned(files(*left), known(10, 12, 20, 22, 29, 40, 42), at(30))
    assert [line for line in lines for name in wrong if f"of {at(int(name[1:]))} is left" in line] == lines
    assert len(lines) == len(wrong)


def test_file_of_a_group_that_was_replaced_meanwhile_may_be_left_for_two_runs() -> None:
    runs = [Run(at(30), at(10)), Run(at(60), at(40)), Run(at(90), at(70))]
    assert [settled(runs[:-1], run.earliest) for run in runs] == ["", at(10), at(40)]
    assert settled(runs[:1], at(30)) == "" and settled([], at(30)) == ""


def test_log_that_completed_after_the_compaction_was_planned_belongs_to_the_new_base_file() -> None:
    late = {**known(10, 20), **known(18, took=5)}
    assert not_cleaned(files("l18", "b20"), late, at(30)) == []
    assert len(not_cleaned(files("l18", "b20"), {**known(10, 20), **known(18)}, at(30))) == 1


def test_crowded_timeline_is_found() -> None:
    writes = [Completed(at(n), at(n), "deltacommit") for n in range(33)]
    others = [Completed(at(n), at(n), action) for n in range(9) for action in ("clean", "rollback")]
    assert crowded([*writes, *others], 30, 3) == [] and len(crowded([*writes, *others], 30, 2)) == 1


def test_orphan_is_found() -> None:
    assert orphans(files("b10", "l12"), known(10, 12)) == []
    assert orphans(files("b10", "l12"), known(10)) == [f"x/g: a file of {at(12)}, which never completed"]


def test_file_group_that_was_replaced_and_left_is_found() -> None:
    assert not_newest(files("b10", "l12", "l14"), {"x/g"}) == [] and not_newest(files("l12"), {"x/g"}) == []
    assert not_newest(files("b10", "b12"), {"x/g"}) == ["x/g: 2 base files"]
    assert not_newest(files("b10"), {"x/h"}) == ["x/g: the newest state has no row of it"]


class ScriptedPeer:
    """Answers from a model, with a change of the rows. `refusals`: how many writes it refuses first."""

    def __init__(self, change: Callable[[list[Read]], list[Read]], refusals: int = 0) -> None:
        self.change, self.refusals, self.writes = change, refusals, 0
        self.model = TableModel(random.Random(0))

    def ask(self, action: str, path: pathlib.Path, **request: Any) -> dict[str, Any]:
        if action == "write":
            if self.refusals:
                self.refusals -= 1
                return {"refused": "a clustering is pending", "cpu_s": 0.0}
            self.writes += 1
            self.model.apply(Write(request["operation"], request["rows"]), at(self.writes), at(self.writes))
            return {"instant": at(self.writes), "order_key": at(self.writes), "cpu_s": 0.0}
        options, instants = request["options"], [commit.requested for commit in self.model.commits]
        if "as_of" in options:
            rows = self.model.state(instants.index(options["as_of"]))
        elif "after" in options:
            rows = self.model.in_range(instants.index(options["after"]))
        else:
            rows = self.model.state()
        return {"rows": [list(row) for row in self.change(rows)], "cpu_s": 0.0}


def lived(change: Callable[[list[Read]], list[Read]], refusals: int = 0) -> TableLife:
    """A table whose readers answer with changed rows, after ten writes."""
    peer = ScriptedPeer(change, refusals)
    peers = Peers(*[cast(LifePeer, peer)] * 3, hudi=None)
    draws = [random.Random(seed) for seed in range(3)]
    life = TableLife(
        Kind("mor", "merge_on_read", 9), pathlib.Path("t"), peers, TableModel(draws[0]), *draws[1:], lambda *_: None
    )
    for _ in range(10):
        life.turn()
    return life


CHANGES: dict[str, Callable[[list[Read]], list[Read]]] = {
    "lost": lambda rows: rows[1:],
    "doubled": lambda rows: rows[:1] + rows,
    "another value": lambda rows: [(*row[:2], row[2] + 1, row[3]) for row in rows],
    "another commit": lambda rows: [(*row[:3], at(99)) for row in rows],
    "a strange row": lambda rows: [*rows, ("x", "strange", 1, at(1))],
}


@pytest.mark.parametrize("change", CHANGES)
def test_wrong_answer_of_a_reader_is_found(change: str) -> None:
    right, wrong = lived(lambda rows: rows[::-1]), lived(CHANGES[change])
    assert right.problems == [] and right.happened["answers compared"] == 40
    for reader in ("snapshot", "longer range", "older state"):
        assert any(reader in problem for problem in wrong.problems), reader


def test_refused_write_is_repeated_and_no_endless_refusal_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.interop.table_life.RETRY_S", 0.0)
    life = lived(lambda rows: rows, refusals=3)
    assert life.problems == [] and life.happened["writes refused"] == 3 and len(life.model.commits) == 10
    with pytest.raises(AssertionError, match=f"{ATTEMPTS} attempts of a write were refused: a clustering is pending"):
        lived(lambda rows: rows, refusals=ATTEMPTS)
