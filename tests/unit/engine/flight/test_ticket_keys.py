"""Keys of tickets: signatures, the file, its errors."""

from __future__ import annotations

import pathlib

import pytest

from penstock.engine.flight.ticket_keys import MAC_BYTES, MAX_KEYS, TicketKeys, keys_of_file, random_keys
from penstock.proto.errors import ConfigurationError

A, B = "0a" * 32, "0b" * 32


def test_signature_is_of_the_data_and_the_key() -> None:
    keys, others = random_keys(), random_keys()
    signature = keys.signature(b"data")
    assert len(signature) == MAC_BYTES
    assert keys.signed(b"data", signature)
    assert not keys.signed(b"Data", signature)
    assert not others.signed(b"data", signature)
    assert not keys.signed(b"data", signature[:-1])
    assert not keys.signed(b"data", b"")


def test_first_key_signs_and_all_are_accepted(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# new\n{A}\n\n {B} \n")
    both, old, new = keys_of_file(str(file)), TicketKeys((bytes.fromhex(B),)), TicketKeys((bytes.fromhex(A),))
    assert both.signature(b"x") == new.signature(b"x")
    assert both.signed(b"x", old.signature(b"x")) and both.signed(b"x", new.signature(b"x"))
    assert not old.signed(b"x", both.signature(b"x"))


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "short", "ab" * 31, "zz" * 32, f"{A}\nbad", "\n".join([A] * (MAX_KEYS + 1)), "0" * (1 << 17)],
)
def test_bad_file(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="ticket key: file") as caught:
        keys_of_file(str(file))
    assert A not in str(caught.value)


def test_missing_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        keys_of_file(str(tmp_path / "none"))


def test_repr_has_no_key() -> None:
    assert repr(TicketKeys((bytes.fromhex(A),))) == "TicketKeys()"
