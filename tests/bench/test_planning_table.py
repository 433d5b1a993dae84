"""The table of `bench/planning.py`: folders and metadata table give equal plans; the range has the newest commits."""

from __future__ import annotations

import pytest

from bench import planning

INSTANTS, SLICES, IN_A_PARTITION = 30, 2000, 100
"""Twenty partitions: with fewer, the planner lists folders in any case."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("planning")
    return str(planning.make_table(folder, INSTANTS, SLICES, in_a_partition=IN_A_PARTITION))


def test_questions_have_equal_splits_by_folders_and_by_the_metadata_table(path: str) -> None:
    splits = {}
    for name, query, metadata in planning.questions(INSTANTS):
        table = planning.open_table(path)
        request = planning.PlanRequest(table="planned", query=query, metadata=metadata)
        plan = planning.plan_request(table, "planned", request)
        assert table.metadata_fallbacks == 0
        splits[name] = sorted((split.split_id, len(split.logs)) for split in plan.splits)
    folder_snapshot, folder_range, listed, listed_range = splits.values()
    assert folder_snapshot == listed and folder_range == listed_range
    appended = planning.RANGE_COMMITS * IN_A_PARTITION
    assert len(folder_snapshot) == SLICES and sum(logs for _, logs in folder_snapshot) == appended
    assert len(folder_range) == sum(logs for _, logs in folder_range) == appended


@pytest.mark.parametrize("place", range(4))
def test_folders_are_listed_only_without_the_metadata_table(
    path: str, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    _, query, metadata = list(planning.questions(INSTANTS))[place]
    table = planning.open_table(path)
    listed = []
    ask = type(table.storage).list_dir
    monkeypatch.setattr(type(table.storage), "list_dir", lambda self, where: listed.append(where) or ask(self, where))
    planning.plan_request(table, "planned", planning.PlanRequest(table="planned", query=query, metadata=metadata))
    assert bool([where for where in listed if where.startswith("p=")]) is not metadata
