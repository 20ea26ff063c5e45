"""The site that `make docs` builds: without a warning, every link followed, and no request that leaves it."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent
# What a browser fetches by itself, by tag; a link is only followed by a person.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Identifiers, links and fetched addresses of a page."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links, self.fetched = {""}, [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, pairs):
        found = dict(pairs)
        self.names.add(found.get("id"))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in FETCHED and found.get(FETCHED[tag]) and found.get("rel") != "canonical":
            self.fetched.append(found[FETCHED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built as the Makefile does, elsewhere."""
    recipe = re.search(
        r"^\t@NO_MKDOCS_2_WARNING=1 \$\(BIN\)/(mkdocs .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", *recipe[1].split(), "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={"NO_MKDOCS_2_WARNING": "1", "PATH": ""}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html") if "files" not in path.relative_to(site).parts}


def test_every_link_of_the_site_leads_somewhere(site, pages):
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            if target in pages:
                assert unquote(parts.fragment) in pages[target].names, f"{path.relative_to(site)}: {link}"
            followed += 1
    assert followed > 1000


def test_no_request_leaves_the_site(site, pages):
    for path, page in pages.items():
        outside = [address for address in page.fetched if urlsplit(address).netloc]
        assert outside == [], path.relative_to(site)
        assert 'class="mermaid"' not in path.read_text()  # for which the theme would fetch a script
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert styles
    assert not any(re.search(r"url\(['\"]?(?:https?:)?//", style) for style in styles)


def test_the_site_has_what_it_is_for(site):
    index = (site / "index.html").read_text()
    assert "Two commands on a fresh machine" in index
    reference = (site / "api.html").read_text()
    assert 'id="hush.Task"' in reference
    assert 'id="hush.Clip.encode"' in reference  # a member with its docstring
    assert "FL-TOP-DP" in (site / "papers" / "constrained.html").read_text()
    assert (site / "search" / "search_index.js").stat().st_size > 100_000  # without a server
