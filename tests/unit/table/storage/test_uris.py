"""`penstock.table.storage.uris`: texts of paths without credentials."""

from __future__ import annotations

import pytest

from penstock.table.storage.uris import redacted_uri, uri_without_credentials, without_signature


def test_credentials_are_not_shown() -> None:
    text = redacted_uri("s3://key:secret@bucket/table?endpoint_override=host&secret_key=hidden")
    assert text == "s3://bucket/table"
    assert redacted_uri("/local/ta?ble") == "/local/ta?ble"


@pytest.mark.parametrize("secret", ["a", "a/b", "a?b", "a#b", "a@b", "a:b", "a/b?c#d@e"])
@pytest.mark.parametrize("slashes", ["//", ""])
def test_password_in_any_spelling_is_not_shown(secret: str, slashes: str) -> None:
    assert redacted_uri(f"s3:{slashes}key:{secret}@bucket/table") == f"s3:{slashes}bucket/table"


@pytest.mark.parametrize(
    "path",
    ["trips", "/a/b@c:d", "../a", "s3://bucket/d=@x", "hdfs://name:8020/d=@x", "hdfs://[::1]:8020/t", "file:/a@b", ""],
)
def test_paths_without_credentials_are_not_redacted(path: str) -> None:
    assert redacted_uri(path) == path


@pytest.mark.parametrize("secret", ["a", "a/b", "a@b", "a:b", "k%2Fy%3D%3D", "Zm9v/+a=="])
def test_user_of_azure_locates_the_table_and_its_key_is_not_shown(secret: str) -> None:
    host = "account.dfs.core.windows.net"
    assert redacted_uri(f"abfs://lake:{secret}@{host}/t") == f"abfs://lake@{host}/t"
    given = f"abfss://account:{secret}@127.0.0.1:10000/lake/t?enable_tls=false&client_secret={secret}"
    assert uri_without_credentials(given) == "abfss://account@127.0.0.1:10000/lake/t?enable_tls=false"


@pytest.mark.parametrize(
    "path", ["abfs://lake@account.dfs.core.windows.net/t", "abfs://host:10000/c/d=@x", "abfs://h/d=@x"]
)
def test_paths_of_azure_without_a_key_are_not_redacted(path: str) -> None:
    assert redacted_uri(path) == path


@pytest.mark.parametrize("end", ["", "&sp=r", "' failed", '" failed', " failed"])
def test_signatures_are_not_shown(end: str) -> None:
    text = f"GET https://host/lake/t?sv=2020&sig=aB%2F3+/=%3D{end}"
    assert without_signature(text) == f"GET https://host/lake/t?sv=2020&sig=...{end}"
    assert without_signature("design=3, sig=3") == "design=3, sig=3"
