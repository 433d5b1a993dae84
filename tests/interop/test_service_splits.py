"""Real Hudi writes tables whose services members of a worker group carry out, while members are killed: Hudi reads
the same rows after each round, and goes on."""

from __future__ import annotations

import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.enumerator.server.config.services import ServiceSettings
from penstock.enumerator.server.run import RunningServer
from penstock.proto.errors import WriteConflict
from penstock.table.hudi_table import open_table
from tests.interop.hudi_options import hudis_options
from tests.interop.mixed.test_two_writers import TWO_WRITERS
from tests.interop.test_writes import HUDIS_COLUMNS, SCHEMA, Model, Row, check, table_of
from tests.served_services import served

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

SHARED = TWO_WRITERS | {"hoodie.write.lock.num_retries": "15", "hoodie.write.lock.client.num_retries": "15"}
"""Options of Hudi's writer beside other processes."""
CONFLICTS = ("HoodieClusteringUpdateException", "HoodieWriteConflictException", "WriteConflict")
"""Errors of a write whose file groups a clustering has, or had meanwhile."""
ROUNDS = 6
CITIES = ("oslo", "riga", "wien")
MEMBER = "import sys; from penstock.engine.cli.main import run; sys.exit(run(sys.argv[1:]))"


def member(address: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-c", MEMBER, "work", "--server", address])


def write(of_server: RunningServer, table: pathlib.Path, call: Callable[[], object]) -> None:
    """Writes, again when it met a clustering of its file groups and this has ended.

    Hudi removes the heartbeat of its write that lost a conflict, and leaves the instant to its next clean.
    """
    for _ in range(10):
        try:
            call()
        except (RuntimeError, WriteConflict) as error:
            if not any(name in f"{type(error).__name__}: {error}" for name in CONFLICTS):
                raise
            penstock.work(of_server.address, until_idle=True)
            for lost in lost_writes(table):
                penstock.rollback(str(table), lost)
        else:
            return
    raise AssertionError("each of ten writes met a clustering")


def lost_writes(table: pathlib.Path) -> list[str]:
    """Pending writes without a heartbeat."""
    heartbeats = {each.name for each in (table / ".hoodie/.heartbeat").glob("*")}
    pending = [each for each in open_table(str(table)).timeline().pending if each.action in ("commit", "deltacommit")]
    return [each.requested_time for each in pending if each.requested_time not in heartbeats]


def random_rows(rng: random.Random, round_: int, count: int) -> list[Row]:
    keys = rng.sample(range(40), count)
    return [(f"k{key}", 10 * round_ + rng.randrange(10), rng.randrange(100), CITIES[key % 3]) for key in keys]


@pytest.mark.long
def test_hudi_goes_on_beside_members_that_are_killed(hudi: Any, tmp_path: pathlib.Path) -> None:
    rng = random.Random(26)
    kinds = {"mor": ("merge_on_read", "bucket"), "cow": ("copy_on_write", "simple")}
    services = {
        "mor": ServiceSettings(
            run=("compact", "clean", "archive"),
            compact_after=2,
            plan_bytes=1,
            commits=2,
            keep_min=4,
            keep_max=5,
            hold_at_most="100 commits",
        ),
        "cow": ServiceSettings(
            run=("cluster", "clean"), cluster_after=2, sort_by=("seq",), commits=2, hold_at_most="100 commits"
        ),
    }
    tables = {name: tmp_path / name for name in kinds}
    models = {name: Model() for name in kinds}
    for name, (kind, index) in kinds.items():
        create_table(
            str(tables[name]),
            SCHEMA,
            name="trip",
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            index=index,
            buckets=3 if index == "bucket" else None,
        )
    with served(tables, own=services) as server:
        members = [member(server.address) for _ in range(2)]
        try:
            for round_ in range(1, ROUNDS + 1):
                for name, (kind, index) in kinds.items():
                    rows = random_rows(rng, round_, 12)
                    path, options = tables[name], hudis_options(9, kind, index) | SHARED
                    if round_ % 2:
                        write(server, path, partial(penstock.write, name, table_of(rows), server=server.address))
                    else:
                        write(server, path, partial(hudi.write, path, HUDIS_COLUMNS, rows, options))
                    models[name].upsert(rows)
                killed = members.pop(0)
                killed.send_signal(signal.SIGKILL)
                killed.wait()
                if round_ < ROUNDS:
                    members.append(member(server.address))
            penstock.work(server.address, until_idle=True)
            for name in kinds:
                check(hudi, tables[name], models[name], f"{name} after all members")
        finally:
            for each in members:
                each.terminate()
            assert [each.wait(60) for each in members] == [0], "SIGTERM ends a member in order"
    timeline = {
        name: sorted(each.name for each in (path / ".hoodie/timeline").iterdir()) for name, path in tables.items()
    }
    assert any(each.endswith(".commit") for each in timeline["mor"]), "it was compacted"
    assert any(each.endswith(".clean") for each in timeline["mor"]), "it was cleaned"
    assert any(each.endswith(".replacecommit") for each in timeline["cow"]), "it was clustered"
    for name, (kind, index) in kinds.items():
        rows = random_rows(rng, 9, 10)
        hudi.write(tables[name], HUDIS_COLUMNS, rows, hudis_options(9, kind, index))
        models[name].upsert(rows)
        check(hudi, tables[name], models[name], f"{name} after Hudi")
