"""The short ways to the files of a group with one base file, alone or with logs: they give what all steps give, or
nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.planning.missing_files import (
    AvailableFiles,
    LaterEvidence,
    MissingFile,
    available_files,
    base_and_logs,
    only_base_file,
    only_file,
)
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.table.files.names import BaseName, LogName
from penstock.table.files.slices import (
    CommittedInstants,
    DataFile,
    Everything,
    OrderedBefore,
    OrderedThrough,
    OrderedUpTo,
    RequestedUpTo,
    View,
    VisibleFiles,
    slice_group,
)
from penstock.table.timeline.active import build_timeline
from tests.unit.enumerator.planning.planner_model import listed_file

GROUP = ("p", "f-0")
INSTANTS = [f"{number:03d}" for number in range(1, 6)]
COMMITTED = CommittedInstants(
    layout=2, order_keys={"002": "004", "003": "003", "004": "005"}, archived_before="002"
)  # 001 was archived, 005 is unknown, and 002 completed after 003
NAMES = [f"f-0_0-0-0_{time}.parquet" for time in INSTANTS] + [f".f-0_{time}.log.1_0-0-0" for time in INSTANTS]
VIEWS = st.one_of(
    st.just(Everything()),
    st.sampled_from(INSTANTS).map(RequestedUpTo),
    st.sampled_from(INSTANTS).map(OrderedUpTo),
    st.builds(OrderedBefore, st.sampled_from(INSTANTS), st.sampled_from(INSTANTS)),
    st.builds(OrderedThrough, st.sampled_from(INSTANTS), st.sampled_from(INSTANTS)),
)


def evidence_of(view: View, *, built_on: str = "", from_logs: str = "", replaced: str = "") -> LaterEvidence:
    """Evidence of instants that the view does not show, each about `GROUP`; '' for none."""
    return LaterEvidence(
        facts=TimelineFacts(
            table="t",
            timeline=build_timeline(2, []),
            commits={},
            pending_clusterings=frozenset(),
            complete_from="002",
        ),
        view=view,
        committed=COMMITTED,
        incomplete=True,
        built_on={GROUP: (built_on, "005")} if built_on else {},
        replaced={GROUP: replaced} if replaced else {},
        from_logs={GROUP: from_logs} if from_logs else {},
    )


def by_all_steps(files: list[DataFile], evidence: LaterEvidence, *, base_files_only: bool) -> VisibleFiles | str | None:
    """What the steps for any group give; the text of an error."""
    slices = slice_group(files, (), COMMITTED)
    result = available_files(GROUP, slices, evidence, {}, base_files_only=base_files_only, tolerate_missing_logs=False)
    return result.files if isinstance(result, AvailableFiles) else str(result.error("t"))


@settings(max_examples=500)
@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from([True, True, False])),
        max_size=4,
        unique_by=lambda item: item[0],
    ),
    VIEWS,
    st.booleans(),
    st.sampled_from(["", *INSTANTS]),
    st.sampled_from(["", *INSTANTS]),
    st.sampled_from(["", *INSTANTS]),
)
def test_short_way_gives_what_all_steps_give(
    names: list[tuple[str, bool]], view: View, base_files_only: bool, built_on: str, from_logs: str, replaced: str
) -> None:
    files = [listed_file("p", name, 1)._replace(listed=listed) for name, listed in names]
    evidence = evidence_of(view, built_on=built_on, from_logs=from_logs, replaced=replaced)
    only = only_base_file(GROUP, files, evidence)
    if only is not None:
        assert only_file(only) == by_all_steps(files, evidence, base_files_only=base_files_only)
    with_logs = base_and_logs(GROUP, files, evidence)
    if with_logs is not None:
        assert with_logs == by_all_steps(files, evidence, base_files_only=False)


def test_one_committed_base_file_takes_the_short_way() -> None:
    base = listed_file("p", NAMES[1], 1)
    assert only_base_file(GROUP, [base], evidence_of(Everything())) is base
    assert only_file(base) == VisibleFiles("002", base, ())


@pytest.mark.parametrize(
    ("files", "evidence"),
    [
        ([], evidence_of(Everything())),
        ([listed_file("p", NAMES[1], 1)._replace(listed=False)], evidence_of(Everything())),
        ([listed_file("p", NAMES[4], 1)], evidence_of(Everything())),
        ([listed_file("p", NAMES[6], 1)], evidence_of(Everything())),
        ([listed_file("p", NAMES[1], 1), listed_file("p", NAMES[6], 1)], evidence_of(Everything())),
        ([listed_file("p", NAMES[1], 1)], evidence_of(OrderedUpTo("003"))),
        ([listed_file("p", NAMES[1], 1)], evidence_of(OrderedUpTo("004"), built_on="003")),
        ([listed_file("p", NAMES[1], 1)], evidence_of(OrderedUpTo("004"), from_logs="001")),
    ],
    ids=["none", "missing", "not committed", "log", "base and log", "not shown", "built on another", "from logs"],
)
def test_any_other_group_takes_all_steps(files: list[DataFile], evidence: LaterEvidence) -> None:
    """The short way would be wrong here: the steps give something else, or an error."""
    assert only_base_file(GROUP, files, evidence) is None
    wrong = VisibleFiles(files[0].name.instant, files[0], ()) if files else VisibleFiles("002", None, ())
    assert by_all_steps(files, evidence, base_files_only=False) != wrong


def test_control_a_later_base_file_is_evidence_of_a_missing_one() -> None:
    base = listed_file("p", NAMES[1], 1)
    slices = slice_group([base], (), COMMITTED)
    evidence = evidence_of(OrderedUpTo("004"), built_on="003")
    assert isinstance(available_files(GROUP, slices, evidence, {}, tolerate_missing_logs=False), MissingFile)


LOG_OF_3 = ".f-0_003.log.1_0-0-0"
LOG_OF_4 = ".f-0_004.log.1_0-0-0"


def files_of(*names: str) -> list[DataFile]:
    return [listed_file("p", name, 1) for name in names]


def test_a_base_file_and_logs_that_completed_after_it_take_the_short_way() -> None:
    base, late, early = files = files_of("f-0_0-0-0_002.parquet", LOG_OF_4, LOG_OF_3)
    assert base_and_logs(GROUP, files, evidence_of(Everything())) == VisibleFiles("002", base, (early, late))


@pytest.mark.parametrize(
    ("files", "evidence"),
    [
        (files_of(LOG_OF_3), evidence_of(Everything())),
        (files_of(NAMES[1], NAMES[2], LOG_OF_4), evidence_of(Everything())),
        (files_of(NAMES[4], LOG_OF_3), evidence_of(Everything())),
        (files_of(NAMES[1], ".f-0_005.log.1_0-0-0"), evidence_of(Everything())),
        (files_of(NAMES[3], LOG_OF_3), evidence_of(Everything())),
        (files_of(NAMES[1], LOG_OF_4), evidence_of(OrderedUpTo("004"))),
        ([files_of(NAMES[1])[0], files_of(LOG_OF_4)[0]._replace(listed=False)], evidence_of(Everything())),
        (files_of(NAMES[1], LOG_OF_4), evidence_of(OrderedUpTo("005"), built_on="003")),
        (files_of(NAMES[1], LOG_OF_4), evidence_of(OrderedUpTo("005"), from_logs="001")),
    ],
    ids=[
        "no base file",
        "two base files",
        "base not committed",
        "log not committed",
        "log before the base file",
        "log not shown",
        "log missing",
        "built on another",
        "from logs",
    ],
)
def test_other_groups_with_logs_take_all_steps(files: list[DataFile], evidence: LaterEvidence) -> None:
    assert base_and_logs(GROUP, files, evidence) is None
    bases = [file for file in files if isinstance(file.name, BaseName)]
    logs = sorted((file for file in files if isinstance(file.name, LogName)), key=lambda file: file.name.instant)
    wrong = VisibleFiles(bases[0].name.instant, bases[0], tuple(logs)) if bases else VisibleFiles("003", None, ())
    assert by_all_steps(files, evidence, base_files_only=False) != wrong


def test_groups_of_layout_1_take_all_steps() -> None:
    """There the name of a log has the instant of its base file, whose blocks may be of later instants."""
    evidence = replace(evidence_of(Everything()), committed=replace(COMMITTED, layout=1))
    assert base_and_logs(GROUP, files_of(NAMES[1], LOG_OF_4), evidence) is None
