"""Hooks of mkdocs: texts outside docs/ become pages, and what a page links to in the tree comes into the site."""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
# Texts that stay where they are read beside their code, as pages of the site.
PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
    "benchmarks-results.md": "benchmarks/results/README.md",
    **{
        f"papers/{path.parent.name}.md": path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "experiments").glob("*/README.md"))
    },
}
_HOME = {source: page for page, source in PAGES.items()}
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")


def _place(source: str) -> str:
    """Where a file of the tree is in the site."""
    if source in _HOME:
        return _HOME[source]
    return source.removeprefix("docs/") if source.startswith("docs/") else f"files/{source}"


def _source(page: str) -> str:
    return PAGES.get(page, f"docs/{page}")


def _targets(source: str) -> set[str]:
    """The files of the tree that a text links to."""
    text = _FENCE.sub("", (ROOT / source).read_text())
    found = (link.split("#")[0] for _, link in _LINK.findall(text) if "://" not in link)
    named = (posixpath.normpath(posixpath.join(posixpath.dirname(source), link)) for link in found if link)
    return {name for name in named if (ROOT / name).is_file()}


def on_files(files, config):
    """The pages from elsewhere, and the files that pages link to."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    sources = [_source(file.src_uri) for file in files.documentation_pages()]
    for target in sorted({target for source in sources for target in _targets(source)}):
        if files.get_file_from_path(_place(target)) is None:
            files.append(File.generated(config, _place(target), abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as the site has them; a link to a folder is its name alone, since a site lists none."""
    here = _source(page.file.src_uri)

    def moved(match):
        label, link = match.groups()
        path, mark, anchor = link.partition("#")
        if "://" in link or not path:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        if (ROOT / target).is_dir():
            target = posixpath.join(target, "README.md")
            if target not in _HOME:
                return label.lstrip("!")[1:-1]
        found = os.path.relpath(_place(target), posixpath.dirname(page.file.src_uri) or ".")
        return f"{label}({found}{mark}{anchor})"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)
