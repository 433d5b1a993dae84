"""deploy/ with a Prometheus server that scrapes a service under load and faults: every panel has data, every alert
fires."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.served import until
from tests.ops.expressions import expressions, metrics_in, names_in, rules_of
from tests.ops.places import ALERTS
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.ops, pytest.mark.golden, pytest.mark.timeout(900)]

RULES = rules_of(ALERTS.read_text())
NAMES = [rule["alert"] for rule in RULES]


@pytest.fixture(scope="module")
def fired(stage: Any) -> set[str]:
    """The alerts that fired. The second server is killed after its refused calls are visible."""
    seen: set[str] = set()

    def firing_seen(expected: set[str]) -> bool:
        seen.update(stage.firing())
        return expected <= seen

    try:
        until(lambda: firing_seen({"PenstockCallsFail"}), "refused calls are noticed", PROGRESS_S)
        stage.kill_second()
        until(lambda: firing_seen(set(NAMES)), "every alert fires", PROGRESS_S)
    except AssertionError:
        pass  # the test of an alert reports the one that did not fire
    return seen


@pytest.mark.parametrize("alert", NAMES)
def test_alert_fires_while_its_fault_lasts(fired: set[str], stage: Any, alert: str) -> None:
    assert alert in fired, f"load that failed: {stage.failures}"


def test_panels_all_have_data(stage: Any, fired: set[str], dashboard: dict[str, Any]) -> None:
    """The expressions of the file; only Grafana's variables are replaced."""
    from tests.ops.stage import WINDOW

    def empty() -> list[str]:
        return [
            f"{title}: {expression}"
            for title, expression in expressions(dashboard, WINDOW)
            if not any(value and math.isfinite(value) for value in stage.values(expression))
        ]

    left: list[list[str]] = []

    def full() -> bool:
        left.append(empty())
        return not left[-1]

    try:
        until(full, "every panel has a sample", 60)
    except AssertionError:
        pytest.fail("\n".join(["no sample but zero:", *left[-1], f"load that failed: {stage.failures}"]), pytrace=False)


def test_every_metric_of_panels_and_alerts_is_exposed(stage: Any, fired: set[str], dashboard: dict[str, Any]) -> None:
    expected = {name for _, expression in expressions(dashboard) for name in metrics_in(expression)}
    expected |= {name for rule in RULES for name in metrics_in(rule["expr"])}
    assert len(expected) > 25
    assert expected - names_in(stage.scrape()) == set()


def test_metrics_page_passes_promtool(stage: Any, run: Callable[..., Any]) -> None:
    checked = run("promtool", "check", "metrics", input=stage.scrape())
    assert checked.returncode == 0, checked.stdout
