"""`penstock.table.storage.azure`: which account a URI names, and with which credentials it is opened."""

from __future__ import annotations

import subprocess
import sys

import pyarrow.fs as pafs
import pytest

from penstock.proto.errors import ConfigurationError
from penstock.table.storage.azure import AzureAccount, open_account, sends_tokens
from penstock.table.storage.uris import uri_without_credentials

KEY = "cGVuc3RvY2sgdGVzdHM6IG5vIHNlY3JldCBvZiBhbnlib2R5"
PLAIN = "abfs://lake@account.dfs.core.windows.net/t"
LOCAL = "abfs://account@127.0.0.1:10000/lake/t?enable_tls=false"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (PLAIN, ("account", ".blob.core.windows.net", ".dfs.core.windows.net", True)),
        ("abfss://a.blob.core.windows.net/c/t", ("a", ".blob.core.windows.net", ".dfs.core.windows.net", True)),
        (LOCAL, ("account", "127.0.0.1:10000", "127.0.0.1:10000", False)),
        ("abfs://account:key@h.net/lake/t", ("account", "h.net", "h.net", True)),
        ("abfs://account@lake/t", ("account", ".blob.core.windows.net", ".dfs.core.windows.net", True)),
        ("abfs://lake@a.dfs.core.windows.net:443/t", ("a", ".blob.core.windows.net", ".dfs.core.windows.net", True)),
        ("abfs://a@h%2Enet:99/t?blob_storage_authority=.b", ("a", ".b", "h.net:99", True)),
        (
            "abfs://lake@account.dfs.core.windows.net/t?dfs_storage_authority=.dfs.example.net&enable_tls=FALSE",
            ("account", ".blob.core.windows.net", ".dfs.example.net", False),
        ),
    ],
)  # fmt: skip
def test_account_of_a_uri(uri: str, expected: tuple[str, str, str, bool]) -> None:
    account = AzureAccount.of(uri)
    assert (account.name, account.blob_authority, account.dfs_authority, account.tls) == expected
    made = pafs.FileSystem.from_uri(uri)[0].__reduce__()[1][0]
    names = ("account_name", "blob_storage_authority", "dfs_storage_authority")
    assert (*(made[name] for name in names), made["dfs_storage_scheme"] == "https") == expected


@pytest.mark.parametrize(
    "uri",
    [
        "abfs://a:secret@[::1]:10000/lake/t", "abfs://a:secret@[::1/lake/t", "abfs://a:secret@h%3Ax.net/lake/t",
        "abfs://lake@a%3Ax.blob.core.windows.net/t", f"{PLAIN}?blob_storage_authority=h:x",
        f"{PLAIN}?blob_storage_authority=h:99999", f"{PLAIN}?dfs_storage_authority=.h:",
        f"{PLAIN}?dfs_storage_authority=",
    ],
)  # fmt: skip
def test_a_host_that_the_library_cannot_parse_is_refused(uri: str) -> None:
    """In a separate process: the library ends its process at most of them."""
    program = "import sys; from penstock.table.storage.filesystem import open_storage; open_storage(sys.argv[1])"
    ended = subprocess.run([sys.executable, "-P", "-c", program, uri], capture_output=True, text=True)
    assert ended.returncode == 1 and "ConfigurationError: Azure: expected a host" in ended.stderr
    assert "secret" not in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("uri", "environment", "tokens"),
    [
        (PLAIN, {}, True),
        (PLAIN, {"AZURE_STORAGE_ACCOUNT_KEY": KEY}, False),
        (PLAIN, {"AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_STORAGE_ACCOUNT_NAME": "account"}, False),
        (PLAIN, {"AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_STORAGE_ACCOUNT_NAME": "other"}, True),
        (PLAIN, {"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=s"}, False),
        (f"{PLAIN}?sv=1&sig=s", {}, False),
        (f"{PLAIN}?credential_kind=anonymous", {}, False),
        (f"{PLAIN}?credential_kind=cli", {"AZURE_STORAGE_ACCOUNT_KEY": KEY}, True),
        (f"{PLAIN}?client_id=i", {"AZURE_STORAGE_ACCOUNT_KEY": KEY}, True),
    ],
)
def test_credentials_of_the_uri_come_first_then_those_of_the_environment(
    uri: str, environment: dict[str, str], tokens: bool
) -> None:
    assert sends_tokens(uri, environment) is tokens
    has_secret = not tokens and any("KEY" in name or "SAS" in name for name in environment)
    made = pafs.FileSystem.from_uri(uri)[0]
    assert (open_account(uri, environment)[0] != made) is has_secret


def test_file_system_has_the_key_and_the_place_of_the_uri() -> None:
    found, root = open_account(LOCAL, {"AZURE_STORAGE_ACCOUNT_KEY": f" {KEY}\n"})
    place = {"blob_storage_authority": "127.0.0.1:10000", "dfs_storage_authority": "127.0.0.1:10000"}
    schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    assert root == "lake/t"
    assert found == pafs.AzureFileSystem("account", account_key=KEY, **place, **schemes)
    assert found != pafs.AzureFileSystem("account", account_key=KEY, **place)


def test_malformed_key_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="AZURE_STORAGE_ACCOUNT_KEY is no key of Azure") as caught:
        open_account(PLAIN, {"AZURE_STORAGE_ACCOUNT_KEY": "secret, and malformed"})
    assert "secret," not in str(caught.value)


@pytest.mark.parametrize(
    "signature",
    [
        "https://a.blob.core.windows.net/?sv=1&sig=secret", "sv=1&SIG=secret", "sv=1;sig=secret", "sv=1&sig=secret x",
        "sv=1&si=secret",
    ],
)  # fmt: skip
def test_malformed_signature_is_not_shown(signature: str) -> None:
    with pytest.raises(ConfigurationError, match="AZURE_STORAGE_SAS_TOKEN is no shared access signature") as caught:
        open_account(PLAIN, {"AZURE_STORAGE_SAS_TOKEN": signature})
    assert "secret" not in str(caught.value)
    accepted = {"AZURE_STORAGE_SAS_TOKEN": "?sv=1&se=2999-01-01T00:00:00Z&sig=a%2Bb/c="}
    made = pafs.AzureFileSystem("account", sas_token=accepted["AZURE_STORAGE_SAS_TOKEN"])
    assert open_account(PLAIN, accepted)[0] == made


def test_token_is_not_sent_without_tls() -> None:
    with pytest.raises(ConfigurationError, match="other credentials are only sent over TLS"):
        open_account(LOCAL, {})
    anonymous = f"{LOCAL}&credential_kind=anonymous"
    assert open_account(anonymous, {}) == pafs.FileSystem.from_uri(anonymous)


def test_plans_keep_the_place_and_the_kind_of_credentials() -> None:
    uri = f"{LOCAL}&credential_kind=anonymous&blob_storage_authority=.b&dfs_storage_authority=.d"
    assert uri_without_credentials(f"{uri}&client_secret=s&sig=s") == uri


FOREIGN = "abfs://account@evil.example/lake/t"
SIGNED = {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=s"}


@pytest.mark.parametrize("environment", [{}, SIGNED, {**SIGNED, "AZURE_STORAGE_ACCOUNT_NAME": "account"}])
@pytest.mark.parametrize(
    "uri",
    [
        FOREIGN,
        f"{FOREIGN}?credential_kind=environment",
        f"{FOREIGN}?client_id=i",
        "abfs://account@core.windows.net.evil.example/lake/t",
        "abfs://account@127.0.0.1.evil.example/lake/t",
        "abfs://lake@account.dfs.core.windows.net/t?blob_storage_authority=.evil.example",
        "abfs://lake@account.dfs.core.windows.net/t?dfs_storage_authority=evil.example:443",
    ],
)
def test_no_foreign_host_gets_what_it_could_use(uri: str, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"evil\.example' is not one of Azure"):
        open_account(uri, environment)


@pytest.mark.parametrize(
    ("uri", "environment"),
    [
        (FOREIGN, {"AZURE_STORAGE_ACCOUNT_KEY": KEY}),
        (FOREIGN, {**SIGNED, "PENSTOCK_AZURE_HOSTS": "other, Evil.example"}),
        (f"{FOREIGN}?sv=1&sig=s", {}),
        (f"{FOREIGN}?tenant_id=t&client_id=i&client_secret=s", {}),
        (f"{FOREIGN}?credential_kind=anonymous", SIGNED),
        (PLAIN, {}),
        ("abfs://account@127.0.0.1:10000/lake/t", SIGNED),
        ("abfs://lake@account.dfs.core.windows.net/t?blob_storage_authority=.blob.core.usgovcloudapi.net", SIGNED),
    ],
)
def test_keys_credentials_of_the_uri_and_known_hosts_are_used(uri: str, environment: dict[str, str]) -> None:
    assert open_account(uri, environment)[1]
