"""Tokens: recognised by their hash, read again when the file changes, never in a text."""

from __future__ import annotations

import logging
import os
import pathlib
import threading

import pytest

from penstock.enumerator.server.auth.tokens import TokenFile, TokenRefresh, TokenStatus, new_token, parse_tokens
from penstock.proto.errors import ConfigurationError, StorageError, Unauthenticated


class Clock:
    """A manual clock in seconds since 1970."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def written(path: pathlib.Path, *lines: str) -> str:
    """Writes the lines with a file time that counts as changed."""
    path.write_text("\n".join(lines) + "\n")
    stamp = path.stat().st_mtime_ns + len(lines) + 1
    os.utime(path, ns=(stamp, stamp))
    return str(path)


def test_token_is_recognised_by_its_line(tmp_path: pathlib.Path) -> None:
    (first, first_line), (second, second_line) = new_token("spark"), new_token("ops")
    tokens = TokenFile(written(tmp_path / "tokens", "# who", "", first_line, second_line), Clock())
    assert (tokens.name_of(first), tokens.name_of(second)) == ("spark", "ops")
    assert first != second and len(first) > 40
    assert first not in first_line
    for wrong in ("", "spark", first[:-1], first + "x", first_line, "x" * 10_000, "\ud800"):
        with pytest.raises(Unauthenticated, match="not known"):
            tokens.name_of(wrong)


def test_token_expires_at_its_time_and_a_second_one_of_its_name_stays_valid(tmp_path: pathlib.Path) -> None:
    clock = Clock(1_798_675_199.0)  # the last second of 2026-12-30 UTC
    old, old_line = new_token("spark", "2026-12-31")
    new, new_line = new_token("spark")
    tokens = TokenFile(written(tmp_path / "tokens", old_line, new_line), clock)
    assert tokens.name_of(old) == "spark"
    clock.now_s += 1
    with pytest.raises(Unauthenticated, match=r"^the token of spark has expired"):
        tokens.name_of(old)
    assert tokens.name_of(new) == "spark"


def test_file_is_read_again_when_it_changes(tmp_path: pathlib.Path) -> None:
    (first, first_line), (second, second_line) = new_token("a"), new_token("b")
    path = tmp_path / "tokens"
    tokens = TokenFile(written(path, first_line), Clock())
    written(path, second_line, second_line)
    assert tokens.name_of(second) == "b"
    with pytest.raises(Unauthenticated):
        tokens.name_of(first)


@pytest.mark.parametrize("damage", ["half a line", "a:sha256:00", None])
def test_partially_written_file_revokes_no_token(
    tmp_path: pathlib.Path, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    token, line = new_token("a")
    path = tmp_path / "tokens"
    tokens = TokenFile(written(path, line), Clock())
    if damage is None:
        path.unlink()
    else:
        written(path, damage, damage)
    with caplog.at_level(logging.ERROR):
        assert [tokens.name_of(token) for _ in range(3)] == ["a"] * 3
    assert len(caplog.records) == 1
    assert "1 tokens stay valid until the grace of 60 s is over" in caplog.text


def refused(tokens: TokenFile, token: str) -> bool:
    """Whether the token is refused."""
    try:
        tokens.name_of(token)
    except Unauthenticated:
        return True
    return False


def test_removal_of_the_last_token_applies_at_once(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    token, line = new_token("spark")
    path = tmp_path / "tokens"
    tokens = TokenFile(written(path, line), Clock())
    assert tokens.name_of(token) == "spark"
    written(path, "# all revoked", "")
    assert refused(tokens, token)
    assert tokens.refresh() == TokenStatus(0)
    assert "holds no token: nobody is authenticated by one" in caplog.text


def test_malformed_line_does_not_delay_other_removals_and_additions(tmp_path: pathlib.Path) -> None:
    (removed, gone_line), (stays, stays_line), (new, new_line) = new_token("gone"), new_token("stays"), new_token("new")
    typo, typo_line = new_token("typo")
    path = tmp_path / "tokens"
    elapsed = Clock()
    tokens = TokenFile(written(path, gone_line, stays_line, typo_line), Clock(), grace_s=5, elapsed_s=elapsed)
    written(path, stays_line, typo_line[:-1], new_line, "")
    assert refused(tokens, removed)
    assert [tokens.name_of(each) for each in (stays, new, typo)] == ["stays", "new", "typo"]
    elapsed.now_s = 4.9
    assert tokens.name_of(typo) == "typo"
    elapsed.now_s = 5
    for each in (stays, new, typo):
        with pytest.raises(StorageError, match="cannot check tokens: its file of tokens has been unusable for more"):
            tokens.name_of(each)
    written(path, stays_line, "# mended", "", "")
    assert tokens.name_of(stays) == "stays" and refused(tokens, typo) and refused(tokens, removed)


def test_unreadable_file_refuses_every_token_after_the_grace_period(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, line = new_token("spark")
    path, elapsed, statuses = tmp_path / "tokens", Clock(100.0), list[TokenStatus]()
    tokens = TokenFile(written(path, line), Clock(), grace_s=60, elapsed_s=elapsed)
    tokens.on_status(statuses.append)
    path.unlink()
    assert tokens.name_of(token) == "spark"
    elapsed.now_s = 159.9
    assert tokens.name_of(token) == "spark"
    elapsed.now_s = 160.0
    with pytest.raises(StorageError):
        tokens.name_of(token)
    assert tokens.refresh().closed
    written(path, line)
    assert tokens.name_of(token) == "spark"
    path.unlink()
    elapsed.now_s += 59.9  # a new grace period
    assert tokens.name_of(token) == "spark"
    assert [(one.accepted, bool(one.problem), one.closed) for one in statuses] == [
        (1, False, False),
        (1, True, False),
        (0, True, True),
        (1, False, False),
        (1, True, False),
    ]
    levels = [(record.levelname, "cannot be read" in record.getMessage()) for record in caplog.records]
    assert [each for each in levels if each[0] != "INFO"] == [("ERROR", True), ("CRITICAL", True), ("ERROR", True)]


def test_status_is_updated_without_a_call(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.enumerator.server.auth.tokens.REFRESH_S", 0.01)
    path, closed = tmp_path / "tokens", threading.Event()
    tokens = TokenFile(written(path, new_token("a")[1]), Clock(), grace_s=0)
    tokens.on_status(lambda status: closed.set() if status.closed else None)
    refresh = TokenRefresh(tokens)
    path.unlink()
    assert closed.wait(30)
    refresh.stop()
    refresh.stop()


def test_refresh_that_fails_does_not_end_the_next_ones(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.enumerator.server.auth.tokens.REFRESH_S", 0.01)
    path, failed, again = tmp_path / "tokens", threading.Event(), threading.Event()
    tokens = TokenFile(written(path, new_token("a")[1]), Clock())

    def status_of(status: TokenStatus) -> None:
        if status.accepted == 2:
            failed.set()
            raise MemoryError
        if status.accepted == 3:
            again.set()

    tokens.on_status(status_of)
    refresh = TokenRefresh(tokens)
    written(path, *(new_token(name)[1] for name in "ab"))
    assert failed.wait(30)
    written(path, *(new_token(name)[1] for name in "abc"))
    assert again.wait(30)
    refresh.stop()


@pytest.mark.parametrize(
    "line",
    [
        "pst_thetokenitself",
        "spark:md5:0000",
        "spark:sha256:abc",
        f"sp ark:sha256:{'0' * 64}",
        f":sha256:{'0' * 64}",
        f"spark:sha256:{'0' * 64}:soon",
    ],
)
def test_malformed_line_is_an_error_with_its_number_without_its_text(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^tokens: tokens.txt, line 2: ") as caught:
        parse_tokens(f"\n{line}\n", "tokens.txt")
    assert "pst_" not in str(caught.value)


def test_file_without_tokens_or_no_file_fails_at_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no token"):
        TokenFile(written(tmp_path / "tokens", "# none"), Clock())
    with pytest.raises(ConfigurationError, match=r"^tokens: file .*none' cannot be read: No such file"):
        TokenFile(str(tmp_path / "none"), Clock())


@pytest.mark.parametrize("name", ["", "a:b", "a b", "x" * 101])
def test_token_name_that_the_file_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name of a token"):
        new_token(name)
