"""The page and `hush serve` in a real browser, headless: clicked through, in both colours, at a phone's width."""

import base64
import json
import re
import threading
from dataclasses import replace

import pytest
from browser import Browser, found
from privacy.known import SUMMED

from hush.experiment.report import card, page
from hush.experiment.serve import server
from hush.privacy.card import card as stated
from hush.privacy.facts import Finding

pytestmark = pytest.mark.skipif(found() is None, reason="no chromium on this machine: apt-get install chromium")
PLOT = "figure[data-chart=measure] .plot"
LENGTH = {"mean": 0.9, "bound": 0.5, "noise": 0.8}


@pytest.fixture(scope="module")
def browser():
    started = Browser(found())
    yield started
    started.close()


@pytest.fixture
def tab(browser):
    browser.scheme("light")
    browser.size(1280)
    return browser


@pytest.fixture
def run(make, described, line):
    return described(make(rows=[line(n, length=LENGTH) for n in range(1, 61)], total=60))


def ticks(tab, plot=PLOT):
    return tab.js(
        f"[...document.querySelectorAll('{plot} > svg > text[text-anchor=middle]')].map(one => one.textContent)"
    )


def tip(tab, plot=PLOT):
    return tab.js(f"(one => one.hidden ? null : one.innerText)(document.querySelector('{plot} .tip'))")


def overflow(tab):
    return tab.js("document.documentElement.scrollWidth - innerWidth")


def test_a_page_is_clicked_through_and_asks_for_nothing(tab, run):
    address = page.write(run).as_uri()
    tab.open(address)
    assert ticks(tab)[-1] == "round"
    for axis, name in (("up", "kB up per client"), ("epsilon model", "epsilon, model"), ("round", "round")):
        tab.click(f"{PLOT.split()[0]} button[data-axis='{axis}']")
        assert ticks(tab)[-1] == name
        assert tab.js(f"document.querySelector(\"button[data-axis='{axis}']\").ariaPressed") == "true"
    # The value under the pointer: the middle of the axis, which goes from round 0 to 60.
    left, right, foot = tab.js(
        f"(r => [r.left, r.right, r.top])(document.querySelector('{PLOT} .grid').getBoundingClientRect())"
    )
    y = foot - 120
    tab.mouse("mouseMoved", (left + right) / 2, y)
    assert tip(tab).split("\n")[0] == "round 30"
    assert "test set 0.530" in tip(tab)
    # Zoom by dragging from a quarter to a half, and back.
    tab.mouse("mouseMoved", left + (right - left) / 4, y)
    tab.mouse("mousePressed", left + (right - left) / 4, y, pressed=True)
    for part in (0.3, 0.4, 0.5):
        tab.mouse("mouseMoved", left + (right - left) * part, y, pressed=True)
    tab.mouse("mouseReleased", left + (right - left) / 2, y)
    numbers = [int(text) for text in ticks(tab)[:-1]]
    assert numbers[0] >= 15
    assert numbers[-1] <= 30
    tab.click(".reset")
    assert ticks(tab)[0] == "0"
    assert tab.js("document.querySelector('.reset')") is None
    # By keys alone.
    tab.js(f"document.querySelector('{PLOT}').focus()")
    tab.key("ArrowRight")
    tab.key("ArrowRight")
    assert tip(tab).startswith("round 2\n")
    tab.key("Escape")
    assert tip(tab) is None
    for name in ("bytes", "epsilon", "norms"):
        x, y = tab.middle(f"figure[data-chart={name}] .plot")
        tab.mouse("mouseMoved", x, y)
        assert tip(tab, f"figure[data-chart={name}] .plot").startswith("round ")
    assert not tab.js("document.getElementById('card').open")
    tab.click("#card summary")
    assert tab.js("document.getElementById('card').open")
    assert "honest & curious" in tab.js("document.getElementById('card').innerText")
    assert tab.requests == [address]
    assert tab.errors == []


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_no_width_needs_to_scroll_sideways(tab, run, width):
    tab.size(width, phone=width < 500)
    tab.open(page.write(run).as_uri())
    tab.js("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert overflow(tab) <= 0
    drawn = tab.js(
        "[...document.querySelectorAll('.plot')].map(one => one.getBoundingClientRect().right <= innerWidth)"
    )
    assert drawn == [True] * 4


def test_dark_is_dark_and_light_is_light(tab, run):
    def shade(of, what):
        text = tab.js(f"getComputedStyle(document.querySelector('{of}')).{what}")
        return sum(int(number) for number in text.strip("rgba()").split(",")[:3]) / 765

    tab.open(page.write(run).as_uri())
    assert shade("body", "backgroundColor") > 0.9 > 0.2 > shade("body", "color")
    tab.scheme("dark")
    assert shade("body", "backgroundColor") < 0.15 < 0.8 < shade("body", "color")
    assert shade("h1", "color") > 0.8
    assert shade(f"{PLOT} text", "fill") > 0.5


def test_without_scripts_the_drawings_are_there(tab, run):
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        address = page.write(run).as_uri()
        tab.open(address)
        root = tab.call("DOM.getDocument")["root"]["nodeId"]
        names = tab.call("DOM.querySelectorAll", nodeId=root, selector="svg[role=img]")["nodeIds"]
        assert len(names) == 6
        for node in names:
            box = tab.call("DOM.getBoxModel", nodeId=node)["model"]
            assert box["width"] > 100
            assert box["height"] > 100
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_print_shows_the_whole_card(tab, run, tmp_path):
    tab.open(page.write(run).as_uri())
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    tab.js("dispatchEvent(new Event('beforeprint'))")
    assert tab.js("document.getElementById('card').open")
    tab.js("dispatchEvent(new Event('afterprint'))")
    assert not tab.js("document.getElementById('card').open")


def test_names_from_files_are_text(tab, make, described, line):
    """Where a script of a stranger's run would run, if one could."""
    bad = "<img src=x onerror='document.title=1'><script>document.title=1</script>"
    path = make(scheme=bad, data=bad, rows=[line(n, reason=bad, aborted=True) for n in (1, 2)])
    described(path, scheme=bad, warnings=[bad], assumptions=[bad], noise_source="simulation seed" + bad)
    address = page.write(path).as_uri()
    tab.open(address)
    assert tab.js("document.title") == "trial – hush"
    assert tab.js("document.querySelectorAll('img').length") == 0
    assert tab.requests == [address]


def test_runs_are_listed_compared_and_followed(tab, make, described, line, tmp_path):
    one, two = make("one", rows=20, total=40), make("two", rows=30, total=30)
    described(one), described(two)
    serving = server([tmp_path], 0)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        tab.open(serving.address)
        assert "20 of 40" in tab.js("document.querySelector('main').innerText")
        tab.click("input[value=one]")
        tab.click("input[value=two]")
        tab.click("button.go")
        tab.until("document.title.startsWith('Comparison')")
        plot = "figure[data-chart=measure-0] .plot"
        assert tab.js(f"document.querySelectorAll('{plot} .line').length") == 2
        tab.click("button[data-axis='epsilon model']")
        assert ticks(tab, plot)[-1] == "epsilon, model"
        x, y = tab.middle(plot)
        tab.mouse("mouseMoved", x, y)
        assert tip(tab, plot).startswith("epsilon, model: ")
        assert ", round " in tip(tab, plot).split("\n")[0]
        tab.mouse("mouseMoved", 2, 2)
        assert overflow(tab) <= 0
        # A run that goes on is shown as it does, and what was chosen stays.
        tab.open(serving.address + "run/one")
        tab.click("button[data-axis=up]")
        with (one / "rounds.jsonl").open("a") as file:
            file.writelines(json.dumps(line(n)) + "\n" for n in range(21, 41))
        tab.mouse("mouseMoved", 2, 2)
        tab.until("document.querySelector('h1').innerText.includes('40 of 40')")
        assert ticks(tab)[-1] == "kB up per client"
        assert not tab.js("document.body.hasAttribute('data-live')")
        assert {address.split("/")[2] for address in tab.requests} == {f"127.0.0.1:{serving.server_port}"}
        assert tab.errors == []
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()


def test_a_card_is_printed_on_one_page_of_a4(tab, tmp_path):
    """One that has much to say: four adversaries, warnings, attacks and a signature."""
    audit = (
        Finding("mechanism", "model", 3.1, 0.9, 1e-5, 0.95, None, "The noise of a round was drawn 2,000 times."),
        Finding("canary clients", "server", 21.5, 23.0, 1e-5, 0.95, "scores are Gaussian", "A client was put in."),
    )
    both = {**SUMMED.epsilon, "colluding": 24.0, "colluding_median": 9.0}
    key = {"at": "2026-01-01 10:00 UTC", "key": "ab" * 32, "federation": "cd" * 32, "simulation": None}
    files = [{"file": f"{name}.toml", "what": "settings of the run", "sha256": "ef" * 32} for name in "abc"]
    facts = replace(SUMMED, epsilon=both, audit=audit, population=40)
    found = {**stated(facts), "versions": {"hush": "0.1.0"}, "files": files, "signed": key}
    place = tmp_path / "card.html"
    place.write_text(card.document(found))
    tab.open(place.as_uri())
    assert tab.requests == [place.as_uri()]
    assert tab.errors == []
    assert tab.js("document.scripts.length") == 0
    printed = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert re.findall(rb"/Type\s*/Page\b", printed) == [b"/Type /Page"]
    assert re.search(rb"/MediaBox\s*\[0 0 59[45][^ ]* 84[12]", printed)  # 210 by 297 mm in points
    tab.size(390, 844, phone=True)
    assert overflow(tab) <= 0
