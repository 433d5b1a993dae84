"""Checks of planned rounds whose files a cleaner may remove."""

from __future__ import annotations

from penstock.enumerator.core.results import CoordinatorSettings
from penstock.proto.errors import StorageError
from penstock.proto.model.groups import OnLostRange
from tests.unit.enumerator.scripted_service import Script, World, earliest_world, spec_of


def test_open_round_is_read_if_its_file_reappears() -> None:
    world = earliest_world(first=2)
    world.script.clean, world.script.gone = "003", {"f1.parquet"}
    world.service.split_discovery.discover()
    world.script.gone = set()
    world.clock.now_ms += world.settings.lease_ms
    world.service.split_discovery.discover()
    assert world.summary() == "running 0 002"


def test_open_rounds_are_checked_after_each_clean_also_under_back_pressure() -> None:
    world = World(
        Script(newest=9), settings=CoordinatorSettings(max_rounds=1), spec=spec_of(on_lost_range=OnLostRange.EARLIEST)
    )
    for _ in range(4):
        world.service.split_discovery.discover()
    assert world.summary() == "paused 0 001"
    checks = world.script.checks
    for _ in range(3):
        world.service.split_discovery.discover()
    assert world.script.checks == checks
    world.script.clean = "003"
    world.service.split_discovery.discover()
    assert world.script.checks == checks + 1


def test_open_rounds_are_checked_again_after_a_storage_failure() -> None:
    world = earliest_world(first=2)
    world.script.clean, world.script.gone = "003", {"f1.parquet"}
    world.script.fails = [StorageError("no answer")]
    world.service.split_discovery.discover()
    world.clock.now_ms += 60_000
    world.service.split_discovery.discover()
    world.script.fails = [StorageError("no answer")]
    world.service.split_discovery.discover()
    world.clock.now_ms += world.settings.lease_ms
    world.service.split_discovery.discover()
    assert world.summary() == "running 002 002"


def test_open_rounds_are_checked_at_the_interval_of_their_table() -> None:
    world = World(Script(newest=1), spec=spec_of(on_lost_range=OnLostRange.EARLIEST))
    split_discovery = world.service.split_discovery
    split_discovery.interval_ms = {"t": 10_000}.__getitem__
    for _ in range(3):
        split_discovery.discover()
    world.clock.now_ms += 9_999
    assert split_discovery.due() == set()
    world.clock.now_ms += 1
    assert split_discovery.due() == {"t"}


def test_trouble_of_a_paused_group_ends_after_a_successful_check() -> None:
    spec = spec_of(on_lost_range=OnLostRange.EARLIEST)
    world = World(Script(newest=9), settings=CoordinatorSettings(max_rounds=1), spec=spec)
    for _ in range(3):
        world.service.split_discovery.discover()
    world.script.clean, world.script.fails = "003", [StorageError("no answer")]
    world.service.split_discovery.discover()
    assert world.service.describe_group("t", "g").error == "no answer"
    world.clock.now_ms += 60_000
    world.service.split_discovery.discover()
    assert world.service.describe_group("t", "g").error == ""
    assert world.summary() == "paused 0 001"
