"""Measures of writes: states and their ages, ends that are counted once, refused leases."""

from __future__ import annotations

import json
import threading

import pytest

from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes.state import TableWrites
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.server.http.page_data import page_data
from penstock.enumerator.server.metrics.prometheus import Metrics
from penstock.enumerator.write_events import TableWritesMeasured
from penstock.enumerator.writes.measure import WriteMeter
from penstock.proto.model.writes import WriteState
from tests.unit.enumerator.core.writes import Core, groups
from tests.unit.enumerator.server.metrics.test_prometheus import Samples, labels, scraped


def measured(meter: WriteMeter, core: Core, now_ms: int) -> TableWritesMeasured:
    return meter.measure(core.state.writes, now_ms).tables["t"]


def test_states_ages_and_ends_are_measured() -> None:
    core, meter = Core(), WriteMeter()
    first = core.begin("a")
    assert measured(meter, core, 1_000).oldest_s == {WriteState.OPEN: 0.0}
    core.lease(first, groups("f", "g"))
    second = core.begin("b")
    now = measured(meter, core, 6_000)
    assert (now.writes, now.groups, now.oldest_s) == ({WriteState.OPEN: 2}, 2, {WriteState.OPEN: 5.0})
    core.commit(first, groups("f", "g"))
    meter.conflict("t")
    now = measured(meter, core, 7_000)
    assert now.writes == {WriteState.OPEN: 1, WriteState.DECIDED: 1} and now.conflicts == 1 and not now.ended
    assert now.oldest_s == {WriteState.OPEN: 1.0, WriteState.DECIDED: 0.0}
    core.complete(first)
    core.handle(ev.AbortWrite(id=second))
    core.handle(ev.InstantRolledBack(id=second))
    now = measured(meter, core, 9_000)
    assert (now.writes, now.groups, now.ended, now.conflicts) == ({}, 0, {"completed": 1, "aborted": 1}, 0)
    assert not measured(meter, core, 9_500).ended, "each end is counted once"
    assert not measured(WriteMeter(), core, 9_500).ended, "those of another process are not"


def test_metrics_have_the_writes_of_the_first_tables() -> None:
    core, meter, metrics = Core(), WriteMeter(), Metrics(max_names=1)
    tables = {"t": core.state.writes.setdefault("t", TableWrites()), "u": TableWrites()}
    meter.measure(tables, 0)
    first = core.begin("a")
    core.lease(first, groups("f"))
    metrics.observe(meter.measure(core.state.writes | tables, 1_000))
    core.commit(first, groups("f"))
    core.complete(first)
    core.begin("b")
    meter.conflict("u")
    metrics.observe(meter.measure(core.state.writes | tables, 2_000))
    samples: Samples = scraped(metrics)[1]
    assert samples["penstock_writes", labels(write_state="open", table="t")] == 1.0
    assert samples["penstock_writes", labels(write_state="decided", table="t")] == 0.0
    assert samples["penstock_write_oldest_seconds", labels(write_state="open", table="t")] == 0.0
    assert samples["penstock_write_groups", labels(table="t")] == 0.0
    assert samples["penstock_writes_ended_total", labels(end="completed", table="t")] == 1.0
    assert samples["penstock_write_conflicts_total", labels(table="other")] == 1.0
    with pytest.raises(KeyError):
        samples["penstock_write_groups", labels(table="u")]


def test_page_has_the_tables_with_live_writes() -> None:
    core, meter, activity = Core(), WriteMeter(), Activity(lambda: 1_000, threading.Lock(), 10)
    assert page_data(activity)["writes"] == []
    first = core.begin("a")
    core.lease(first, groups("f"))
    core.commit(first, groups("f"))
    core.begin("b")
    meter.measure(core.state.writes, 1_000)
    activity.observe(meter.measure({**core.state.writes, "idle": TableWrites()}, 71_000))
    (shown,) = json.loads(json.dumps(page_data(activity)))["writes"]
    assert shown == {
        "table": "t",
        "requested": 0,
        "open": 1,
        "decided": 1,
        "failed": 0,
        "groups": 1,
        "oldest_s": 70.0,
        "stuck_s": 70.0,
    }
