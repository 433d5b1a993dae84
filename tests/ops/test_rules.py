"""Alert rules, the dashboard and the configuration of Prometheus, by promtool."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.ops.expressions import expressions, panels, rules_of
from tests.ops.places import ALERTS, DASHBOARD, DEPLOY

pytestmark = pytest.mark.ops
UNIT_TESTS = pathlib.Path(__file__).with_name("alerts_test.yml")


def test_alert_rules_are_valid(run: Callable[..., Any]) -> None:
    checked = run("promtool", "check", "rules", ALERTS)
    assert checked.returncode == 0, checked.stdout


def test_alerts_fire_after_their_duration_and_not_before(run: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    for file in (ALERTS, UNIT_TESTS):
        shutil.copy(file, tmp_path)
    tested = run("promtool", "test", "rules", UNIT_TESTS.name, cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout


def test_every_alert_is_tested_and_documented() -> None:
    names = [rule["alert"] for rule in rules_of(ALERTS.read_text())]
    assert len(names) == len(set(names)) >= 10
    tests = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    alerts = Counter(rule["alertname"] for test in tests for rule in test["alert_rule_test"] if rule["exp_alerts"])
    assert set(alerts) == set(names)
    manual = (DEPLOY.parent / "docs" / "guides" / "deploy.md").read_text()
    assert [name for name in names if f"| `{name}` |" not in manual] == []


@pytest.mark.parametrize("broken", ["up{job=", "penstock_splits and or 1"])
def test_promtool_rejects_a_wrong_expression(run: Callable[..., Any], tmp_path: pathlib.Path, broken: str) -> None:
    assert not checked_as_rules(run, tmp_path, [broken])


def test_dashboard_is_valid_for_grafana(dashboard: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(titles) == len(set(titles))
    assert dashboard["uid"] and dashboard["schemaVersion"] >= 36
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert known == {"datasource", "job", "table", "group"}
    for panel in panels(dashboard):
        assert panel["targets"] and panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        assert all(target["refId"] and 'job=~"$job"' in target["expr"] for target in panel["targets"])


def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    cells: Counter[tuple[int, int]] = Counter()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells.update(
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        )
    assert max(cells.values()) == 1


def test_every_expression_of_the_dashboard_is_promql(
    run: Callable[..., Any], dashboard: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    pairs = [expression for _, expression in expressions(dashboard)]
    assert len(pairs) > 30
    assert checked_as_rules(run, tmp_path, pairs)


def test_prometheus_configuration_is_valid(run: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    """As compose mounts it, with the rules in the same folder."""
    for file in (ALERTS, DEPLOY / "compose" / "prometheus.yml"):
        shutil.copy(file, tmp_path)
    checked = run("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout
    assert "11 rules" in checked.stdout or "SUCCESS" in checked.stdout
    jobs = [job["job_name"] for job in yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"]]
    assert jobs == ["penstock"]
    assert all('job="penstock"' in rule["expr"] for rule in rules_of(ALERTS.read_text()) if "up{" in rule["expr"])


def test_dashboard_file_is_plain_json() -> None:
    assert json.loads(DASHBOARD.read_text())["title"] == "Penstock"


def checked_as_rules(run: Callable[..., Any], folder: pathlib.Path, pairs: list[str]) -> bool:
    """Whether promtool accepts every expression as that of a rule."""
    rules = [{"record": f"dashboard:{number}", "expr": expression} for number, expression in enumerate(pairs)]
    file = folder / "dashboard.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = run("promtool", "check", "rules", file)
    print(checked.stdout)
    return bool(checked.returncode == 0)
