"""The checker of histories: it accepts good ones, and finds each kind of broken one by its rule."""

from __future__ import annotations

import ast
import contextlib
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from tests.histories.checker import violations
from tests.histories.doctored_histories import DOCTORED, Doctor
from tests.histories.history import CutOff, joined, lines_of, read_history
from tests.histories.minimised import LINES, minimised, reduced, told
from tests.histories.scripted_history import ROWS, SERVER, Script, two_readers


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


@pytest.mark.parametrize(("repeated", "broken"), [("q", []), ("another", ["epochs"])])
def test_repeated_join_has_the_epoch_of_its_first_attempt(repeated: str, broken: list[str]) -> None:
    """The server joined the reader, and was killed before it answered. Another request is given a new epoch."""
    script = two_readers()
    question = {"group": "g", "reader": "c", "table": "t", "over": False, "lost": ""}
    script.line("c", ask="JoinGroup", request="q", **question)
    script.line(SERVER, served="JoinGroup", request="q")
    script.join("d", 9)
    number = script.line("c", ask="JoinGroup", request=repeated, **question)
    script.line(SERVER, served="JoinGroup", request=repeated)
    script.line("c", answer=number, code="OK", member=["t", "g", "c", 8])
    assert [each.rule for each in violations(script.history())] == broken


def test_unanswered_commit_may_count_or_not() -> None:
    for start in (0, 4):
        script = two_readers()
        script.join("c", 8, reads=False)
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
    script.join("c", 8, reads=False)
    script.assign("c", 8, "r2", 0)
    script.commit("c", 8, "r2", 0, 4)
    script.reset()
    script.join("d", 9)
    script.read("d", 9, "r3", 0)
    script.end_of_group("d", 9)
    assert not violations(script.history())


def test_lost_range_may_drop_splits() -> None:
    script = two_readers()
    script.join("c", 8, "earliest")
    script.assign("c", 8, "r2", 0)
    script.lose_range()
    script.join("d", 9, "earliest")
    script.read("d", 9, "r3", 0)
    script.end_of_group("d", 9)
    assert not violations(script.history())


def test_reader_may_leave_out_rows_of_a_condition_a_range_or_a_topic() -> None:
    for every_row, topic in ((False, None), (True, ["topic", 0, 0, ROWS])):
        script = two_readers()
        script.join("c", 8)
        script.scan("c", "r2", every_row=every_row)
        script.assign("c", 8, "r2", 0, topic=topic)
        script.deliver("c", 8, "r2", 0, 1, 3)
        script.deliver("c", 8, "r2", 0, 5, 8)
        script.commit("c", 8, "r2", 0, 8, finished=True)
        script.assign("c", 8, "r2", 1, topic=topic)
        script.commit("c", 8, "r2", 1, 0, finished=True)
        assert not violations(script.history())


def test_plan_that_is_not_read_to_its_end_may_have_more_splits() -> None:
    script = two_readers()
    script.open_plan("p2", splits=3, slots=2)
    for slot, index, split in ((0, 0, "x"), (1, 0, "y"), (0, 1, None)):
        script.call("task", "NextSplit", {"entry": ["p2", slot, index]}, {"split": split})
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
        rest = replace(part, calls=part.calls[:index] + part.calls[index + 1 :])
        assert broken.shown_by[-1] not in [each.shown_by[-1] for each in violations(rest)]


def test_reduction_keeps_only_what_fails() -> None:
    assert reduced(list(range(100)), lambda part: {3, 57} <= set(part)) == [3, 57]
    assert reduced([1], lambda part: True) == []


@pytest.mark.parametrize("name", [SERVER, "a", "b", "task", "operator"])
def test_cut_off_history_is_an_error(tmp_path: pathlib.Path, name: str) -> None:
    """A line is missing anywhere, or all lines from one on, or a whole file. The end of a file may be missing only if a
    process that has a file ended its process by a signal, or if it runs."""
    two_readers().write(tmp_path)
    assert not violations(read_history(tmp_path))
    path = tmp_path / f"{name}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for index in range(len(lines)):
        for cut in (lines[:index] + lines[index + 1 :], lines[: max(1, index)]):
            path.write_bytes(b"".join(cut))
            with pytest.raises(CutOff, match="missing"):
                read_history(tmp_path)
    path.unlink()
    with pytest.raises(CutOff, match="missing"):
        read_history(tmp_path)


@pytest.mark.parametrize(
    ("kills", "is_cut_off"),
    [({"kills": 7, "is_group": False}, False), ({"kills": 5, "is_group": True}, False),
     ({"kills": 5, "is_group": False}, True), ({"kills": 7, "is_group": True}, True)],
)  # fmt: skip
def test_file_of_a_killed_process_has_no_end(kills: dict[str, Any], is_cut_off: bool) -> None:
    killed = [{"n": 0, "t": 0, "process": 7, "group": 5}]
    other = [{"n": 0, "t": 0, "process": 8, "group": 8}, {"n": 1, "t": 1, **kills}, {"n": 2, "t": 2, "end": True}]
    with pytest.raises(CutOff, match="last lines are missing") if is_cut_off else contextlib.nullcontext():
        joined({"killed": killed, "other": other})
    joined({"running": killed}, is_running=lambda pid: pid == 7)
    joined({"of Spark": [{**killed[0], "command": ["python", "-m", "pyspark.daemon"]}]})
    with pytest.raises(CutOff, match="last lines are missing"):
        joined({"of penstock": [{**killed[0], "command": ["python", "-m", "penstock"]}]})
    with pytest.raises(CutOff, match="after its end"):
        joined({"other": [*other, {"n": 3, "t": 3, "end": True}]})


def test_damaged_file_is_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "1.jsonl"
    first, second = b'{"n":0,"t":1,"process":1,"group":1}\n', b'{"n":1,"t":2,"end":true}\n'
    path.write_bytes(first + second)
    assert len(lines_of(path)) == 2 and not read_history(tmp_path).servers
    path.write_bytes(first + b'{"n":1,"t":2,"kills":1,"is_group":false}\n' + second[:9])  # a kill in the last write
    assert len(lines_of(path)) == 2 and not read_history(tmp_path).servers
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
    server: list[dict[str, Any]] = [{"n": 0, "t": 0, "process": 1, "group": 1, "number": number, "command": ["pytest"]}]
    server += [{"n": n, "t": n, "served": "FinishSplit", "request": request} for n, request in enumerate(served, 1)]
    reader: list[dict[str, Any]] = [
        {"n": 0, "t": 0, "process": 2, "group": 1, "number": 1, "command": ["worker"]},
        {"n": 1, "t": 0, "ask": "FinishSplit", "request": "own", "entry": ["p", 0, 0]},
        {"n": 2, "t": 9, "answer": 1, "code": "OK"},
        {"n": 3, "t": 9, "end": True},
    ]
    server.append({"n": len(server), "t": 9, "end": True})
    with pytest.raises(CutOff, match="late") if is_cut_off else contextlib.nullcontext():
        joined({"server": server, "reader": reader})
