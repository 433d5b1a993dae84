"""Curves of growth: the fit, its verdict, what the documentation says of them; in `make long` the curves themselves."""

from __future__ import annotations

import pathlib

import pytest

from bench import curve_steps
from bench.curves import CURVES, SIZES, TOLERANCE, Curve, Measured, exponent_of, measure, table_lines
from tests.long_record import add_to_record

OPERATIONS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operations.md"
DECADES = (100, 1000, 10_000, 100_000)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_exponent_of_a_power_of_the_size_is_found(exponent: float) -> None:
    assert exponent_of({size: 3.5 * size**exponent for size in DECADES}) == pytest.approx(exponent)


def test_fixed_cost_of_small_sizes_does_not_hide_growth() -> None:
    assert exponent_of({size: 50.0 + size**2 / 1000 for size in DECADES}) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(("exponent", "faster"), [(1.0, False), (1.0 + 1.1 * TOLERANCE, True), (0.2, False)])
def test_curve_is_marked_that_grows_faster_than_recorded(exponent: float, faster: bool) -> None:
    curve = Curve("slices", "folders_s", "a plan", "file slices", 1, 1.0)
    measured = Measured(curve, {size: size**exponent for size in DECADES})
    assert measured.grows_faster is faster
    assert ("grows faster" in table_lines([measured])[-1]) is faster


def test_each_step_has_sizes_and_curves() -> None:
    assert set(SIZES) == set(curve_steps.STEPS) == {curve.step for curve in CURVES}
    assert len({curve.name for curve in CURVES}) == len(CURVES)


@pytest.mark.parametrize("step", ["finished", "groups"])
def test_step_returns_the_figures_of_its_curves(
    step: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curve_steps, "CACHE", tmp_path)
    figures = curve_steps.STEPS[step](120)
    assert {curve.figure for curve in CURVES if curve.step == step} <= set(figures)
    assert all(figure > 0 for figure in figures.values())


def test_operations_page_has_each_curve_and_no_exponent_above_the_recorded_one() -> None:
    section = OPERATIONS.read_text().partition("### Growth")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    documented = {(row[0], row[1]): row for row in rows}
    for curve in CURVES:
        _, _, exponent, goal, *_ = documented[curve.title, curve.size]
        assert float(exponent) <= curve.recorded + TOLERANCE and goal == str(curve.goal), curve.name


@pytest.mark.long
def test_no_curve_grows_faster_than_recorded() -> None:
    measured = measure(list(SIZES), most=10_000)
    add_to_record("\n".join(table_lines(measured)))
    assert [one.curve.name for one in measured if one.grows_faster] == []
