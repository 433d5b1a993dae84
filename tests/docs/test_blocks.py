"""Runs the code blocks of the documentation: the blocks of a page in order, in one folder.

A block that is not run is marked: ```text, or `<!-- not run: reason -->` on the line above it; their number is limited.
In Python, `expression # → value` is checked; in `console` blocks, the output is compared (`…`: any text).
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.doc_following import Page
from tests.docs.doc_pages import RUN, TEXT_ONLY, Block, blocks, pages
from tests.docs.doc_world import World
from tests.loopback_ports import free_port

ILLUSTRATIONS = 9
"""The limit of blocks that could run but do not; more of them need a good reason."""


def test_every_block_is_run_or_has_a_reason() -> None:
    page_blocks = [block for page in pages() for block in blocks(page)]
    assert [block.place for block in page_blocks if block.language not in (*RUN, *TEXT_ONLY)] == []
    commands = re.compile(r"^(\$ |(sudo )?(penstock|pip|make|helm|docker) [a-z])", re.MULTILINE)
    assert [block.place for block in page_blocks if block.language in TEXT_ONLY and commands.search(block.text)] == []
    assert [block.place for block in page_blocks if block.language in TEXT_ONLY and block.why_not] == []
    not_run = [block.place for block in page_blocks if block.language in RUN and not block.runs]
    assert len(not_run) <= ILLUSTRATIONS, not_run


def followed_pages(*, with_ray: bool) -> Iterator[Any]:
    """Every page with a block that runs, with or without Ray, and a marker for those that need Spark or Ray."""
    for page in pages():
        page_blocks = [block for block in blocks(page) if block.runs]
        if page_blocks and with_ray is any(block.needs_ray for block in page_blocks):
            needs_spark = any(block.needs_spark for block in page_blocks)
            marks = [pytest.mark.spark, pytest.mark.timeout(900)] if needs_spark else []
            if with_ray:
                marks = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]
            yield pytest.param(page_blocks, id=page, marks=marks)


@pytest.mark.sampled(4, rest=9)
@pytest.mark.parametrize("page_blocks", list(followed_pages(with_ray=False)))
def test_blocks_of_a_page_run_in_order(
    page_blocks: list[Block],
    world: World,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    spark = request.getfixturevalue("spark") if any(block.needs_spark for block in page_blocks) else None
    serves_itself = any(
        re.search(r"^(\$ )?penstock (serve|flight) ", block.text, re.MULTILINE) for block in page_blocks
    )
    connect = request.getfixturevalue("connect_url") if any(block.needs_connect for block in page_blocks) else ""
    page = Page(tmp_path, world, f"127.0.0.1:{free_port()}" if serves_itself else world.server, spark, connect)
    if spark is not None:
        spark.conf.set(
            "spark.sql.shuffle.partitions", "1"
        )  # each partition of small state costs the same time per micro-batch
        spark.streams.resetTerminated()  # a stream that failed in another test is no failure of the page
    follow(page, page_blocks, world, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("page_blocks", list(followed_pages(with_ray=True)))
def test_blocks_of_a_page_with_ray_run_in_order(
    page_blocks: list[Block],
    world: World,
    ray_cluster: None,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Like every test with a cluster, they are in the sample of `make test`: a second cluster takes longer to start."""
    follow(Page(tmp_path, world, world.server, None), page_blocks, world, monkeypatch)


def follow(page: Page, page_blocks: list[Block], world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the blocks in the folder of the page, and ends what they started."""
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(page.folder)
    try:
        for block in page_blocks:
            page.follow(block)
    finally:
        page.close()
