"""The validity period of a certificate (X.509, RFC 5280 §4.1.2.5), from PEM or DER. Pure. TLS checks trust."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

MAX_CERTIFICATE_BYTES: Final = 1 << 20
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]{1,1500000}?)-----END CERTIFICATE-----")
_SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_EXPLICIT_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity period of a certificate, in UTC."""

    begin: datetime
    """The first moment, inclusive."""
    end: datetime
    """The last moment, inclusive."""

    def problem(self, now: datetime) -> str:
        """Why the certificate is not valid now; '' if it is."""
        if now > self.end:
            return f"expired on {self.end:%Y-%m-%d %H:%M} UTC"
        if now < self.begin:
            return f"holds from {self.begin:%Y-%m-%d %H:%M} UTC on, and it is {now:%Y-%m-%d %H:%M} here"
        return ""


def validity_of(data: bytes) -> Validity | None:
    """The validity of the first certificate in PEM or DER bytes; None if there is no readable one."""
    if len(data) > MAX_CERTIFICATE_BYTES:
        return None
    match = _PEM.search(data)
    try:
        der = base64.b64decode(match[1]) if match else data
        return _validity(der)
    except (ValueError, IndexError, binascii.Error):
        return None


def _validity(der: bytes) -> Validity:
    certificate = _content(der, 0, _SEQUENCE)[0]
    signed = _content(certificate, 0, _SEQUENCE)[0]
    at = 0
    if signed[0] == _EXPLICIT_VERSION:
        at = _content(signed, at, _EXPLICIT_VERSION)[1]
    for tag in (_INTEGER, _SEQUENCE, _SEQUENCE):  # serial number, algorithm, issuer
        at = _content(signed, at, tag)[1]
    times = _content(signed, at, _SEQUENCE)[0]
    begin, end_of_begin = _moment(times, 0)
    return Validity(begin, _moment(times, end_of_begin)[0])


def _content(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """The content of the element at `at`, and its end. ValueError, IndexError: another tag, or a truncated element."""
    if data[at] != tag:
        raise ValueError(f"tag {data[at]:#x} at {at}, expected {tag:#x}")
    size, at = data[at + 1], at + 2
    if size >= 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise ValueError(f"a length of {count} bytes")
        size, at = int.from_bytes(data[at : at + count]), at + count
    if at + size > len(data):
        raise ValueError("an element that is not whole")
    return data[at : at + size], at + size


def _moment(data: bytes, at: int) -> tuple[datetime, int]:
    tag = data[at]
    content, end = _content(data, at, tag)
    text = content.decode("ascii")
    if tag == _UTC_TIME and re.fullmatch(r"\d{12}Z", text):
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif tag != _GENERALIZED_TIME or not re.fullmatch(r"\d{14}Z", text):
        raise ValueError(f"a time of tag {tag:#x}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC), end
