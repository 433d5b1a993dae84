"""Two Spark streams read while Hudi writes; server, driver, planners and workers are killed; all rows are exact.

`changes` folds to Hudi's snapshot; `windows` equal those of a model of all rows. Open files, threads and memory do not
grow. `make soak MINUTES=30` runs it for long and records the result.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.interop.chaos_writer import Change, folded, waited
from tests.interop.soak_harness import QUERIES, Soak
from tests.interop.soak_plot import draw
from tests.interop.soak_samples import Samples, sparks
from tests.interop.soak_writer import SoakWriter, Window
from tests.long_record import add_to_record
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(3 * 3600)]

LONG_S = float(os.environ.get("PENSTOCK_SOAK_SECONDS", "300"))
SEED = int(os.environ.get("PENSTOCK_SEED", "20261121"))
JUDGED_S = 1200.0
"""A run of so many seconds must have a verdict on growth."""
CHECKED_HISTORIES = {"server", "driver", "planner", "driver JVM"}
MOST_OPEN = 30
"""Windows in Spark's state: three or four normally, more while a stream catches up, and many more in a long run."""
EXCUSES = re.compile(
    r"terminated with exception: (?:(?:null|Connection reset|Broken pipe) )?SQLSTATE"  # its planner was killed
    r"|Python worker exited unexpectedly|StorageError|ServerUnavailable|failed to connect to all addresses"
)
"""Errors with which a stream may fail and continue after a restart: its planner or workers were killed, or the server
was unreachable for longer than their retry timeout."""


@pytest.mark.long
def test_streams_are_exact_in_a_long_soak(hudi: Any, tmp_path: pathlib.Path) -> None:
    """Runs for PENSTOCK_SOAK_SECONDS."""
    _soak(hudi, tmp_path, LONG_S)


def _soak(hudi: Any, folder: pathlib.Path, seconds: float) -> None:
    began = time.monotonic()
    rng = random.Random(SEED)
    writer = SoakWriter(hudi, folder / "chaos", random.Random(rng.random()), logs_changes=False)
    writer.begin()
    samples = Samples(began)
    soak = Soak(folder / "chaos", folder, rng, samples, sample_every_s=1 if seconds < JUDGED_S else 5)
    writer.have_committed = lambda key: all(soak.committed(query) >= key for query in QUERIES)
    phases = [time.monotonic() - began]
    try:
        soak.begin()
        writer.start()
        soak.run(seconds, kill_all_s=seconds * (0.4 if seconds >= JUDGED_S else 0.7))
        phases.append(time.monotonic() - began)
        writer.stop()
        writer.close_windows()
        _catch_up(soak, writer)
        phases.append(time.monotonic() - began)
        soak.end()
    finally:
        soak.abandon()
    note = _note(soak, writer, seconds, phases)
    _keep(soak, note)
    assert writer.failure is None, f"{note}: {writer.failure}"
    assert not soak.problems, "\n".join([note, *soak.problems])
    failed = soak.events("failed")
    unexcused = [event for event in failed if not EXCUSES.search(event["text"])]
    assert not unexcused, f"{note}: {unexcused[0]}"
    assert len(failed) <= sum(soak.happened.values()), f"{note}: {failed[-1]}"
    _check_changes(soak, writer, note)
    _check_windows(soak, writer, note)
    _check_state(soak, note)
    assert all(soak.happened[f"{kind} killed"] for kind in ("server", "driver", "planner", "executor")), note
    assert seconds < 300 or all(writer.services[name] for name in ("commit", "replacecommit", "clean", "delete")), note
    growths = samples.growths()
    assert seconds < JUDGED_S or {growth.kind for growth in growths} >= CHECKED_HISTORIES, note
    assert all(growth.is_flat for growth in growths), "\n".join([note, *map(str, growths)])


def _catch_up(soak: Soak, writer: SoakWriter) -> None:
    """Waits until both checkpoints are at the writer's last commit, and the windows that it closed are written."""
    newest = writer.commits[-1].order_key
    ended = len(writer.windows()) - 1

    def is_there() -> bool:
        soak.attend()
        is_out = len(_rows(soak, "windows")) >= ended
        return is_out and all(soak.committed(query) == newest for query in QUERIES)

    try:
        waited(is_there, PROGRESS_S, f"both streams at {newest}")
    except AssertionError as error:
        committed = {query: soak.committed(query) for query in QUERIES}
        failed = soak.events("failed")[-2:]
        raise AssertionError(f"{error}: {committed}, {failed}, {soak.problems}, {writer.failure}") from None


def _rows(soak: Soak, query: str) -> list[dict[str, Any]]:
    """Every row of a stream's sink, in the order of the micro-batches."""
    files = sorted((soak.folder / "out" / query).glob("*.parquet"), key=lambda path: int(path.stem))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def _check_changes(soak: Soak, writer: SoakWriter, note: str) -> None:
    """The changes are the differences of Hudi's snapshots before and after each commit; applied in the order of their
    sequence numbers they produce the table."""
    rows = _rows(soak, "changes")
    actual: Counter[Change] = Counter(
        (row["_change_type"], row["_change_instant"], (row["p"], row["id"]), row["n"]) for row in rows
    )
    expected = writer.changes()
    missing, extra = expected - actual, actual - expected
    assert not missing and not extra, f"{note}\nmissing {sorted(missing)[:8]}\nextra {sorted(extra)[:8]}"
    assert folded(rows) == {key: n for key, (n, _) in writer.commits[-1].rows.items()}, note


def _check_windows(soak: Soak, writer: SoakWriter, note: str) -> None:
    """Every window but the last was written once, with the model's rows; no row was dropped as late."""
    rows = _rows(soak, "windows")
    windows: Counter[Window] = Counter((_us(row["start"]), tuple(row["rows"])) for row in rows)
    expected = writer.windows()
    del expected[max(expected)]
    assert windows == expected, (
        f"{note}\nmissing {sorted(expected - windows)[:4]}\nextra {sorted(windows - expected)[:4]}"
    )
    progress = soak.events("progress")
    assert not any(event["dropped"] for event in progress), note
    assert max(event["state_rows"] for event in progress) <= MOST_OPEN, note


def _us(at: Any) -> int:
    return round(at.timestamp() * 1_000_000)


def _check_state(soak: Soak, note: str) -> None:
    command = [sys.executable, "-m", "penstock", "state", "check", str(soak.folder / "state")]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, f"{note}: {checked.stdout}{checked.stderr}"


def _note(soak: Soak, writer: SoakWriter, seconds: float, phases: list[float]) -> str:
    """A report of the run, in lines."""
    changed = sum(writer.changes().values())
    failed = Counter(
        (match[0] if (match := EXCUSES.search(event["text"])) else "other") for event in soak.events("failed")
    )
    lines = [
        f"soak: seed {SEED}, {seconds:.0f} s, {len(writer.commits)} commits {dict(writer.services)}, "
        f"{changed} changes, {len(writer.windows())} windows, {dict(soak.happened)}, streams failed {dict(failed)}, "
        f"phases end at {[round(phase) for phase in phases]} s"
    ]
    by_query: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in soak.events("progress"):
        by_query[event["query"]].append(event)
    for query, events in by_query.items():
        worked = [event for event in events if event["rows"]]
        spent = [event["ms"]["triggerExecution"] for event in worked] or [0]
        lines.append(
            f"{query:16} {sparks(spent)} {len(worked)} micro-batches with rows, p50 {statistics.median(spent):.0f} ms, "
            f"most {max(spent)} ms"
        )
        sizes = [event["state_bytes"] / 1024 for event in events]
        if max(sizes):
            most = max(event["state_rows"] for event in events)
            lines.append(f"{'  its state':16} {sparks(sizes)} {min(sizes):.0f}-{max(sizes):.0f} KiB, most {most} rows")
    return "\n".join([*lines, *soak.samples.lines(), *map(str, soak.samples.growths())])


def _keep(soak: Soak, note: str) -> None:
    """Prints on stdout and in the record of `make long`; writes the samples if PENSTOCK_KEPT is set."""
    print(note, flush=True)
    add_to_record(note)
    if target := os.environ.get("PENSTOCK_KEPT"):
        soak.samples.write(pathlib.Path(target) / "processes.csv")
        lines = ["seconds,query,batch,rows,trigger_ms,state_rows,state_kib"]
        zero = time.time() - (time.monotonic() - soak.samples.began)
        lines += [
            f"{event['at'] - zero:.0f},{event['query']},{event['batch']},{event['rows']},"
            f"{event['ms'].get('triggerExecution', 0)},{event['state_rows']},{event['state_bytes'] / 1024:.0f}"
            for event in soak.events("progress")
        ]
        (pathlib.Path(target) / "batches.csv").write_text("\n".join(lines) + "\n")
        if importlib.util.find_spec("matplotlib"):
            draw(pathlib.Path(target))
