"""The page of a run: one HTML file that asks no network for anything, rewritten as the run goes on."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

from hush.data import files
from hush.experiment.report import assets, charts, configuration, results, runs, series, tiles
from hush.experiment.report.privacy import phases, privacy
from hush.experiment.report.runs import Run

REFRESH_SECONDS = 5


def write(path: Path) -> Path:
    """Write report.html into a run's directory, whole or not at all (a reader may have it open)."""
    run = runs.read(path)
    page = run.path / "report.html"
    files.write(page, html(run).encode())
    return page


def html(run: Run, served: bool = False) -> str:
    """The whole page as text: the run's files alone decide it. It renews itself while rounds are still to come."""
    going = len(run.rounds) < run.total
    drawn, charted, tables = "<p>No round has finished yet.</p>", dict[str, Any](), list[series.Table]()
    if run.rounds:
        figures, charted = charts.all_of(run)
        tables = [series.table(run)]
        drawn = (
            f'{tiles.tiles(run)}<section id="rounds"><h2>Over the rounds</h2>{figures}</section>'
            f"{results.groups(run)}{privacy(run)}{phases(run)}"
        )
    back = '<nav><a href="/">All runs</a></nav>' if served else ""
    body = (
        f"{back}{tiles.head(run, going)}{drawn}{results.weights(run)}{configuration.data(run)}"
        f"{configuration.again(run)}{configuration.settings(run)}"
    )
    return assets.document(
        run.name, body, series.encoded(tables, charted), REFRESH_SECONDS if going else None, served=served
    )


def shows(text: str, run: Run) -> bool:
    """Whether a page is that of the run, whose folder may have had another name when it was written."""
    named = re.search(r"<title>(.*?) – hush</title>", text)
    return named is not None and text == html(replace(run, name=unescape(named[1])))
