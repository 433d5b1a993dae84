"""The folder of source files, and which paths are inside it."""

from __future__ import annotations

import pathlib

import pytest

from penstock.proto.errors import ConfigurationError, CorruptFile, UnsupportedFeature
from penstock.table.bootstrap.sources import (
    TRUSTED_SOURCES,
    located_sources,
    open_sources,
    path_in_sources,
    trusted_sources,
)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("file:/data/src/p=a/f.parquet", "/data/src"),
        ("file:///data/src/p=a/f.parquet", "file:/data/src/"),
        ("/data/src/p=a/f.parquet", "file:///data/src"),
        ("hdfs://nn:8020/data/src/p=a/f.parquet", "hdfs://nn:8020/data/src"),
        ("hdfs://nn:8020/data/src/p=a/f.parquet", "/data/src"),
        ("s3a://bucket/data/p=a/f.parquet", "s3://bucket/data"),
    ],
)
def test_paths_are_relative_to_the_folder(uri: str, root: str) -> None:
    assert path_in_sources(uri, root, "the index") == "p=a/f.parquet"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/data/src2/f.parquet", "/data/src"),
        ("/data/src", "/data/src"),
        ("/data/src/", "/data/src"),
        ("/etc/passwd", "/data/src"),
        ("/data/src/../other/f.parquet", "/data/src"),
        ("/data/src/./f.parquet", "/data/src"),
        ("/data/src//f.parquet", "/data/src"),
        ("/data/src/\0", "/data/src"),
        ("f.parquet", "/data/src"),
        ("", "/data/src"),
        ("s3://other/data/f.parquet", "s3://bucket/data"),
        ("hdfs://nn:8020/data/f.parquet", "s3://bucket/data"),
        ("file:/data/" + "x" * 5000, "/data"),
    ],
)
def test_paths_outside_of_the_folder_are_refused(uri: str, root: str) -> None:
    with pytest.raises(CorruptFile, match="refused"):
        path_in_sources(uri, root, "the index")


@pytest.mark.parametrize(
    ("table", "stated", "opened"),
    [
        ("/lake/t", "/data/src", "/data/src"),
        ("/lake/t", "file:/data/a%20b", "/data/a%20b"),
        ("file:///lake/t", "file:///data/src", "/data/src"),
        ("hdfs://nn:8020/t", "/src", "hdfs://nn:8020/src"),
        ("s3://key:secret@bucket/t?region=eu", "s3a://bucket/src", "s3://key:secret@bucket/src?region=eu"),
        ("s3a://bucket/t?region=eu", "s3://other/src", "s3://other/src?region=eu"),
        ("s3://key:secret@bucket/t?region=eu", "s3://other/src", "s3://other/src?region=eu"),
        ("abfs://lake@acc.net/t?client_id=i", "abfss://raw@acc.net/src", "abfs://raw@acc.net/src?client_id=i"),
        ("abfs://lake:key@acc.net/t", "abfs://raw@acc.net/src", "abfs://raw:key@acc.net/src"),
        ("abfs://lake:key@acc.net/t", "abfs://lake@acc.net/src", "abfs://lake:key@acc.net/src"),
    ],
)
def test_the_store_of_the_table_is_that_of_its_sources(table: str, stated: str, opened: str) -> None:
    assert located_sources(table, stated) == opened


@pytest.mark.parametrize(
    "stated",
    [
        "s3://bucket/src?endpoint_override=evil.example&scheme=http",
        "s3://key:secret@bucket/src",
        "abfs://raw:key@acc.net/src",
        "s3://bucket/src#x",
    ],
)
def test_the_property_chooses_no_endpoint_and_no_credentials(stated: str) -> None:
    with pytest.raises(CorruptFile, match="credentials or a query"):
        located_sources("s3://AK:SK@bucket/t?region=eu", stated)


@pytest.mark.parametrize(
    ("table", "stated"),
    [
        ("/lake/t", "hdfs://nn:8020/src"),
        ("/lake/t", "s3://bucket/src"),
        ("s3://key:secret@bucket/t?region=eu", "gs://bucket/src"),
        ("hdfs://nn:8020/t", "hdfs://evil:8020/src"),
        ("abfss://lake@acc.net/t?client_secret=S", "abfss://x@evil.example/src"),
    ],
)
def test_credentials_stay_with_the_kind_of_store_and_the_host(table: str, stated: str) -> None:
    with pytest.raises(UnsupportedFeature, match="another store than the table"):
        located_sources(table, stated)


def test_containers_of_azure_are_stores() -> None:
    assert path_in_sources("abfs://raw@acc.net/src/f.parquet", "abfss://raw@acc.net/src", "the index") == "f.parquet"
    with pytest.raises(CorruptFile, match="refused"):
        path_in_sources("abfs://other@acc.net/src/f.parquet", "abfs://raw@acc.net/src", "the index")


def test_a_remote_table_names_no_local_files() -> None:
    with pytest.raises(CorruptFile, match="machine that reads it"):
        open_sources("s3://bucket/t", "file:///etc")
    with pytest.raises(CorruptFile, match="relative"):
        open_sources("/lake/t", "src")
    with pytest.raises(ConfigurationError):
        open_sources("/lake/t", "ftp://host/src")


TRUSTED = ("hdfs://nn:8020/lake", "s3://AK:SK@raw/lake/old?region=eu", "/data/src", "abfss://raw:key@acc.net/lake")


@pytest.mark.parametrize(
    ("table", "stated", "opened"),
    [
        ("/lake/t", "hdfs://nn:8020/lake", "hdfs://nn:8020/lake"),
        ("s3://bucket/t?region=us", "hdfs://nn:8020/lake/src/", "hdfs://nn:8020/lake/src/"),
        ("hdfs://other:8020/t", "hdfs://nn:8020/lake/src", "hdfs://nn:8020/lake/src"),
        ("/lake/t", "s3a://raw/lake/old/src", "s3://AK:SK@raw/lake/old/src?region=eu"),
        ("s3://bucket/t?region=us", "s3://raw/lake/old/src", "s3://AK:SK@raw/lake/old/src?region=eu"),
        ("s3://bucket/t", "file:///data/src/x", "/data/src/x"),
        ("s3://bucket/t", "abfs://raw@acc.net/lake/src", "abfss://raw:key@acc.net/lake/src"),
    ],
)
def test_folders_that_the_reader_trusts_are_on_any_store(table: str, stated: str, opened: str) -> None:
    """With the credentials and the query of the trusted folder; nothing of the table's goes there."""
    assert located_sources(table, stated, TRUSTED) == opened


@pytest.mark.parametrize(
    ("table", "stated"),
    [
        ("/lake/t", "hdfs://nn:8020/lake2"),
        ("/lake/t", "hdfs://nn:8020/"),
        ("/lake/t", "hdfs://nn:8020/lake/../secret"),
        ("/lake/t", "hdfs://nn:8020/lake/%2e%2e/secret"),
        ("/lake/t", "hdfs://nn:8020/lake/.%2E/secret"),
        ("/lake/t", "s3://raw/lake/old/..%2F..%2Fsecret"),
        ("/lake/t", "hdfs://nn:9000/lake/src"),
        ("/lake/t", "s3://raw/lake/older"),
        ("/lake/t", "s3://other/lake/old"),
        ("gs://bucket/t", "abfs://other@acc.net/lake"),
        ("s3://bucket/t", "file:///data/src2"),
        ("s3://bucket/t", "file:///data/src/../../etc"),
    ],
)
def test_other_folders_are_refused_beside_trusted_ones(table: str, stated: str) -> None:
    with pytest.raises((UnsupportedFeature, CorruptFile), match=TRUSTED_SOURCES):
        located_sources(table, stated, TRUSTED)


def test_trusted_folder_lends_its_credentials_to_no_other_query() -> None:
    with pytest.raises(CorruptFile, match="credentials or a query"):
        located_sources("/lake/t", "s3://raw/lake/old/src?endpoint_override=evil.example", TRUSTED)


def test_a_path_without_a_scheme_is_on_the_store_of_the_table_whatever_is_trusted() -> None:
    assert located_sources("s3://bucket/t", "/data/src", TRUSTED) == "s3://bucket/data/src"
    assert located_sources("/lake/t", "/data/src", TRUSTED) == "/data/src"


def test_trusted_folders_come_from_the_environment() -> None:
    text = f" {TRUSTED[0]} ,{TRUSTED[1]}, "
    assert trusted_sources({TRUSTED_SOURCES: text}) == TRUSTED[:2] and trusted_sources({}) == ()
    for wrong in (
        "src", "/", "/.", "/data/../etc", "/data/%2e%2e/etc", "/data//x", "//data/src", "file://data/src", "/data/a?b",
        "s3://bucket", "s3://K:secret@bucket/", "s3://bucket/.", "s3://bucket/%2F", "hdfs://nn:8020", "ftp://host/x",
        "c:/data", "s3://AK:S,secret@raw/lake",
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="is no folder") as caught:
            trusted_sources({TRUSTED_SOURCES: wrong})
        assert "secret" not in str(caught.value)


def test_the_longest_trusted_folder_counts() -> None:
    trusted = ("s3://raw/lake?region=a", "s3://K:S@raw/lake/old")
    assert located_sources("/lake/t", "s3://raw/lake/old/src", trusted) == "s3://K:S@raw/lake/old/src"
    assert located_sources("/lake/t", "s3://raw/lake/new", trusted) == "s3://raw/lake/new?region=a"


def test_a_symbolic_link_in_a_trusted_folder_leads_nowhere_else(tmp_path: pathlib.Path) -> None:
    trusted, secret = tmp_path / "src", tmp_path / "secret"
    (trusted / "inside").mkdir(parents=True)
    secret.mkdir()
    (trusted / "link").symlink_to(secret)
    (trusted / "other").symlink_to(trusted / "inside")
    with pytest.raises(CorruptFile, match=TRUSTED_SOURCES):
        located_sources("s3://bucket/t", f"file://{trusted}/link", (str(trusted),))
    assert located_sources("s3://bucket/t", f"file://{trusted}/other", (str(trusted),)) == str(trusted / "inside")
