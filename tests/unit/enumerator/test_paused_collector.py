"""The garbage collector does not run in a pause, and runs after it whatever ends it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from penstock.enumerator.paused_collector import _resume_in_child, paused_collector
from penstock.enumerator.planning import plan


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """The state of the collector before and after each test."""
    assert gc.isenabled()
    yield
    gc.enable()


def test_pause_ends_also_after_an_error() -> None:
    with paused_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), paused_collector():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_inner_pause_does_not_end_the_outer_one() -> None:
    with paused_collector():
        with paused_collector():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_program_that_disabled_the_collector_keeps_it_disabled() -> None:
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()


def test_process_that_is_forked_in_a_pause_collects() -> None:
    """The hook runs in each forked process; here it runs in this one."""
    with paused_collector():
        _resume_in_child()
        assert gc.isenabled()
    gc.disable()
    _resume_in_child()
    assert not gc.isenabled(), "control: the program disabled it, and no pause did"


def test_planning_reads_the_state_and_makes_splits_in_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def discover(*_: object) -> None:
        seen.append(f"discover {gc.isenabled()}")

    def planned_splits(*_: object) -> None:
        seen.append(f"splits {gc.isenabled()}")
        raise KeyError("the plan ends here")

    monkeypatch.setattr(plan, "discover", discover)
    monkeypatch.setattr(plan, "_planned_splits", planned_splits)
    with pytest.raises(KeyError):
        plan._planned(None, "t", None, (), plan.TimeSources())  # type: ignore[arg-type]
    assert seen == ["discover False", "splits False"]
    assert gc.isenabled()
