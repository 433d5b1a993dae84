"""The URIs of tables: schemes, pyarrow's spelling, and texts without credentials."""

from __future__ import annotations

import re
from typing import Final

from penstock.proto.errors import ConfigurationError

EXPECTED_PATH: Final = "expected a local path or a URI such as s3://bucket/table"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_ARROW_SCHEMES = {
    "file": "file",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "hdfs": "hdfs",
    "viewfs": "viewfs",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Supported URI scheme -> its name in pyarrow."""
SCHEMES: Final = frozenset(_ARROW_SCHEMES)
"""The supported URI schemes."""
AZURE_SCHEMES: Final = ("abfs", "abfss")
_AZURE_HOST: Final = re.compile(r"[^:/]*(:\d*)?/")
"""A host, perhaps with a port, and the beginning of a path."""
_SHARED_PARAMETERS = frozenset({
    "region", "scheme", "endpoint_override", "allow_delayed_open", "replication", "enable_tls",
    "blob_storage_authority", "dfs_storage_authority", "credential_kind",
})  # fmt: skip
"""Parameters of pyarrow's URIs that hold no secret; `uri_without_credentials` drops all others."""

_SIGNATURE: Final = re.compile(r"([?&]sig=)[^&'\"\s]*")


def redacted_uri(base_path: str) -> str:
    """The base path for error texts and logs, without user name (of Azure it locates the table), password, query and
    fragment. Not for opening. A name or a local path is returned unchanged. A password that is not percent-encoded (it
    contains '/', '?' or '#') is removed too.
    """
    if not _URI.match(base_path):
        return base_path
    scheme, _, rest = base_path.partition(":")
    slashes = "//" if rest.startswith("//") else ""
    rest = rest[len(slashes) :]
    kept = _located_user(scheme, rest)
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, _, port = authority.rpartition(":")
    if "@" in authority:
        rest = authority.rpartition("@")[2] + rest[len(authority) :]
    elif user and not port.isdecimal():
        rest = rest.rpartition("@")[2]
    return f"{scheme}:{slashes}{kept}{re.split('[?#]', rest, maxsplit=1)[0]}"


def uri_without_credentials(base_path: str) -> str:
    """The base path for other processes, which open it with credentials of their own.

    User name and password are removed; of the query, only the parameters that locate the storage remain. A local path
    is returned unchanged.
    """
    if not _URI.match(base_path):
        return base_path
    query = base_path.partition("?")[2].partition("#")[0]
    parameters = [
        part
        for part in query.split("&")
        if part.partition("=")[0].lower() in _SHARED_PARAMETERS and "@" not in part and "%40" not in part
    ]
    return "?".join([redacted_uri(base_path), *(["&".join(parameters)] if parameters else [])])


def without_signature(text: str) -> str:
    """The text without the shared access signatures of Azure, which are in the URLs of its errors."""
    return _SIGNATURE.sub(r"\1...", text)


def is_uri(path: str) -> bool:
    """Whether the path has a scheme; a local path has none."""
    return _URI.match(path) is not None


def uri_scheme(path: str) -> str:
    """The scheme of a URI in lower case; '' for a local path."""
    return path.partition(":")[0].lower() if _URI.match(path) else ""


def folder_uri(path: str, what: str = "table path") -> str:
    """The URI in pyarrow's spelling; '' for a local path. Opens no connection. ConfigurationError as `open_storage`."""
    described = f"{what} {redacted_uri(path)[:200]!r}"
    if not path or "\0" in path:
        raise ConfigurationError(f"{described}: {EXPECTED_PATH}")
    if not is_utf8(path):
        raise ConfigurationError(f"{described} is not UTF-8: {EXPECTED_PATH}")
    if not _URI.match(path):
        return ""
    scheme, _, rest = path.partition(":")
    known = _ARROW_SCHEMES.get(scheme.lower())
    if known is None:
        raise ConfigurationError(
            f"{described}: no file system is known for {scheme[:40]}:, supported are {', '.join(_ARROW_SCHEMES)}; "
            f"{EXPECTED_PATH}"
        )
    return f"{known}:{rest}"


def _located_user(scheme: str, rest: str) -> str:
    """`USER@` of a URI of Azure whose `rest` follows `SCHEME://`, without a password; '' for another scheme, or without
    a user. The user of such a URI is no secret: it locates the table."""
    before = rest.partition("@")[0]
    if scheme.lower() not in AZURE_SCHEMES or before == rest or _AZURE_HOST.match(before):
        return ""
    user = before.partition(":")[0]
    return f"{user}@" if user else ""


def is_utf8(text: str) -> bool:
    """Whether the text can be encoded as UTF-8. Other bytes of a command line arrive as lone surrogates."""
    return text.encode(errors="replace").decode() == text
