"""Names of base and log files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import InvariantViolation
from penstock.table.files.names import (
    BaseName,
    LogName,
    base_file_name,
    data_file_names,
    log_file_name,
    parse_file_name,
)

GROUP = "8d2f6c37-7c7d-47a0-b032-54bc196b1bed-0"
T = "20260131235959123"


@pytest.mark.parametrize("extension", ["parquet", "orc", "hfile", "lance"])
def test_base_name(extension: str) -> None:
    name = f"{GROUP}_0-26-85_{T}.{extension}"
    assert parse_file_name(name) == BaseName(GROUP, "0-26-85", T, extension)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f".{GROUP}_{T}.log.1_0-26-85", LogName(GROUP, T, 1, "0-26-85", False)),
        (f".{GROUP}_{T}.log.10_0-26-85.cdc", LogName(GROUP, T, 10, "0-26-85", True)),
        (f".{GROUP}_{T}.log.2", LogName(GROUP, T, 2, "", False)),
    ],
)
def test_log_name(name: str, expected: LogName) -> None:
    assert parse_file_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        "..hoodie_partition_metadata.crc",
        f".{GROUP}_0-26-85_{T}.parquet.crc",
        f"..{GROUP}_{T}.log.1_0-26-85.crc",
        f".{GROUP}_{T}.archive.1_0-26-85",
        f".{GROUP}_{T}.log.1_0-26",
        f".{GROUP}_{T}.log.1.cdc",
        f".{GROUP}_x.log.1",
        f"{GROUP}_{T}.parquet",
        f"{GROUP}_0-26-85_{T}.parquet.tmp",
        f"{GROUP}_0-26-85_{T}.csv",
        "_SUCCESS",
        "",
        ".",
        f"a/{GROUP}_0-26-85_{T}.parquet",
        "x" * 200 + "_" + "1" * 60 + f"_{T}.parquet",
    ],
)
def test_no_data_file(name: str) -> None:
    assert parse_file_name(name) is None


NAMES = [
    f"{GROUP}_0-26-85_{T}.parquet",
    f"{GROUP}_0-26-85_{T}.orc",
    f"a\nb_0-26-85_{T}.parquet",
    f".{GROUP}_{T}.log.1_0-26-85",
    f".{GROUP}_{T}.log.10_0-26-85.cdc",
    f".{GROUP}_{T}.log.2",
    f".{GROUP}_{T}.log.2_",
    f"{GROUP}_0-26-85_{T}.parquet.crc",
    f"a_b_{GROUP}_0-26-85_{T}.parquet",
    ".hoodie_partition_metadata",
    "",
    ".",
]
LONG = "x" * 200 + "_" + "1" * 60 + f"_{T}.parquet"
WITH_FOLDER = f"a/{GROUP}_0-26-85_{T}.parquet"
EXTERNAL = f"orders.parquet_{T}_hudiext"


def one_by_one(names: list[str]) -> list[tuple[str, BaseName | LogName]]:
    return [(name, parts) for name in names if (parts := parse_file_name(name)) is not None]


@given(st.lists(st.sampled_from([*NAMES, LONG, WITH_FOLDER, EXTERNAL]) | st.text("/_.\0a1", max_size=9)))
def test_names_at_once_are_parsed_as_one_by_one(names: list[str]) -> None:
    assert data_file_names(names) == one_by_one(names)


def test_each_kind_of_name_is_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that need `parse_file_name` are found out before."""
    expected = one_by_one(NAMES)
    assert [name for name, _ in expected] == NAMES[:6]
    monkeypatch.delattr("penstock.table.files.names.parse_file_name")
    assert data_file_names(NAMES) == expected
    for other in (LONG, WITH_FOLDER, EXTERNAL):
        with pytest.raises(NameError):
            data_file_names([*NAMES, other])


def test_log_order_counts_versions_as_numbers_and_cdc_last() -> None:
    names = [
        f".{GROUP}_1.log.2",
        f".{GROUP}_1.log.2_0-1-1",
        f".{GROUP}_1.log.2_0-1-1.cdc",
        f".{GROUP}_1.log.10_0-1-0",
        f".{GROUP}_2.log.1_0-0-0",
    ]
    parsed = [parse_file_name(name) for name in reversed(names)]
    logs = [item for item in parsed if isinstance(item, LogName)]
    assert sorted(logs, key=lambda log: log.order) == list(reversed(logs))


IDS = st.text(st.characters(exclude_characters="_./\0", exclude_categories=["Cs"]), min_size=1, max_size=40)
TIMES = st.text("0123456789", min_size=1, max_size=24)


@given(IDS, TIMES, st.integers(0, 10**9 - 1), st.booleans(), st.booleans())
def test_log_names_round_trip(group: str, instant: str, version: int, token: bool, cdc: bool) -> None:
    suffix = ("_1-2-3" + (".cdc" if cdc else "")) if token else ""
    result = parse_file_name(f".{group}_{instant}.log.{version}{suffix}")
    assert result == LogName(group, instant, version, "1-2-3" if token else "", cdc and token)


@given(IDS, IDS, TIMES)
def test_base_names_round_trip(group: str, token: str, instant: str) -> None:
    assert parse_file_name(f"{group}_{token}_{instant}.parquet") == BaseName(group, token, instant, "parquet")


INSTANTS = st.text("0123456789", min_size=1, max_size=24)
FILE_IDS = st.text("abc-0123", min_size=1, max_size=40)
TOKENS = st.tuples(*[st.integers(0, 10**6)] * 3).map(lambda parts: "-".join(map(str, parts)))


@given(FILE_IDS, TOKENS, INSTANTS)
def test_formed_base_name_is_parsed_to_its_parts(file_id: str, token: str, instant: str) -> None:
    assert parse_file_name(base_file_name(file_id, token, instant)) == BaseName(file_id, token, instant, "parquet")


@given(FILE_IDS, INSTANTS, st.integers(0, 10**9 - 1), TOKENS, st.booleans())
def test_formed_log_name_is_parsed_to_its_parts(
    file_id: str, instant: str, version: int, token: str, is_cdc: bool
) -> None:
    name = log_file_name(file_id, instant, version, token, is_cdc=is_cdc)
    assert parse_file_name(name) == LogName(file_id, instant, version, token, is_cdc)


@pytest.mark.parametrize("file_id", ["", "a_b", "a.b", "a/b", "x" * 250])
def test_name_with_another_file_id_is_not_formed(file_id: str) -> None:
    with pytest.raises(InvariantViolation):
        base_file_name(file_id, "0-0-0", "001")
    with pytest.raises(InvariantViolation):
        log_file_name(file_id, "001", 1, "0-0-0")


@pytest.mark.parametrize(
    ("instant", "version", "token"), [("1", 10**9, "0-0-0"), ("1", -1, "0-0-0"), ("1", 1, ""), ("1", 1, "a")]
)
def test_log_name_with_another_part_is_not_formed(instant: str, version: int, token: str) -> None:
    with pytest.raises(InvariantViolation):
        log_file_name("f-0", instant, version, token)
