"""The documentation site: it builds without a warning, its navigation reaches every page, and its search works.

MkDocs in strict mode checks every link and anchor; a page outside the navigation is a warning too. The browser shows
that the site needs no other host.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import pathlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.doc_pages import pages
from tests.ops.places import REPOSITORY, missing

pytestmark = [pytest.mark.ops, pytest.mark.timeout(900)]
TOOL = REPOSITORY / "tools" / "make_site.py"
PYTHON = REPOSITORY / ".venv" / "bin" / "python"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    if subprocess.run([PYTHON, "-c", "import material"], capture_output=True).returncode:
        missing("mkdocs-material")
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run([PYTHON, TOOL, "--out", out], capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


@pytest.fixture(scope="module")
def address(site: pathlib.Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None or importlib.util.find_spec("playwright") is None:
        missing("chromium or playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


def test_site_has_every_page_and_a_search_index(site: pathlib.Path) -> None:
    assert [page for page in pages()[1:] if not (site / page_file(page)).exists()] == []
    assert (site / "index.html").exists()
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def page_file(page: str) -> str:
    """The file of a page in the site."""
    path = pathlib.Path(page)
    return str(path.parent / "index.html" if path.name == "README.md" else path.with_suffix(".html"))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_site_is_drawn_without_another_host_and_within_its_width(
    address: str, browser: Any, scheme: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requests: list[str] = []
    messages: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    for path in ("", "docs/concepts.html", "docs/reference/options.html"):
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    page.close()
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
    assert messages == []


def test_site_search_leads_to_the_page(address: str, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.click("input.md-search__input")
    page.keyboard.type("watermarkFallback")
    # A locator, not an element: each key redraws the list, and the first list may be gone before the click.
    page.locator(".md-search-result__item a").first.click(timeout=60_000)
    page.wait_for_url("**/docs/**", timeout=60_000)
    assert "watermarkFallback" in page.inner_text("article")
    page.close()


def test_broken_link_fails_the_build(tmp_path: pathlib.Path) -> None:
    """In a copy of the pages, so that those of the repository do not change."""
    if subprocess.run([PYTHON, "-c", "import material"], capture_output=True).returncode:
        missing("mkdocs-material")
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    for folder in ("docs", "bench", "tests/golden", "tools"):
        names = shutil.ignore_patterns("*.tar*", "*.zip", "*.parquet", "__pycache__")
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=names)
    with (tmp_path / "docs" / "quickstart.md").open("a") as page:
        page.write("\n[gone](nowhere.md) and [gone](concepts.md#nowhere)\n")
    built = subprocess.run([PYTHON, tmp_path / "tools" / "make_site.py"], capture_output=True, text=True, timeout=240)
    assert built.returncode == 1
    assert "nowhere.md" in built.stderr and "#nowhere" in built.stderr
