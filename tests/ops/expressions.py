"""PromQL in the dashboard and in the alert rules: every expression, and the metrics that it names."""

from __future__ import annotations

import re
from typing import Any

import yaml

METRIC = re.compile(r"\b(?:penstock|grpc_server)_\w+\b")


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels except rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard: dict[str, Any], window: str = "5m") -> list[tuple[str, str]]:
    """(panel's title, expression) of every target, with Grafana's variables replaced."""
    pairs = []
    for panel in panels(dashboard):
        for target in panel["targets"]:
            pairs.append((panel["title"], plain(target["expr"], window)))
    return pairs


def plain(expression: str, window: str) -> str:
    """The expression for Prometheus: variables match everything."""
    text = expression.replace("$__rate_interval", window)
    return re.sub(r"\$\{?[a-z_]+\}?", ".*", text)


def rules_of(text: str) -> list[dict[str, Any]]:
    """The alerts of a rules file."""
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def metrics_in(expression: str) -> set[str]:
    """The metrics in the expression."""
    return set(METRIC.findall(expression)) - {"grpc_server_handling"}


def names_in(scrape: str) -> set[str]:
    """Every sample's name on a page of metrics."""
    return {re.split(r"[{ ]", line, maxsplit=1)[0] for line in scrape.splitlines() if line and line[0] != "#"}
