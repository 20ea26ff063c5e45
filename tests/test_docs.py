"""The texts are run: their Python, their commands, and the numbers that they show."""

import csv
import json
import math
import os
import re
import runpy
import shlex
import shutil
import statistics
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from network.parties import free_port
from test_rooms import ROOMS

import hush as public
from hush.catalogue.entries import ENTRIES
from hush.cli import app, main
from hush.experiment.reproduce import figures, papers
from hush.experiment.reproduce.tables import filled

ROOT = Path(__file__).parent.parent
DOCS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
TEXTS = ["README.md", "CONTRIBUTING.md", *DOCS]
PARTIES = ("hush server ", "hush client ")  # these wait for each other
FOLDERS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/README.md"))
MEASURED = [
    *(f"experiments/{paper}/README.md" for paper in FOLDERS),
    "benchmarks/README.md",
    "benchmarks/results/README.md",
]
# A command with one of these is only checked to parse; tests/cli/test_cluster.py runs what is on a cluster,
# tests/experiment/report/test_serve.py what waits for a browser.
DOWNLOADS = (
    "--cluster",
    "hush serve",
    "fashion-mnist",
    "cifar",
    "experiments/",
    "diabetes130",
    "premier-like",
    "reproduce u-",
)
KINDS = {"python", "sh", "console", "toml", "text"}  # of a block: each is run, compared or checked below


def script(name):
    """A script of docs/, which is no package."""
    spec = spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs_tables, docs_draw = script("tables"), script("draw")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def blocks(text, *kinds):
    return [(kind, body) for kind, body in FENCE.findall((ROOT / text).read_text()) if kind in kinds]


def commands(body):
    """The hush commands of a shell block."""
    return [line for line in body.splitlines() if line.startswith("hush ")]


def dialogue(body):
    """(command, output) pairs of a console block."""
    turns = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [tuple(turn.split("\n", 1)) for turn in turns]


def hush(line, monkeypatch, capsys):
    """Run one command as the shell would; what it printed."""
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code == 0, f"{line}\n{err}"
    return out


def together(lines):
    """Run the parties of a federation at once, as processes: all end with status 0."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *shlex.split(two_rounds(line))],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in lines
    ]
    try:
        said = [party.communicate(timeout=120)[0] for party in started]
    finally:
        for party in started:
            party.kill()
    for party, line, lines_of_it in zip(started, lines, said, strict=True):
        assert party.returncode == 0, f"{line}\n{lines_of_it}"


def two_rounds(line):
    """The same command, cut short."""
    if line.startswith("hush server "):
        return f"{line} --set run.rounds=2"
    if not line.startswith("hush run ") or "--resume" in line:
        return line
    return f"{re.sub(r' --rounds [0-9]+', '', line)} --rounds 2"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A directory of one's own with the examples in it, and a terminal of 100 columns."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def shows(text):
    """Whether a text has Python or a command of hush; `make` is for CI."""
    return any(kind == "python" or commands(body) for kind, body in blocks(text, "python", "sh"))


def waits(text):
    """Whether a text starts the parties of a federation: `make test-network` runs it."""
    return any(line.startswith(PARTIES) for _, body in blocks(text, "sh") for line in commands(body))


def marked(text):
    return pytest.param(text, marks=pytest.mark.network) if waits(text) else text


@pytest.mark.parametrize("text", [marked(text) for text in TEXTS if shows(text)])
def test_what_a_text_shows_runs(text, desk, monkeypatch, capsys):
    names, ran, port = {"__name__": "__main__"}, 0, f"--host localhost --port {free_port()}"
    for kind, body in blocks(text, "python", "sh"):
        if kind == "python":
            exec(compile(body, text, "exec", dont_inherit=True), names)
            ran += 1
            continue
        together([line for line in commands(body) if line.startswith(PARTIES)])
        for line in commands(body):
            if not line.startswith(PARTIES) and not any(word in line for word in DOWNLOADS):
                line = line.replace("--host localhost", port)  # any other may be in use here
                hush(two_rounds(line), monkeypatch, capsys)  # which asserts exit status 0
                ran += 1
    assert ran, f"{text} shows code, and none of it was run"


@pytest.mark.parametrize("text", TEXTS)
def test_shown_output_is_what_comes_out(text, desk, monkeypatch, capsys):
    for _, body in blocks(text, "console"):
        for line, shown in dialogue(body):
            found = hush(line, monkeypatch, capsys)
            if line.startswith("hush run"):
                alike(found, shown)
            else:
                assert found.split() == shown.split(), line


def alike(found, shown):
    """The same words; numbers may differ as floating-point sums of other processors do."""
    found, shown = ([line.strip() for line in text.splitlines() if line.strip()] for text in (found, shown))
    assert [NUMBER.sub("#", line) for line in found] == [NUMBER.sub("#", line) for line in shown]
    for ours, theirs in zip(found, shown, strict=True):
        pairs = list(zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True))
        # Bytes and epsilons depend on no gradient: they are exact.
        for one, other in pairs[:1] if ours.startswith("accuracy") else pairs:
            assert float(one) == pytest.approx(float(other), abs=0.03 if ours.startswith("accuracy") else 1e-9)


def test_commands_that_are_not_run_parse(monkeypatch, capsys):
    texts = [*TEXTS, *MEASURED]  # of measurements every command is for hours, so none is run here
    lines = [(text, line) for text in texts for _, body in blocks(text, "sh", "text") for line in commands(body)]
    skipped = (*DOWNLOADS, "--install-completion")
    lines = [
        line
        for text, line in lines
        if text in MEASURED or line.startswith(PARTIES) or any(word in line for word in skipped)
    ]
    recipes = re.findall(r"^\t@?\$\(BIN\)/(hush .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert lines
    assert recipes
    for line in [*lines, *recipes]:
        assert all((ROOT / word).is_file() for word in shlex.split(line) if word.endswith(".toml"))
        hush(f"{line} --help", monkeypatch, capsys)  # an unknown option is refused before the help is shown


def test_bring_your_own_takes_at_most_15_lines():
    text = (ROOT / "README.md").read_text().split("## Bring your own")[1]
    sample = FENCE.search(text)
    assert sample is not None
    assert "hush.Task(" in sample[2]
    assert "hush.rounds(" in sample[2]
    assert len(sample[2].splitlines()) <= 15


def test_the_example_files_are_shown():
    shown = [body for _, body in blocks("docs/own.md", "python", "toml")]
    for name in ("own.py", "own.toml"):
        assert (ROOT / "examples" / name).read_text() in shown


def test_the_worked_example_is_shown_whole():
    assert (ROOT / "examples" / "fedprox.py").read_text() in [body for _, body in blocks("docs/schemes.md", "python")]


def layout():
    """The lines of the layout in docs/design.md."""
    found = FENCE.search((ROOT / "docs/design.md").read_text().split("## Layout")[1])
    assert found is not None
    return found[2].splitlines()


def test_the_layout_is_the_tree():
    named = [line.split()[0] for line in layout()]
    assert [name for name in named if not (ROOT / name).exists()] == []
    rooms = {f"hush/{path.name}/" for path in (ROOT / "hush").iterdir() if (path / "__init__.py").exists()}
    modules = {f"hush/{path.name}" for path in (ROOT / "hush").glob("*.py")}
    assert (rooms | modules) - set(named) == set()


def test_files_in_the_layout_lines_exist():
    for line in layout():
        room, *words = line.split()
        for word in words:
            file = word.strip(",;:()")
            if room.endswith("/") and file.endswith(".py"):
                assert (ROOT / room / file).is_file(), line


def test_the_diagrams_show_every_room():
    rooms = (ROOT / "docs/figures/rooms.svg").read_text()
    assert [name for name in ROOMS if not re.search(rf">{name}\b", rooms)] == []


def test_where_is_what():
    """The files that a newcomer is sent to."""
    table = (ROOT / "docs/design.md").read_text().split("## Where is what")[1].split("## A round")[0]
    rows = re.findall(r"^\| (?!looking|--)(.*) \|$", table, re.MULTILINE)
    named = [re.findall(r"`([a-z_/]+\.py)`", row) for row in rows]
    assert all(named)
    assert [file for files in named for file in files if not (ROOT / file).is_file()] == []
    for what in (
        "clipping",
        "noise is drawn",
        "bytes of a plan and an upload",
        "FL-TOP-DP",
        "server's view",
        "data set",
    ):
        assert any(what in row for row in rows), what


@pytest.mark.parametrize("text", TEXTS)
def test_files_that_a_text_names_exist(text):
    """Paths from the root, as `hush/core/rounds.py`; threats.md leaves out tests/secure and hush/secure."""
    names = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)\b(?!:function)", (ROOT / text).read_text())
    short = (ROOT / "tests/secure", ROOT / "hush/secure")
    assert [name for name in names if not any((place / name).is_file() for place in (ROOT, *short))] == []


@pytest.mark.parametrize("text", [*TEXTS, *MEASURED])
def test_the_words_are_the_fields(text):
    """docs/glossary.md has the terms."""
    said = " ".join((ROOT / text).read_text().split())
    old = r"whole numbers?|chances?|in league|mend(?:s|ed)?|house schemes?|pictures?|told|tells?|apart"
    assert re.findall(rf"\b(?:{old})\b", said, re.IGNORECASE) == []


def slug(heading):
    """The anchor of a heading, as GitHub and the site make it."""
    words = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(path):
    text = FENCE.sub("", path.read_text())
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("text", [*TEXTS, *MEASURED, "CHANGELOG.md"])
def test_links_lead_somewhere(text):
    """To a file of the tree and a heading in it; `tests/test_site.py` has the same of the site."""
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", (ROOT / text).read_text())):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / text).parent / path if path else ROOT / text
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert ". .venv/bin/activate" in text
    assert len(re.findall(r"!\[", text)) == 1


@pytest.mark.parametrize("text", [*TEXTS, *MEASURED])
def test_every_block_is_of_a_kind_that_is_held(text):
    marks = re.findall(r"^```(.*)$", (ROOT / text).read_text(), re.MULTILINE)
    assert set(marks[::2]) <= KINDS
    assert set(marks[1::2]) <= {""}
    for _, body in blocks(text, "toml"):
        tomllib.loads(body)


@pytest.mark.parametrize("text", [*TEXTS, *MEASURED])
def test_every_line_of_a_shell_block_is_known(text):
    """A command of hush is run or parsed above; any other must be one of these, and refer to what there is."""
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for _, body in blocks(text, "sh"):
        for line in body.replace("\\\n", " ").splitlines():
            command = line.partition(" #")[0].split()
            match command:
                case ["hush", *_] | [".", ".venv/bin/activate"] | []:
                    continue
                case ["make", *names]:
                    assert {name for name in names if "=" not in name} <= set(targets), line
                case ["pip", "install", "-c", "constraints.txt", "-e", extra]:
                    assert set(extra.strip("'.[]").split(",")) <= set(extras), line
                case ["python" | "sh" | ".venv/bin/python" | ".venv/bin/pytest", *words]:
                    script = next(word for word in words if word.endswith((".py", ".sh")))
                    assert (ROOT / script).is_file(), line
                case _:
                    pytest.fail(f"{text} shows a command that nobody tries: {line}")


def test_the_commands_page_has_every_command():
    """From the program itself, groups and all."""
    import typer

    text = (ROOT / "docs/commands.md").read_text()
    root = typer.main.get_command(app)
    for name, command in root.commands.items():
        assert f"`hush {name}" in text, name
        for inner in getattr(command, "commands", {}):
            row = next(line for line in text.splitlines() if f"`hush {name}" in line and inner in line)
            assert re.search(rf"\b{inner}\b", row)


def test_the_reference_has_every_public_name():
    named = re.findall(r"^::: hush\.(\w+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(public.__all__)


def test_measured_tables_and_drawings_are_current():
    """`make tables` changes nothing."""
    assert docs_tables.filled(docs_tables.TEXT.read_text()) == docs_tables.TEXT.read_text()
    drawn = {path.name for path in (ROOT / "docs/figures").iterdir()}
    assert drawn == {f"{name}.svg" for name in docs_draw.FIGURES}
    for name, figure in docs_draw.FIGURES.items():
        assert figure() == (ROOT / f"docs/figures/{name}.svg").read_text()
        ElementTree.fromstring(figure())


def test_the_dockerfile_does_what_the_texts_do(monkeypatch, capsys):
    """It cannot be built here: its commands are those of docs/guides/operator.md, which runs what it makes."""
    text, recipe = (ROOT / "docs/guides/operator.md").read_text(), (ROOT / "Dockerfile").read_text()
    said = next(
        line for _, body in blocks("docs/guides/operator.md", "sh") for line in body.splitlines() if "pip" in line
    )
    assert said.replace("-e ", "") in recipe.replace("--no-cache-dir ", "")
    assert re.findall(r'^ENTRYPOINT \["(\w+)"\]$', recipe, re.MULTILINE) == ["hush"]
    assert f"WORKDIR {re.search(r':(/[a-z]+)/kit', text)[1]}\n" in recipe
    used = re.findall(r"^docker run .* hush ((?:schemes|client|server).*)$", text, re.MULTILINE)
    assert len(used) == 3
    for line in used:
        hush(f"hush {line} --help", monkeypatch, capsys)


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (cited["version"], cited["license"]) == (known["version"], known["license"])
    assert {"cff-version", "message", "title", "authors"} <= set(cited)


def test_every_scheme_is_described():
    text = (ROOT / "docs/schemes.md").read_text()
    assert [name for name in ENTRIES if f"`{name}`" not in text] == []


def test_the_table_of_settings(monkeypatch, capsys):
    """`make tables` changes nothing."""
    assert hush("hush settings --markdown", monkeypatch, capsys) == (ROOT / "docs/settings.md").read_text()


def test_the_changelog_begins_with_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    head = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert head is not None
    assert head[1] == version


def test_tables_of_the_frontier():
    """The figures that the texts show are those of the results beside them."""
    folder = ROOT / "experiments" / "frontier"
    with (folder / "results.csv").open() as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    text = (folder / "README.md").read_text()
    for row in rows.values():
        assert "| " + " | ".join(row.values()) + " |" in text
    shown = {name: name for name in ("hush-trusted", "hush-once", "hush-tiny")}
    shown |= {"hush": "hush-secure", "fl-top-dp": "fl-top-dp-ours"}
    found = re.findall(
        r"^\| `([a-z-]*)`[^|]*\| ([0-9.]+) \| ([0-9.]+) \| ([0-9.]+) \|$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert {name for name, *_ in found} == set(shown)
    for name, mean, payload, protocol in found:
        row = rows[shown[name]]
        assert float(mean) == pytest.approx(float(row["mean"]), abs=0.0006)
        assert float(payload) == pytest.approx(float(row["payload_up_kB"]), rel=0.02)
        assert float(protocol) == pytest.approx(float(row["protocol_up_kB"]), rel=0.03)


def test_the_table_of_the_recommended_schemes():
    """Features, weights up and down, and rounds are the catalogue's."""
    text = (ROOT / "docs/schemes.md").read_text()
    for name in ("hush", "hush-tiny", "hush-once", "hush-trusted"):
        usual = ENTRIES[name].usual
        columns, blocks = usual["features"] + 1, usual.get("blocks", 1)
        (row,) = re.findall(rf"^\| `{name}` \| .*$", text, re.MULTILINE)
        part = f", one block of {blocks}" if blocks > 1 else ""
        assert f" on {usual['features']}" in row
        assert f"| {9 * math.ceil(columns / blocks):,} weights{part} | {9 * columns:,} weights |" in row
        assert f"{usual['rounds']} rounds" in row


def test_what_the_frontier_says_of_bytes():
    """The figures within its sentences are those of its results."""
    with (ROOT / "experiments/frontier/results.csv").open() as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    text = " ".join((ROOT / "experiments/frontier/README.md").read_text().split())

    def kB(run, kind, places=1):
        return f"{float(rows[run][f'{kind}_kB']):.{places}f}"

    one, two = "hush-secure", "hush-two-servers"
    points = float(rows["hush-tiny"]["mean"]) - float(rows["hush-tiny-0.1"]["mean"])
    for sentence in (
        f"sends {kB(one, 'protocol_up')} kB of keys, shares and signatures beside {kB(one, 'payload_up')} kB of",
        f"gets {kB(one, 'protocol_down', 0)} kB; with two servers (`{two}`) {kB(two, 'protocol_up')} kB up and"
        f" {kB(two, 'protocol_down')} kB down",
        f"`hush-tiny` has {math.floor(1e3 * points) / 10:.1f} points more",
        f"{kB('hush-tiny', 'payload_down', 2)} kB in place of {kB('hush-tiny-0.1', 'payload_down', 2)} for `hush-tiny`,"
        f" {kB('hush-once', 'payload_down')} in place of {kB('hush-once-0.1', 'payload_down')} for `hush-once`",
        f"hush has {float(rows['stays-hush']['mean']):.3f} with nothing",
    ):
        assert sentence in text, sentence
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"two servers in place of one make it {kB(two, 'protocol_up')} kB" in readme


def beside(ours, accuracy, payload, protocol=None):
    """Points more, times fewer bytes of payload and of all, rounded down: (6.5, 22.7, None)."""
    points = math.floor(1e3 * (float(ours["mean"]) - accuracy) + 1e-6) / 10
    small, more = float(ours["payload_up_kB"]), float(ours["protocol_up_kB"])
    factors = [payload / small] + ([] if protocol is None else [(payload + protocol) / (small + more)])
    told = [f"{factor:.1f}" if factor < 100 else f"{math.floor(factor)}" for factor in factors]
    return [f"{points:.1f}", *told, *["-"] * (2 - len(told))]


def test_the_headline_is_what_the_results_give():
    """More points for fewer bytes: each figure from the committed results, never from memory."""

    def rows(name, **wanted):
        with (ROOT / "experiments" / name).open() as file:
            return [row for row in csv.DictReader(file) if wanted.items() <= row.items()]

    def read(name, **wanted):
        (found,) = rows(name, **wanted)
        return found

    hush_, tiny, parts = (
        read("frontier/results.csv", run=name) for name in ("hush-secure", "hush-tiny", "fl-top-dp-ours")
    )
    paper = read("constrained/published.csv", table="u-table1", row="fl-top-dp@0.5%")
    short = read("constrained/results.csv", setting="fashion-mnist", row="fl-top-dp@0.5% in 12 bits")
    published = float(paper["accuracy"]), float(paper["up_kB"])
    integers = float(short["best"]), float(short["up_kB"])
    ours = float(parts["mean"]), float(parts["payload_up_kB"]), float(parts["protocol_up_kB"])
    text = " ".join((ROOT / "experiments/frontier/README.md").read_text().split())
    for other in (published, integers, ours):
        for scheme in (hush_, tiny):
            assert f"| {' | '.join(beside(scheme, *other))} |" in text
    own = rows("constrained/results.csv", setting="fashion-mnist", row="fl-top-dp@0.5%")
    assert f"our own runs of its settings {statistics.fmean(float(row['best']) for row in own):.3f}" in text
    for row in own:
        assert f"{math.ceil(100 * float(row['epsilon_model'])) / 100:.2f} as it holds" in text
    headline = " ".join((ROOT / "README.md").read_text().split())
    for scheme in (hush_, tiny):
        points, factor, _ = beside(scheme, *published)
        assert re.search(rf"{re.escape(points)} points more\b[^.]*\b{re.escape(factor)} times fewer", headline)
    points, payload, both = beside(hush_, *ours)
    assert f"{points} points more than `fl-top-dp`" in headline
    assert f"{payload} times fewer bytes, {both} times with the protocol's" in headline


def test_the_demo_compares_like_with_like():
    """The files that `make demo` runs differ in nothing that bytes or epsilon depend on but scheme and cohort."""
    recipe = (ROOT / "Makefile").read_text().split("\ndemo:")[1].split("\ntest:")[0]
    files = re.findall(r"^runs/demo/.*: (experiments/\S+\.toml) ", recipe, re.MULTILINE)
    tables = [tomllib.loads((ROOT / file).read_text()) for file in files]
    assert [table["scheme"]["name"] for table in tables] == ["hush", "hush-tiny", "fl-top-dp"]
    for keys in (("data", "name"), ("data", "clients"), ("secure", "mode")):
        assert len({table[keys[0]][keys[1]] for table in tables}) == 1, keys
    for key in ("epsilon", "delta"):
        assert len({table["scheme"][key] for table in tables}) == 1, key
    theirs = tables[2]
    assert theirs["scheme"]["bits"] == tables[0]["scheme"]["bits"]
    usual = ENTRIES["hush"].usual
    assert theirs["run"]["rounds"] == usual["rounds"]
    weights = math.floor(theirs["scheme"]["ratio"] * 1_663_370)  # of the paper's network
    sent = theirs["run"]["rounds"] * theirs["sampling"]["cohort"] / theirs["data"]["clients"] * weights * 12 / 8 / 1000
    with (ROOT / "experiments/frontier/results.csv").open() as file:
        (row,) = [row for row in csv.DictReader(file) if row["run"] == "hush-secure"]
    assert sent == pytest.approx(float(row["payload_up_kB"]), rel=0.03)


def test_table_of_the_recommended_benchmark():
    """It is that of the results beside it, to the last place."""
    results = json.loads((ROOT / "benchmarks/results/recommended.json").read_text())["results"]
    text = (ROOT / "benchmarks/README.md").read_text()
    names = ("features, order 1", "features, order 2", "60 rounds of hush", "the whole command")
    for name in (*names, "60 rounds of fl-top-dp, from 4"):
        assert f" | {results[name]['wall']:.1f} | {results[name]['CPU']:.1f} | " in text, name
    assert f"takes {results['fl-top-dp / hush']['CPU']:.0f} times the CPU time of `hush`" in text
    first, second = (1 / results["scattering"][f"order {order}"]["Kymatio / hush"] for order in (1, 2))
    assert f"takes {first:.2f} of Kymatio's CPU time at order 1, and {second:.2f} at order 2" in " ".join(text.split())


@pytest.mark.parametrize("paper", papers(ROOT / "experiments"), ids=lambda paper: paper.folder.name)
def test_tables_of_the_papers_are_those_of_their_results(paper):
    """`make tables` changes nothing; no figure of a table is typed by hand."""
    text = (paper.folder / "README.md").read_text()
    assert filled(text, {table.name: table for table in paper.tables}) == text


def test_figures_of_the_papers_are_those_of_their_results(tmp_path):
    folder = shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    assert figures.write(folder) == []


def test_tables_of_the_bounds_of_sensing():
    script = runpy.run_path(str(ROOT / "experiments/constrained/sensing.py"))
    assert script["current"]() == script["TEXT"].read_text()
    assert "<!-- sensing -->" in script["TEXT"].read_text()


def test_tables_of_the_audit():
    """As their results are: no bound above what is proven, and nothing hidden where nothing is promised."""
    script = runpy.run_path(str(ROOT / "experiments/audit/table.py"))
    assert script["current"]() == script["TEXT"].read_text()
    rows = script["read"]()
    assert {row["scheme"] for row in rows} == set(script["names"]())
    for row in rows:
        shown = [float(row[kind]) for kind in ("counted", "fitted") if row[kind]]
        assert min(shown) > 5 if row["stated"] == "none" else max(shown) < float(row["stated"]), row
        assert row["alarms"] == "0", row
    with (ROOT / "experiments/audit/onerun.csv").open() as file:
        for row in csv.DictReader(file):
            if row["kind"] == "canaries":
                assert max(float(row["shown"]), float(row["fitted"])) < float(row["proven"]), row
            if row["kind"] == "no noise":
                assert float(row["shown"]) > float(row["proven"]), row


def test_table_of_dropouts():
    """The distinguisher's table is that of its results; what is shown is within what is stated, and was not before."""
    folder = ROOT / "experiments" / "dropouts"
    text = (folder / "README.md").read_text()
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert "| " + " | ".join(row.values()) + " |" in text
    for row in rows:
        holds = float(row["epsilon_shown"]) <= float(row["epsilon_stated"])
        assert holds if row["tree"] == "now" else not holds or row["who"] == "many", row
