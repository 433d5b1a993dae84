"""The table that `bench/planning.py` plans: both roads plan it alike, its range is the newest commits'."""

from __future__ import annotations

import pytest

from bench import planning

INSTANTS, SLICES, IN_A_PARTITION = 30, 2000, 100
"""Twenty partitions: few would be listed by their folders in any case."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(planning, "IN_A_PARTITION", IN_A_PARTITION)
        return str(planning.make_table(tmp_path_factory.mktemp("planning"), INSTANTS, SLICES))


def test_every_question_has_its_splits_by_the_road_it_names(path: str) -> None:
    found = {}
    for name, query, metadata in planning.questions(INSTANTS):
        table = planning.open_table(path)
        request = planning.PlanRequest(table="planned", query=query, metadata=metadata)
        plan = planning.plan_request(table, "planned", request)
        assert table.metadata_fallbacks == 0
        found[name] = sorted((split.split_id, len(split.logs)) for split in plan.splits)
    snapshot, range_of, listed, listed_range = found.values()
    assert snapshot == listed and range_of == listed_range
    appended = planning.RANGE_COMMITS * IN_A_PARTITION
    assert len(snapshot) == SLICES and sum(logs for _, logs in snapshot) == appended
    assert len(range_of) == sum(logs for _, logs in range_of) == appended


@pytest.mark.parametrize("place", range(4))
def test_folders_are_listed_where_that_is_asked_and_only_there(
    path: str, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    _, query, metadata = list(planning.questions(INSTANTS))[place]
    table = planning.open_table(path)
    listed = []
    ask = type(table.storage).list_dir
    monkeypatch.setattr(type(table.storage), "list_dir", lambda self, where: listed.append(where) or ask(self, where))
    planning.plan_request(table, "planned", planning.PlanRequest(table="planned", query=query, metadata=metadata))
    assert bool([where for where in listed if where.startswith("p=")]) is not metadata
