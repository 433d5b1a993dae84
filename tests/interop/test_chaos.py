"""Server and readers are killed at random while Hudi writes: every change of every commit arrives once, in order."""

from __future__ import annotations

import bisect
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import PenstockError
from tests.interop.chaos_harness import ChaosHarness, RowsReader
from tests.interop.chaos_writer import Change, ChaosWriter, folded, waited
from tests.long_record import add_to_record
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

SHORT_S = 20.0
LONG_S = float(os.environ.get("PENSTOCK_CHAOS_SECONDS", "300"))
SEED = int(os.environ.get("PENSTOCK_SEED", "20261121"))


def test_changes_arrive_once_under_kills_in_a_short_run(hudi: Any, tmp_path: pathlib.Path) -> None:
    """A short run for `make test`."""
    _chaos(hudi, tmp_path, SHORT_S, logs_changes=False)


@pytest.mark.long
@pytest.mark.parametrize("logs_changes", [False, True], ids=["states", "logged"])
def test_changes_arrive_once_under_kills_in_a_long_run(hudi: Any, tmp_path: pathlib.Path, logs_changes: bool) -> None:
    """Runs for PENSTOCK_CHAOS_SECONDS, on a table with and without logged changes."""
    _chaos(hudi, tmp_path, LONG_S, logs_changes=logs_changes)


def _chaos(hudi: Any, folder: pathlib.Path, seconds: float, *, logs_changes: bool) -> None:
    began = time.monotonic()
    rng = random.Random(SEED)
    phases: list[float] = []
    writer = ChaosWriter(hudi, folder / "chaos", random.Random(rng.random()), logs_changes=logs_changes)
    writer.begin()
    phases.append(time.monotonic() - began)
    cast = ChaosHarness(folder / "chaos", folder, rng)
    rows = RowsReader(cast.address)
    writer.have_committed = lambda order_key: _have_committed(cast, order_key)
    try:
        cast.begin()
        writer.start()
        rows.start()
        cast.chaos(seconds, lambda: _is_enough(cast, writer, rows, seconds))
        phases.append(time.monotonic() - began)
        writer.stop()
        phases.append(time.monotonic() - began)
        _catch_up(cast, writer, rows)
        phases.append(time.monotonic() - began)
        _check_metrics(cast)
        rows.stop()
        cast.end()
    finally:
        cast.abandon()
    note = (
        f"chaos {'logged' if logs_changes else 'states'}: seed {SEED}, {seconds:.0f} s, {len(writer.commits)} commits "
        f"{dict(writer.services)}, {sum(writer.changes().values())} rows of changes in "
        f"{len(cast.first_seen_ns)} files, {dict(cast.happened)}, rows reader joined again {rows.again} times, "
        f"phases end at {[round(phase) for phase in phases]} s, server's peak "
        f"{max((rss for _, rss, _ in cast.measured), default=0) >> 20} MiB"
    )
    _report(note)
    assert writer.failure is None, f"{note}: {writer.failure}"
    assert rows.failure is None, f"{note}: {rows.failure!r}"
    assert not cast.problems, "\n".join([note, *cast.problems])
    _check_changes(cast, writer, note)
    _check_rows(rows, writer, note)
    _check_order(cast, note)
    _check_server(cast, note, seconds)
    assert _is_enough(cast, writer, rows, seconds), note


def _is_enough(cast: ChaosHarness, writer: ChaosWriter, rows: RowsReader, seconds: float) -> bool:
    """Whether there were enough faults, services and rounds. A failure ends the wait, too."""
    if writer.failure is not None or rows.failure is not None or cast.problems:
        return True
    services = seconds < 60 or all(writer.services[name] for name in ("commit", "replacecommit", "clean", "delete"))
    killed = cast.happened["server killed"] and cast.happened["reader killed"]
    many = sum(cast.happened.values()) >= seconds / 5
    rounds = len({position for position, _ in list(rows.delivered.values())}) > 2
    return bool(services and killed and many and rounds)


def _have_committed(cast: ChaosHarness, order_key: str) -> bool:
    """Whether both groups have committed up to the commit; False if the server does not respond."""
    client = EnumeratorClient(cast.address, CallLimits(attempts=1, deadline_ms=2000))
    try:
        committed_positions = [client.describe_group("t", group).summary.committed for group in ("changes", "rows")]
    except PenstockError:
        return False
    return all(str(committed.order_key) >= order_key for committed in committed_positions)


def _catch_up(cast: ChaosHarness, writer: ChaosWriter, rows: RowsReader) -> None:
    """Waits until both groups have committed the writer's last commit."""
    newest = writer.commits[-1].order_key
    client = EnumeratorClient(cast.address)

    def is_there() -> bool:
        cast.attend()
        try:
            committed_positions = [client.describe_group("t", group).summary.committed for group in ("changes", "rows")]
        except PenstockError:
            return False
        return rows.failure is not None or all(str(committed.order_key) == newest for committed in committed_positions)

    try:
        waited(is_there, PROGRESS_S, f"both groups at {newest}")
        assert str(client.newest_position("t").order_key) == newest
    except AssertionError as error:
        committed_positions = [client.describe_group("t", group) for group in ("changes", "rows")]
        log = cast.server.log.read_text()[-3000:]
        raise AssertionError(f"{error}: {committed_positions}; {cast.problems}; {writer.failure}; {log}") from None
    finally:
        client.close()


def _check_changes(cast: ChaosHarness, writer: ChaosWriter, note: str) -> None:
    """The multiset of (kind, commit, key, row) is the difference of Hudi's snapshots before and after each commit."""
    actual: Counter[Change] = Counter()
    for path in cast.output.glob("[!.]*"):
        for row in pq.read_table(path).to_pylist():
            actual[row["_change_type"], row["_change_instant"], (row["p"], row["id"]), row["n"]] += 1
    expected = writer.changes()
    missing, extra = expected - actual, actual - expected
    keys = {commit.requested: commit.action for commit in writer.commits}
    assert not missing and not extra, (
        f"{note}\nmissing {sum(missing.values())}: {sorted(missing.items())[:8]}\nextra {sum(extra.values())}: "
        f"{sorted(extra.items())[:8]}\nof {Counter(keys.get(change[1]) for change in missing + extra)}"
    )


def _check_rows(rows: RowsReader, writer: ChaosWriter, note: str) -> None:
    """Each delivered range has the rows of Hudi's snapshot at its end that the range's commits wrote."""
    ranges: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for position, batch in rows.delivered.values():
        ranges[position].update((row["p"], row["id"], row["n"], row["_hoodie_commit_time"]) for row in batch)
    after = ""
    left = list(writer.commits)
    for upto in sorted(ranges):
        within = {commit.requested for commit in left if after < commit.order_key <= upto}
        (at_end,) = [commit for commit in left if commit.order_key == upto]
        expected = Counter((*key, n, by) for key, (n, by) in at_end.rows.items() if by in within)
        assert ranges[upto] == expected, (
            f"{note}\n({after}, {upto}]: {ranges[upto] - expected} {expected - ranges[upto]}"
        )
        after = upto
    late = [commit for commit in writer.commits if commit.order_key > after]
    unexpected = {commit.requested for commit in late} & {by for _, by in writer.commits[-1].rows.values()}
    assert not unexpected, f"{note}: nothing was delivered after {after}, though {unexpected} left rows"
    assert len(ranges) > 2, note


def _check_order(cast: ChaosHarness, note: str) -> None:
    """Sequence numbers grow from an insert of a key to its delete, within a file, and from round to round in the order
    of the files. A key that returns after a delete may be in another file group, which has no order with the first.
    Files of one round have no order if a service or an overwrite moved the key."""
    names = sorted(cast.first_seen_ns, key=lambda name: cast.first_seen_ns[name])
    rows = [(row, name) for name in names for row in pq.read_table(cast.output / name).to_pylist()]
    problem = disorder(rows, cast.round_ends())
    assert not problem, f"{note}: {problem}"


def disorder(rows: list[tuple[dict[str, Any], str]], ends: list[str]) -> str:
    """Two changes that break this order; empty: none. `rows`: changes with their files, as delivered; `ends`: of the
    rounds. AssertionError: a change that does not find its row."""
    folded(row for row, _ in rows)
    deletes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row, _ in rows:
        if row["_change_type"] == "-D":
            bisect.insort(deletes[row["p"], row["id"]], row["_change_seq"])
    last: dict[tuple[str, str, int], tuple[int, str, str]] = {}
    for row, name in rows:
        key, place = (row["p"], row["id"]), row["_change_seq"]
        number = bisect.bisect_left(ends, place.partition(".")[0])
        life = (*key, bisect.bisect_left(deletes[key], place))
        before = last.get(life, (-1, "", ""))
        grows = before[1] < place or (before[0] == number and before[2] != name)
        if not grows or before[0] > number:
            return f"{life}: {before} before {place} in {name}, round {number}"
        last[life] = (number, place, name)
    return ""


def _check_metrics(cast: ChaosHarness) -> None:
    url = f"http://127.0.0.1:{cast.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    assert "penstock_split_events_total{" in text
    assert 'group="changes"' in text


def _check_server(cast: ChaosHarness, note: str, seconds: float) -> None:
    """The state is valid; memory and open files of the last server process do not grow."""
    command = [sys.executable, "-m", "penstock", "state", "check", str(cast.state)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=PROGRESS_S)
    assert checked.returncode == 0, f"{note}: {checked.stdout}{checked.stderr}"
    if seconds < 60:
        return
    last = [item for item in cast.measured if item[0] == cast.measured[-1][0]]
    half = len(last) // 2
    early, late = last[half // 2 : half], last[-half // 2 :]
    rss = [statistics.median(item[1] for item in part) for part in (early, late)]
    files = [statistics.median(item[2] for item in part) for part in (early, late)]
    description = f"{note}: RSS {[int(one) >> 20 for one in rss]} MiB, open files {files}"
    _report(description.removeprefix(note + ": "))
    assert rss[1] <= rss[0] * 1.1 + (16 << 20), description
    assert files[1] <= files[0] + 16, description


def _report(text: str) -> None:
    """Prints on stdout, and in the record of `make long`."""
    print(text, flush=True)
    add_to_record(f"{time.strftime('%H:%M:%S')} {text}")
