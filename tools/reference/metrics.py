"""docs/reference/metrics.md, from the entries of the server's metrics."""

from __future__ import annotations

from penstock.enumerator.server.metrics.catalog import FLIGHT_METRICS, LABELS, METRICS, MetricEntry
from penstock.enumerator.server.metrics.prometheus import MAX_NAMES
from reference.rendering import Page, code, described, table

HEAD = f"""The server exposes these metrics for Prometheus on the port `metricsListen`
([Metrics](../operations.md#metrics)). Metrics of reading come from the readers' reports, one for each split. Counters
of a group's events start at 0 when the group is followed, so that the first event is an increase. At most {MAX_NAMES}
groups and {MAX_NAMES} tables have gauges. No caller chooses a label. A histogram also has `_bucket`, `_sum` and
`_count`.

"""


FLIGHT_HEAD = """A Flight server exposes these on its port (`--metrics-listen`).

"""


def page() -> Page:
    """The page."""
    used = {label for entry in (*METRICS.values(), *FLIGHT_METRICS.values()) for label in entry.labels}
    labels = [(name, entry) for name, entry in LABELS.items() if name in used]
    label_table = table(
        ("label", "meaning", "values"),
        (
            (code(name), described(f"label {name}", entry.doc), ", ".join(map(code, entry.values)) or "any")
            for name, entry in labels
        ),
    )
    timed = [entry for entry in METRICS.values() if entry.buckets]
    buckets = table(
        ("histogram", "upper bounds, seconds"),
        ((code(entry.name), ", ".join(f"{bound:g}" for bound in entry.buckets)) for entry in timed),
    )
    metrics = table(("name", "type", "labels", "unit", "meaning"), map(row, METRICS.values()))
    flight = table(("name", "type", "labels", "unit", "meaning"), map(row, FLIGHT_METRICS.values()))
    flight_part = f"## `penstock flight`\n\n{FLIGHT_HEAD}{flight}"
    body = f"{HEAD}{metrics}\n{flight_part}\n## Labels\n\n{label_table}\n## Buckets\n\n{buckets}"
    about = "every metric for Prometheus: type, labels, unit, meaning"
    return Page("metrics", "Metrics", about, "enumerator/server/metrics/catalog.py", body)


def row(entry: MetricEntry) -> tuple[str, ...]:
    """The row of one metric."""
    doc = described(f"metric {entry.name}", entry.doc)
    return code(entry.exposed_name), entry.type, ", ".join(map(code, entry.labels)) or "–", entry.unit, doc
