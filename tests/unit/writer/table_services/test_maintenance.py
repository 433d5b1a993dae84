"""The policy of a maintenance: options, then the table's properties, then Hudi's defaults."""

from __future__ import annotations

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.service_splits import Service
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.instants import parse_instant_file
from penstock.writer.table_services.archival import ArchivePolicy
from penstock.writer.table_services.maintenance import (
    MaintenanceOptions,
    MaintenancePolicy,
    maintenance_policy,
    parse_services,
    writes_since_clustering,
)
from penstock.writer.table_services.retention import KeepCommits, KeepFileVersions, KeepHours


def policy(stored: dict[str, str] | None = None, **options: int | list[str]) -> MaintenancePolicy:
    return maintenance_policy(MaintenanceOptions(**options), stored or {}, "table t")  # type: ignore[arg-type]


def kept(archive: ArchivePolicy) -> tuple[int, int]:
    return (archive.keep_min, archive.keep_max)


def test_defaults_are_those_of_hudi() -> None:
    assert policy() == MaintenancePolicy(
        compact_after=5,
        cluster_after=None,
        sort_by=(),
        clean=KeepCommits(10),
        archive=ArchivePolicy(keep_min=20, keep_max=30, delta_commits=5),
    )


def test_properties_come_before_defaults_and_options_before_properties() -> None:
    stored = {
        "hoodie.compact.inline.max.delta.commits": "7",
        "hoodie.clustering.inline": "TRUE",
        "hoodie.clustering.inline.max.commits": " 9 ",
        "hoodie.clustering.plan.strategy.sort.columns": "a, b",
        "hoodie.clean.commits.retained": "3",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "6",
    }
    mine = policy(stored)
    assert (mine.compact_after, mine.cluster_after, mine.sort_by) == (7, 9, ("a", "b"))
    assert mine.clean == KeepCommits(3)
    assert mine.archive == ArchivePolicy(keep_min=4, keep_max=6, delta_commits=7)
    given = policy(stored, compact_after=2, cluster_after=1, sort_by=[], hours=2, keep_min=8, keep_max=9)
    assert (given.compact_after, given.cluster_after, given.sort_by) == (2, 1, ())
    assert given.clean == KeepHours(2) and kept(given.archive) == (8, 9)


def test_clustering_is_off_unless_it_is_asked_for() -> None:
    assert policy({"hoodie.clustering.inline.max.commits": "9"}).cluster_after is None
    assert policy({"hoodie.clustering.inline": "true"}).cluster_after == 4


def test_clean_policy_of_the_table() -> None:
    assert policy({"hoodie.clean.policy": "keep_latest_by_hours"}).clean == KeepHours(24)
    assert policy({"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}).clean == KeepFileVersions(3)
    both = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.cleaner.hours.retained": "5"}
    assert policy(both).clean == KeepHours(5)
    assert policy(both, commits=2).clean == KeepCommits(2)
    with pytest.raises(ConfigurationError, match=r"table t: its property hoodie\.clean\.policy is 'KEEP_ALL'"):
        policy({"hoodie.clean.policy": "keep_all"})


def test_archival_keeps_more_than_the_clean() -> None:
    assert kept(policy(commits=19).archive) == (20, 30)
    assert kept(policy(commits=20).archive) == (30, 40)
    assert kept(policy(keep_max=12).archive) == (11, 12)
    assert kept(policy(keep_min=40).archive) == (40, 50)
    assert kept(policy(hours=99, keep_min=1, keep_max=2).archive) == (1, 2)
    for options in ({"keep_min": 10}, {"commits": 5, "keep_max": 6}, {"commits": 25, "keep_min": 20}):
        with pytest.raises(ConfigurationError, match="a clean keeps"):
            policy(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "99999999", "٣", "1" * 5000])
def test_stored_value_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"table t: its property hoodie\.keep\.min\.commits"):
        policy({"hoodie.keep.min.commits": value})


def test_names_of_services() -> None:
    assert parse_services(["clean", "compact"]) == {Service.CLEAN, Service.COMPACT}
    with pytest.raises(ConfigurationError, match="got 'vacuum', expected compact, cluster, clean, archive"):
        parse_services(["vacuum"])


def timeline_of(*names: str) -> Timeline:
    return build_timeline(1, [file for name in names if (file := parse_instant_file(name, 1))])


def test_writes_since_the_last_clustering() -> None:
    timeline = timeline_of("10.commit", "20.replacecommit", "30.deltacommit", "40.replacecommit", "50.commit.requested")
    assert writes_since_clustering(timeline, ()) == 4
    assert writes_since_clustering(timeline, {"20"}) == 2
    assert writes_since_clustering(timeline, {"20", "40"}) == 0
