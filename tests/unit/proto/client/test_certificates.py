"""Times of certificates, against what another implementation says; bytes that are none give none."""

from __future__ import annotations

import datetime
import pathlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.client.certificates import Validity, validity_of
from tests.certificates import Authority

UTC = datetime.UTC
DAY = datetime.timedelta(days=1)


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("begin", "end"),
    [("1999-12-31T23:59:59", "2049-12-31T23:59:59"), ("2026-01-02T03:04:05", "2150-06-07T08:09:10")],
)
def test_times_of_a_certificate(tmp_path: pathlib.Path, begin: str, end: str) -> None:
    pair = Authority(tmp_path).signed("server", "127.0.0.1", begin=moment(begin), end=moment(end))
    pem = pathlib.Path(pair.cert).read_bytes()
    expected = Validity(moment(begin), moment(end))
    assert validity_of(pem) == expected
    assert validity_of(b"text before\n" + pem + b"another after") == expected
    assert validity_of(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)) == expected


def test_expired_and_future_certificates_are_reported() -> None:
    now = moment("2026-06-01T12:00:00")
    assert Validity(now, now).problem(now) == ""
    assert Validity(now - DAY, now - DAY / 2).problem(now) == "expired on 2026-06-01 00:00 UTC"
    assert Validity(now + DAY, now + 2 * DAY).problem(now).startswith("holds from 2026-06-02 12:00 UTC on")


def test_damaged_bytes_give_none(tmp_path: pathlib.Path) -> None:
    pem = pathlib.Path(Authority(tmp_path).signed("server").cert).read_bytes()
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    for size in range(80):
        assert validity_of(der[:size]) is None
    assert validity_of(bytes(2 << 20)) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_no_error(data: bytes) -> None:
    validity_of(data)
    validity_of(b"-----BEGIN CERTIFICATE-----\n" + data + b"\n-----END CERTIFICATE-----")
