"""The checker of histories: it accepts good ones, and finds each kind of broken one by its rule."""

from __future__ import annotations

import ast
import contextlib
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.histories.checker import violations
from tests.histories.history import CutOff, joined, lines_of, read_history
from tests.histories.minimised import LINES, minimised, reduced, told
from tests.histories.scripted_history import ROWS, SERVER, Script, two_readers

Doctor = Callable[[Script], None]


def _split_finished_twice(script: Script) -> None:
    script.join("c", 8)
    script.read("c", 8, "r1", 1)


def _split_handed_out_from_wrong_row(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 4)
    script.join("d", 9)
    script.assign("d", 9, "r2", 0, 3)


def _commit_after_split_moved(script: Script) -> None:
    script.join("c", 8)
    script.join("d", 9)
    script.assign("c", 8, "r2", 0)
    script.assign("d", 9, "r2", 0)
    script.commit("c", 8, "r2", 0)


def _lost_commit_counts_after_fence(script: Script) -> None:
    """The answer to a commit is lost, its member is fenced, and later the rows count."""
    script.join("c", 8)
    script.join("d", 9)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 4, code="")
    script.call("c", "Heartbeat", {"member": ["t", "g", "c", 8]}, code="FENCED")
    script.assign("d", 9, "r2", 0, 0)
    script.join("e", 10)
    script.assign("e", 10, "r2", 0, 4)


def _fenced_member_commits(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.call("c", "Heartbeat", {"member": ["t", "g", "c", 8]}, code="FENCED")
    script.commit("c", 8, "r2", 0)


def _member_of_older_epoch_commits(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.join("c", 9)
    script.commit("c", 8, "r2", 0)


def _member_commits_after_reset(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.reset()
    script.commit("c", 8, "r2", 0)


def _epoch_given_twice(script: Script) -> None:
    script.join("c", 8)
    script.join("d", 8)


def _position_goes_back(script: Script) -> None:
    script.describe("r1")
    script.reset(dry_run=True)
    script.describe("r0")


def _rows_returned_twice(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 5)
    script.deliver("c", 8, "r2", 0, 4, ROWS)
    script.commit("c", 8, "r2", 0)


def _batch_left_out(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    for first in range(3):
        script.deliver("c", 8, "r2", 0, first, first + 1)
    batches = [line for line in script.files["c"] if "delivered" in line]
    batches[1].pop("delivered")


def _split_begun_at_another_row(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 4, ROWS, start=4)


def _commit_of_rows_that_were_not_returned(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 5)
    script.commit("c", 8, "r2", 0, 7)


def _later_change_first(script: Script) -> None:
    script.join("c", 8)
    script.join("d", 9)
    script.assign("c", 8, "r2", 0)
    script.deliver("c", 8, "r2", 0, 0, 3)
    script.commit("c", 8, "r2", 0, 3)
    script.read("d", 9, "r3", 0)
    script.deliver("c", 8, "r2", 0, 3, ROWS)
    script.commit("c", 8, "r2", 0)


def _group_ends_early(script: Script) -> None:
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.end_of_group("c", 8)


def _entry_changes(script: Script) -> None:
    script.call("task2", "NextSplit", {"entry": ["p", 0, 1]}, {"split": "z"})


def _split_in_two_slots(script: Script) -> None:
    script.call("task2", "NextSplit", {"entry": ["p", 1, 0]}, {"split": "x"})


def _slot_goes_on_after_its_end(script: Script) -> None:
    script.call("task2", "NextSplit", {"entry": ["p", 0, 3]}, {"split": "z"})


def _stream_goes_back(script: Script) -> None:
    script.call("task", "NextBatch", {"point": ["2", 0]}, {"point": ["1", 7]})


DOCTORED: dict[Doctor, str] = {
    _split_finished_twice: "exactly once",
    _split_handed_out_from_wrong_row: "exactly once",
    _commit_after_split_moved: "exactly once",
    _lost_commit_counts_after_fence: "exactly once",
    _fenced_member_commits: "fencing",
    _member_of_older_epoch_commits: "fencing",
    _member_commits_after_reset: "fencing",
    _epoch_given_twice: "epochs",
    _position_goes_back: "positions",
    _rows_returned_twice: "rows",
    _batch_left_out: "rows",
    _split_begun_at_another_row: "rows",
    _commit_of_rows_that_were_not_returned: "rows",
    _later_change_first: "order",
    _group_ends_early: "complete",
    _entry_changes: "slots",
    _split_in_two_slots: "slots",
    _slot_goes_on_after_its_end: "slots",
    _stream_goes_back: "streams",
}
"""What is done to the good history, and the rule that finds it."""


def test_good_history_is_accepted() -> None:
    history = two_readers().history()
    assert not violations(history)
    assert len(history.calls) > 20 and len(history.delivered) == 6


@pytest.mark.parametrize("doctor", DOCTORED, ids=lambda doctor: doctor.__name__[1:])
def test_each_rule_finds_its_broken_history(doctor: Doctor) -> None:
    script = two_readers()
    doctor(script)
    assert {each.rule for each in violations(script.history())} == {DOCTORED[doctor]}


def test_every_rule_has_a_broken_history() -> None:
    """The names of the rules are read from the source."""
    rules: set[str] = set()
    for name in ("checker", "split_rules"):
        source = pathlib.Path(__file__).with_name(f"{name}.py").read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Violation":
                rule = node.args[0]
                assert isinstance(rule, ast.Constant)
                rules.add(str(rule.value))
    assert rules == {rule for _, rule in DOCTORED.items()}


def test_unanswered_commit_may_count_or_not() -> None:
    for start in (0, 4):
        script = two_readers()
        script.join("c", 8)
        script.join("d", 9)
        script.assign("c", 8, "r2", 0)
        script.commit("c", 8, "r2", 0, 4, code="")
        script.assign("d", 9, "r2", 0, start)
        assert not violations(script.history())


def test_older_state_may_have_committed_rows() -> None:
    for epoch, broken in ((1, ["exactly once"]), (2, [])):
        script = Script(epoch)
        script.join("c", 8)
        script.assign("c", 8, "r2", 0, 4)
        assert [each.rule for each in violations(script.history())] == broken


def test_reset_may_drop_splits() -> None:
    script = two_readers()
    script.join("c", 8)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 4)
    script.reset()
    script.join("d", 9)
    script.read("d", 9, "r3", 0)
    script.end_of_group("d", 9)
    assert not violations(script.history())


def test_failing_history_is_minimised_to_one_screen() -> None:
    script = Script()
    for epoch in range(1, 40):
        script.join(f"r{epoch}", epoch)
        script.read(f"r{epoch}", epoch, f"p{epoch:02}", 0)
    script.join("late", 50)
    script.read("late", 50, "p20", 0)
    history = script.history()
    [broken] = violations(history)
    part = minimised(history, broken)
    assert len(part.calls) == 3, part.calls
    text = told(history, broken)
    assert len(text.splitlines()) <= LINES + 2 and "broken: exactly once: split p20:0" in text
    assert "r20/20 CommitSplits p20:0 up to row 10, the end" in text and "OK p20:0 from row 0" in text
    for index in range(len(part.calls)):
        rest = type(part)(part.calls[:index] + part.calls[index + 1 :], part.delivered, {}, frozenset(), 0)
        assert broken.shown_by[-1] not in [each.shown_by[-1] for each in violations(rest)]


def test_reduction_keeps_only_what_fails() -> None:
    assert reduced(list(range(100)), lambda part: {3, 57} <= set(part)) == [3, 57]
    assert reduced([1], lambda part: True) == []


@pytest.mark.parametrize("name", [SERVER, "a", "b", "task"])
def test_cut_off_history_is_an_error(tmp_path: pathlib.Path, name: str) -> None:
    """A line is missing anywhere but at the end, or calls and answers at the end, or a whole file."""
    two_readers().write(tmp_path)
    assert not violations(read_history(tmp_path))
    path = tmp_path / f"{name}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for index in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:index] + lines[index + 1 :]))
        with pytest.raises(CutOff, match="missing"):
            read_history(tmp_path)
    for end in (1, 2):
        path.write_bytes(b"".join(lines[:end]))
        with pytest.raises(CutOff, match="missing"):
            read_history(tmp_path)
    path.unlink()
    with pytest.raises(CutOff, match="missing"):
        read_history(tmp_path)


def test_damaged_file_is_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "1.jsonl"
    first, second = b'{"n":0,"t":1,"process":1}\n', b'{"n":1,"t":2,"end":true}\n'
    path.write_bytes(first + second)
    assert len(lines_of(path)) == 2 and not read_history(tmp_path).servers
    path.write_bytes(first + second[:9])  # a kill during the last write
    assert len(lines_of(path)) == 1
    for nothing in (b"", first[:9]):  # a process that starts, or was killed, before its first line
        path.write_bytes(nothing)
        assert not read_history(tmp_path).servers
    for damaged in (first[:9] + b"\n" + second, second, first + first, first + second + b"{"):
        path.write_bytes(damaged)
        with pytest.raises(CutOff):
            read_history(tmp_path)


def test_checker_imports_nothing_of_the_product() -> None:
    """Neither do the modules that it imports."""
    for name in ("checker", "history", "minimised", "split_model", "split_rules", "violations"):
        tree = ast.parse(pathlib.Path(__file__).with_name(f"{name}.py").read_text())
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not [each for each in names if "penstock" in each], name
            assert all(each.startswith("tests.histories") for each in names if each.startswith("tests")), name


@pytest.mark.parametrize(
    ("number", "served", "is_cut_off"),
    [
        (1, ["late", "own"], True),
        (2, ["late", "own"], False),
        (2, ["own", "late"], True),
        (2, ["own"], False),
    ],
)
def test_server_of_an_earlier_test_may_first_answer_a_call_of_that_test(
    number: int, served: list[str], is_cut_off: bool
) -> None:
    """A call that was asked before the test began is in the file of the earlier test. Any other lack is a cut."""
    server: list[dict[str, Any]] = [{"n": 0, "t": 0, "process": 1, "number": number, "command": ["pytest"]}]
    server += [{"n": n, "t": n, "served": "FinishSplit", "request": request} for n, request in enumerate(served, 1)]
    reader: list[dict[str, Any]] = [
        {"n": 0, "t": 0, "process": 2, "number": 1, "command": ["worker"]},
        {"n": 1, "t": 0, "ask": "FinishSplit", "request": "own", "entry": ["p", 0, 0]},
        {"n": 2, "t": 9, "answer": 1, "code": "OK"},
    ]
    with pytest.raises(CutOff, match="late") if is_cut_off else contextlib.nullcontext():
        joined({"server": server, "reader": reader})
