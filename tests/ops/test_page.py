"""The status page in a headless browser, and `penstock top` on the same server.

With PENSTOCK_SCREENSHOTS=FOLDER both are saved there as pictures, after a minute and a half of work.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ops.places import missing
from tests.ops.watched import EVIL, PLAIN, Watched, watched

pytestmark = pytest.mark.ops
PICTURES = os.environ.get("PENSTOCK_SCREENSHOTS", "")


@pytest.fixture(scope="module")
def server(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(golden, tmp_path_factory.mktemp("watched"), 90 if PICTURES else 13) as watched_server:
        yield watched_server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        missing("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as played:
        chromium = played.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, server: Watched) -> Iterator[Any]:
    """The rendered page. A request to another host or a console message fails the test."""
    page_ = browser.new_page(viewport={"width": 1280, "height": 1180})
    requests: list[str] = []
    messages: list[str] = []
    page_.on("request", lambda request: requests.append(request.url))
    page_.on("console", lambda message: messages.append(message.text))
    page_.on("pageerror", lambda error: messages.append(str(error)))
    page_.goto(server.page)
    page_.wait_for_selector("body[data-drawn=yes]", timeout=20_000)
    yield page_
    page_.close()
    expected = getattr(page_, "expected", "nothing is to be said")
    assert [text for text in messages if expected not in text] == []
    assert [url for url in requests if not url.startswith((server.page, "data:"))] == []


def choose(page: Any, table: str) -> None:
    """Selects the group of a table on the page."""
    value = page.evaluate("t => [...document.querySelector('#group').options].map(o => o.value)"
                          ".find(v => JSON.parse(v)[0] === t)", table)  # fmt: skip
    page.select_option("#group", value)


def test_page_drawings_show_the_servers_work(page: Any) -> None:
    choose(page, PLAIN)
    page.wait_for_selector("#gantt rect.bar.three", timeout=10_000)
    counts = page.evaluate(
        """() => Object.fromEntries(['cadence', 'splits', 'lag', 'clock', 'gantt'].map(id =>
            [id, document.querySelectorAll(`#${id} svg rect, #${id} svg polygon, #${id} svg polyline`).length]))"""
    )
    assert counts["cadence"] >= 2, counts
    assert counts["splits"] >= 2, counts
    assert counts["lag"] >= 1, counts
    assert counts["clock"] >= 3, counts
    assert counts["gantt"] >= 3, counts
    names = page.eval_on_selector_all("#gantt svg text > title", "each => each.map(one => one.textContent)")
    assert {"fast", "slow"} <= set(names)
    rows = page.eval_on_selector_all(
        "#groups tbody tr", "rows => rows.map(r => [...r.children].map(cell => cell.textContent))"
    )
    (plain,) = [row for row in rows if row[0] == PLAIN]
    assert plain[1] == "audit" and int(plain[7].replace(",", "")) > 0 and float(plain[8].replace(",", "")) > 0
    assert "up" in page.text_content("#state")
    if PICTURES:
        page.screenshot(path=str(pathlib.Path(PICTURES) / "page.png"), full_page=True)


def test_page_escapes_markup_in_names(page: Any) -> None:
    choose(page, EVIL)
    page.wait_for_selector("#gantt rect.bar", timeout=10_000)
    assert page.title() == "Penstock"
    assert page.locator("img").count() == 0
    assert page.locator("#groups tbody td", has_text=EVIL).count() == 1
    assert EVIL in page.text_content("#group")


def test_page_follows_the_server_and_reports_its_loss(page: Any) -> None:
    before = page.text_content("#state")
    page.wait_for_function(
        "before => document.querySelector('#state').textContent !== before", arg=before, timeout=30_000
    )
    page.expected = "503"
    page.route("**/status.json", lambda route: route.fulfill(status=503, body=""))
    page.wait_for_function(
        "() => document.querySelector('#state').textContent.includes('did not answer')", timeout=30_000
    )
    assert page.locator("#gantt svg").count() == 1


def test_page_blocks_foreign_scripts(page: Any) -> None:
    """The browser refuses what the policy forbids: an inline script, a script of another host."""
    ran = page.evaluate(
        """() => new Promise(done => {
            document.addEventListener('securitypolicyviolation', event => done(event.violatedDirective));
            const script = document.createElement('script');
            script.textContent = "document.title = 'hit'";
            document.body.append(script);
            setTimeout(() => done('nothing was refused'), 3000);
        })"""
    )
    page.expected = "violates the following Content Security Policy directive"
    assert ran.startswith("script-src")
    assert page.title() == "Penstock"


def test_top_shows_the_data_of_the_page(server: Watched) -> None:
    def top(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", "top", "--server", server.address, *arguments]
        environment = {**os.environ, "COLUMNS": "170", "NO_COLOR": "1"}
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)

    groups = {one["table"]: one for one in json.loads(top("--format", "json").stdout)["groups"]}
    plain = groups[PLAIN]
    assert (plain["group"], plain["state"], plain["error_code"]) == ("audit", "running", None)
    assert plain["rows"] > 0 and plain["rows_per_second"] > 0 and plain["fenced"] >= 1 and plain["lag"] is not None
    frame = top("--once").stdout
    assert EVIL in frame and "audit" in frame
    if PICTURES:
        draw_top(server.address)


def draw_top(address: str) -> None:
    """The frame as a picture."""
    from rich.console import Console

    from penstock.engine.cli.commands.top import frame
    from penstock.proto.client.client import EnumeratorClient

    status = EnumeratorClient(address).describe_server(PLAIN)
    with pathlib.Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=140, file=nowhere, force_terminal=True)
        console.print(frame(status, "127.0.0.1:7070", console.width))
        picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="penstock top"), flags=re.DOTALL)
        (pathlib.Path(PICTURES) / "top.svg").write_text(picture)  # without fonts of another host
