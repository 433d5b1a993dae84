"""Every link and every named page of the documentation exists. README.md leads to every page."""

from __future__ import annotations

import pathlib

import pytest

from tests.docs.doc_pages import REPOSITORY, anchors, links, named_files, pages

LINKED_FROM = [*pages(), *sorted(path.name for path in REPOSITORY.glob("*.md") if path.name != "README.md")]


def target_of(page: str, link: str) -> tuple[pathlib.Path, str]:
    """The file and the anchor ("" if none) of a link on a page."""
    file, _, anchor = link.partition("#")
    return ((REPOSITORY / page).parent / file).resolve() if file else REPOSITORY / page, anchor


@pytest.mark.parametrize("page", LINKED_FROM)
def test_links_lead_somewhere(page: str) -> None:
    broken = []
    for link in links(page):
        file, anchor = target_of(page, link)
        if not file.is_relative_to(REPOSITORY) or not file.exists():
            broken.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(str(file.relative_to(REPOSITORY))):
            broken.append(f"{link}: no such heading")
    broken += [f"{name}: no such page" for name in sorted(named_files(page)) if not (REPOSITORY / name).exists()]
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, remaining = set(), ["README.md"]
    while remaining:
        page = remaining.pop()
        reached.add(page)
        inside = (target_of(page, link)[0] for link in links(page))
        linked = {str(file.relative_to(REPOSITORY)) for file in inside if file.suffix == ".md" and file.exists()}
        remaining += sorted(linked - reached - set(remaining))
    assert sorted(set(pages()) - reached) == []
