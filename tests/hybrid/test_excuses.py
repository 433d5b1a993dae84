"""Failures that a hybrid run excuses: by the class of the error, not by the text of its message."""

from __future__ import annotations

import pytest

from tests.hybrid.hybrid_harness import has_excused_end, is_excused

SPARK = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed "
    'when Python streaming data source perform latestOffset: Traceback (most recent call last): File "client.py", '
    "line 186, in _call: raise known from error: penstock.proto.errors."
)


@pytest.mark.parametrize(
    ("text", "excused"),
    [
        ("ServerUnavailable: NextBatch of the enumerator at 127.0.0.1:1: the server cannot be reached", True),
        ("KafkaUnavailable: topic orders: no broker answers", True),
        ("KafkaUnavailable: x penstock.proto.errors.DataInvalidated: topic orders was created again", False),
        ("StorageDenied: [STORAGE_DENIED] the bucket refuses; KAFKA_UNAVAILABLE is another thing", False),
        ("DataInvalidated: offsets fell while StorageError, ServerUnavailable and UnknownPlan were near", False),
        ("StorageError: file x of STORAGE cannot be read", False),
        ("UnknownPlan: no plan 7", False),
    ],
)
def test_stream_is_excused_by_what_was_raised(text: str, excused: bool) -> None:
    assert is_excused(SPARK + text) is excused


@pytest.mark.parametrize("text", ["", "NOT REPEATED: StorageError has new rows", "java.lang.OutOfMemoryError"])
def test_foreign_error_is_not_excused(text: str) -> None:
    assert not is_excused(text)


@pytest.mark.parametrize(
    ("log", "excused"),
    [
        ("error [SERVER_UNAVAILABLE]: NextSplit: the server cannot be reached\n", True),
        ("error [FENCED]: reader r\n", True),
        ("error [STORAGE]: the disk failed\n", False),
        ("error [SERVER_UNAVAILABLE]: away\nstarted\nerror [DATA_INVALIDATED]: rows were lost\n", False),
        ("error [CONFIGURATION]: not one of error [FENCED]\n", False),
        ("killed\n", False),
    ],
)
def test_reader_is_excused_by_its_last_error(log: str, excused: bool) -> None:
    assert has_excused_end(log) is excused
