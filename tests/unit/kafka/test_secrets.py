"""References in settings: what they become, and that an error shows no secret."""

from __future__ import annotations

import pathlib

import pytest

from penstock.kafka.secrets import MAX_SECRET_BYTES, with_secrets
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaAccess

PASSWORD = "sasl.password"


def client(text: str, **environment: str) -> str:
    return dict(with_secrets(KafkaAccess(client=((PASSWORD, text),)), environment).client)[PASSWORD]


def test_plain_values_stay_as_they_are() -> None:
    for text in ("", "plain", "${", "$env:X", "${other:X}", "${env:}", "a}b{c"):
        assert client(text) == text


def test_variables_and_files_are_substituted(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "password"
    file.write_text("from file\n")
    assert client("${env:PW}", PW="${env:X}") == "${env:X}"
    assert client(f"${{file:{file}}}") == "from file"
    assert client(f"a${{env:PW}}b${{file:{file}}}c", PW="1") == "a1bfrom filec"


def test_registry_url_is_substituted_and_no_other_option() -> None:
    value = KafkaAccess(registry_url="http://u:${env:PW}@r", dead_letter="${env:PW}")
    result = with_secrets(value, {"PW": "p"})
    assert (result.registry_url, result.dead_letter) == ("http://u:p@r", "${env:PW}")


def test_environment_of_this_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s")
    assert dict(with_secrets(KafkaAccess(client=((PASSWORD, "${env:A_SECRET}"),))).client) == {PASSWORD: "s"}


def test_missing_variable_or_file_is_named_without_its_value(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"kafka\.sasl\.password: environment variable PW is not set"
    ) as caught:
        client("hidden${env:PW}", OTHER="hidden")
    assert "hidden" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.password: file .*none cannot be read here: No such"):
        client(f"hidden${{file:{tmp_path / 'none'}}}")


def test_file_is_small_text(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    with pytest.raises(ConfigurationError, match="has more than 65536 bytes"):
        client(f"${{file:{file}}}")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not text in UTF-8"):
        client(f"${{file:{file}}}")
