"""Short answers of a store are noticed, wherever they are cut and whatever the file holds."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.storage.exact_reads import _UNREAD, ExactFile


class Store:
    """A file as pyarrow's S3 file system has it: answers that are cut say that they are whole. `cut` bytes of each
    answer of more than one byte never come."""

    closed = False

    def __init__(self, data: bytes, cut: int = 0) -> None:
        self.data, self.cut, self.at, self.asked = data, cut, 0, 0

    def size(self) -> int:
        return len(self.data)

    def seek(self, at: int) -> None:
        self.at = at

    def readinto(self, into: bytearray) -> int:
        self.asked += 1
        present = self.data[self.at : self.at + len(into)]
        come = present if len(present) < 2 else present[: max(len(present) - self.cut, 1)]
        into[: len(come)] = come
        return len(present)

    def read(self, size: int) -> bytes:
        self.asked += 1
        assert size == 1
        return self.data[self.at : self.at + 1]

    def close(self) -> None:
        self.closed = True


def opened(store: Store) -> pa.PythonFile:
    return pa.PythonFile(ExactFile(store), mode="r")


marked = st.lists(st.sampled_from([0, 1, 255, _UNREAD[0]]), max_size=40).map(bytes)


@given(marked, st.integers(0, 40), st.integers(0, 40))
def test_whole_answers_are_the_files_bytes(data: bytes, offset: int, size: int) -> None:
    file = opened(Store(data))
    assert file.size() == len(data)
    assert bytes(file.read_at(size, offset)) == data[offset : offset + size]
    file.seek(0)
    assert bytes(file.read()) == data


@given(st.binary(min_size=2, max_size=40), st.integers(1, 40))
def test_short_answer_is_an_error_unless_nothing_but_the_mark_is_missing(data: bytes, cut: int) -> None:
    missing = data[max(len(data) - cut, 1) :]
    try:
        result = bytes(opened(Store(data, cut)).read())
    except OSError as error:
        assert "returned fewer" in str(error)
    else:
        assert result[: len(data) - len(missing)] == data[: len(data) - len(missing)]
        assert missing[:1] == missing[-1:] == _UNREAD  # two bytes are ambiguous


def test_most_reads_ask_once() -> None:
    store = Store(b"plain text")
    assert bytes(opened(store).read()) == b"plain text"
    assert store.asked <= 2  # the second finds the end of the file
    assert ExactFile(store).seek(-2, io.SEEK_END) == 8


def test_parquet_is_read_through_it_and_a_short_answer_is_an_error_of_the_storage() -> None:
    sink = io.BytesIO()
    table = pa.table({"n": list(range(5000))})
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    assert pq.read_table(opened(Store(sink.getvalue()))) == table
    with pytest.raises(OSError, match="returned fewer than"):
        pq.read_table(opened(Store(sink.getvalue(), cut=9)))


def test_it_is_closed_with_its_file() -> None:
    store = Store(b"abc")
    opened(store).close()
    assert store.closed


class _Signed:
    """A file whose store puts the signature of the request into its error."""

    def size(self) -> int:
        return 10

    def seek(self, offset: int) -> None:
        raise OSError("GET https://host/f?sv=1&sig=secret' failed: 503")


def test_errors_have_no_signature() -> None:
    with pytest.raises(OSError, match="503") as caught:
        ExactFile(_Signed()).read(5)
    assert "secret" not in str(caught.value) and "sig=..." in str(caught.value)
    assert caught.value.__context__ is None
