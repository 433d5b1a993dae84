"""Verdicts on figures, and the report."""

from __future__ import annotations

import json
import pathlib

import pytest

from bench.compared.contestants import Contestant, Question
from bench.compared.plots import draw
from bench.compared.probes import First, Peak
from bench.compared.processes import Cost
from bench.compared.report import as_json, markdown, targets_lines
from bench.compared.schedule import Outcome, Spread, Turn, cpu_s
from bench.compared.targets import TARGETS, Figures, Target, judge, three_digits, verdicts

MINE, THEIRS = Contestant.ARROW, Contestant.HUDI_RS_STREAM
ABOUT = {"date": "2026-01-31", "machine": "one"}


def outcome(mine: list[float], theirs: list[float], rounds: int) -> Outcome:
    turn = Turn(
        key="snapshot",
        title="a snapshot",
        table="plain",
        question=Question(),
        contestants=(MINE, THEIRS),
        warm=len(mine) - rounds,
        rounds=rounds,
    )
    costs = {
        who: [Cost(seconds * 2, seconds, seconds) for seconds in values]
        for who, values in ((MINE, mine), (THEIRS, theirs))
    }
    return Outcome(turn, 1000, costs)


def figures() -> Figures:
    result = Figures(outcomes={"snapshot": outcome([9, 1, 2, 4], [9, 3, 4, 9], 3)}, idle=(12.0, 3))
    result.peaks = {
        (MINE, "plain", "all"): [Peak(50, 90), Peak(60, 90)],
        (THEIRS, "plain", "all"): [Peak(100, 190), Peak(80, 190)],
        (MINE, "big", "all"): [Peak(60, 90), Peak(61, 90)],
    }
    result.firsts = {Contestant.SPARK: [First(3, 2)], Contestant.HUDI_SPARK: [First(3, 12)]}
    result.decode_records_s = [1.2e6, 1.25e6]
    return result


def test_ratios_use_only_counted_rounds() -> None:
    assert outcome([9, 1, 2, 4], [9, 3, 4, 9], 3).ratio(THEIRS, MINE, cpu_s) == Spread(2.25, 2.0, 3.0)


@pytest.mark.parametrize(
    ("at_least", "value", "verdict"),
    [
        (True, 2.0, "met"),
        (True, 1.9, "missed"),
        (True, 1.4, "NOT DONE"),
        (False, 1.5, "met"),
        (False, 1.9, "missed"),
        (False, 2.1, "NOT DONE"),
    ],
)
def test_verdicts_compare_the_median_with_goal_and_floor(at_least: bool, value: float, verdict: str) -> None:
    goal, floor = (2.0, 1.5) if at_least else (1.5, 2.0)
    target = Target(what="w", goal=goal, floor=floor, at_least=at_least, measure=lambda _: None)
    assert target.verdict(Spread.of([value])) == verdict
    assert target.verdict(None) == "not measured"


def test_judge_gives_a_verdict_for_each_target_and_names_missing_figures() -> None:
    results = {target.what: (spread, verdict) for target, spread, verdict in judge(figures())}
    assert results["snapshot to Arrow against hudi-rs stream, all columns: CPU"] == (Spread(2.25, 2.0, 3.0), "missed")
    assert results["… peak memory"] == (Spread(0.625, 0.5, 0.75), "NOT DONE")
    assert results["first query of a fresh process in Spark against the bundle: wall"][1] == "met"
    assert results["Avro decode, 25 columns, checked"][1] == "NOT DONE"
    assert results["idle poll at 10k instants, 1M files: p50"][1] == "missed"
    assert results["… file operations"][1] == "met"
    assert verdicts(figures())["not measured"] == len(TARGETS) - 7
    assert len(targets_lines(Figures())) == len(TARGETS) + 2


def test_report_contains_every_figure() -> None:
    text = markdown(figures(), ABOUT, ["a.svg"])
    assert "| a snapshot | 1,000 | Penstock to Arrow | 2.000 |" in text
    assert "2.25 (2.00–3.00) of Penstock to Arrow" in text
    assert "![a.svg](a.svg)" in text
    document = json.loads(json.dumps(as_json(figures(), ABOUT)))
    assert [cost["cpu_s"] for cost in document["turns"]["snapshot"]["costs"][THEIRS]] == [9, 3, 4, 9]
    assert {target["verdict"] for target in document["targets"]} == {"met", "missed", "NOT DONE", "not measured"}


def test_figures_have_three_significant_digits() -> None:
    assert [three_digits(value) for value in (1.2345e6, 123.4, 12.34, 1.234)] == ["1.23 M", "123", "12.3", "1.23"]


def test_pictures_are_written_beside_the_report(tmp_path: pathlib.Path) -> None:
    names = draw(figures(), tmp_path / "run")
    assert names == ["run-targets.svg", "run-cpu.svg"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
