"""hush reproduce on a small paper: what is run, what is kept, and what a kill leaves."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from hush.catalogue.entries import entry
from hush.cli import reproduce as cli
from hush.errors import Mistake
from hush.experiment import config
from hush.experiment.checks import check
from hush.experiment.reproduce import figures, plan, results, tables, work
from hush.experiment.resolving import build
from hush.models.weights import flatten

HUSH = Path(sys.executable).parent / "hush"
CONFIG = """\
[data]
name = "digits"
clients = 40

[model]
name = "linear"

[scheme]
name = "fl-top-dp"
ratio = 0.1
delta = 1e-3
clip = 0.5
noise = 1.0

[sampling]
kind = "fixed"
cohort = 10

[run]
rounds = 6
eval_every = 1
"""
TABLES = """\
[settings.small]
config = "small.toml"
measure = "accuracy"
moves = ["fl-top@10%"]

[[settings.small.where]]
match = { scheme = "fl-top" }
change = { train = { rate = 0.3 } }

[tables.t1]
title = "Table 1"
setting = "small"

[tables.t2]
title = "Table 2: bounds"
setting = "small"
kind = "clip"
measure = "clip"

[tables.mine]
title = "Ours"
setting = "small"

[tables.mine.rows]
"fl-top-dp S=1" = { scheme = { name = "fl-top-dp", ratio = 0.2, clip = 1.0 } }

[settings.others]
config = "{row}.toml"
measure = "accuracy"

[[settings.others.where]]
match = {}
change = { run = { rounds = 2 } }

[tables.variants]
title = "A file for each row"
setting = "others"
beside = "t1"

[tables.variants.rows]
"fl-top-dp@10% rate 0.1" = { train = { rate = 0.1 } }
"fl-top-dp@30%" = {}

[figures.ratios]
tables = ["t1"]
title = "Digits"
label = "accuracy"
schemes = ["fl-top", "fl-top-dp"]

[figures.rounds]
kind = "rounds"
tables = ["t1", "variants"]
title = "Digits"
label = "accuracy"

[figures.bits]
kind = "bits"
title = "Bits"
label = "bits"
precision = [4, 32]

[figures.claim]
kind = "claim"
title = "Claim"
label = "epsilon"
precision = [4, 32]
"""
PUBLISHED = """\
table,row,scheme,ratio,accuracy,round,up_kB,down_kB,epsilon,clip
t1,fl-top@10%,fl-top,0.1,0.60,6,1.2,1.2,none,
t1,fl-top-dp@10%,fl-top-dp,0.1,0.5,5,1.2,1.2,1.5,
t1,fl-top-dp@20%,fl-top-dp,0.2,,,,,,
t2,fl-top-dp@10%,fl-top-dp,0.1,,,,,,0.3
"""
README = "# Small\n\n<!-- table: t1 -->\n<!-- end -->\n\nmore\n\n<!-- table: t2 -->\nold figures\n<!-- end -->\n"


def written(folder):
    """The folder of experiments that holds the paper, and the runs beside it."""
    paper = folder / "experiments" / "small"
    paper.mkdir(parents=True)
    texts = {"small.toml": CONFIG, "tables.toml": TABLES, "published.csv": PUBLISHED, "README.md": README}
    texts |= {"fl-top-dp-10%.toml": CONFIG, "fl-top-dp-30%.toml": CONFIG.replace("clip = 0.5", "clip = 0.9")}
    for name, text in texts.items():
        (paper / name).write_text(text)
    return folder / "experiments"


def command(paper, *words):
    return [HUSH, "reproduce", *words, "--experiments", paper, "--out", paper.parent / "runs"]


@pytest.fixture
def paper(tmp_path):
    """Nothing is run yet."""
    return written(tmp_path)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Two rows are run, one of them with two seeds, and the answer to the command."""
    paper = written(tmp_path_factory.mktemp("done"))
    words = ("t1", "--rows", "fl-top@10%,fl-top-dp@10%", "--workers", "2", "--json")
    first = subprocess.run(command(paper, *words), capture_output=True, text=True, check=True)
    more = subprocess.run(
        command(paper, "t1", "--rows", "fl-top-dp@10%", "--seeds", "2"), capture_output=True, text=True, check=True
    )
    return paper, json.loads(first.stdout)["rows"], more


@pytest.fixture
def done(once, tmp_path):
    """A copy of the same."""
    return shutil.copytree(once[0].parent, tmp_path / "copy") / "experiments"


@pytest.fixture
def reproduce(hush):
    """The command in this process, with --json."""

    def call(paper, *words):
        status, out, err = hush(*command(paper, *words)[1:], "--json")
        assert status == 0, err
        return json.loads(out)

    return call


def test_a_row_is_a_configuration(paper):
    rows = {row.name: row.config(3) for row in plan.find(paper, "t1").rows}
    assert rows["fl-top@10%"].scheme.name == "fl-top"
    assert rows["fl-top@10%"].scheme.noise is None  # it has none to set
    assert rows["fl-top@10%"].train.rate == 0.3
    assert rows["fl-top-dp@20%"].scheme.ratio == 0.2
    assert rows["fl-top-dp@20%"].scheme.clip == 0.5
    assert rows["fl-top-dp@20%"].run.seed == 3
    (own,) = plan.find(paper, "mine").rows
    assert own.config(0).scheme.clip == 1.0
    (bound,) = plan.find(paper, "t2").rows
    assert bound.config(0).scheme.clip == "public"


def test_a_row_of_ones_own_has_the_file_and_the_figures_of_its_first_word(paper):
    slow, other = plan.find(paper, "variants").rows
    assert (slow.published["accuracy"], slow.scheme, slow.config(0).train.rate) == ("0.5", "fl-top-dp", 0.1)
    assert (dict(other.published), other.config(0).scheme.clip) == ({}, 0.9)
    assert {row.config(0).run.rounds for row in (slow, other)} == {2}  # where nothing must match, all do


def test_a_table_is_run(once):
    paper, rows, more = once
    assert [row["row"] for row in rows] == ["fl-top@10%", "fl-top-dp@10%"]
    for row in rows:
        assert (row["seeds"], row["state"]) == ([0], "done")
        assert row["difference"] == pytest.approx(row["ours"] - row["paper"])
    kept = results.read(paper / "small")
    wanted = [("fl-top-dp@10%", 0), ("fl-top-dp@10%", 1), ("fl-top@10%", 0)]
    assert [one.key for one in kept] == [("small", *one) for one in wanted]
    for one in kept:
        run = paper.parent / "runs" / "small" / f"{one.row}-{one.seed}"
        points = [round(json.loads(line)["accuracy"], 5) for line in (run / "rounds.jsonl").read_text().splitlines()]
        assert (one.rounds, one.evaluated, one.last) == (6, 6, points[-1])
        assert one.best == max(points) == points[one.round_best - 1]
        assert (one.epsilon_model is None) == one.row.startswith("fl-top@")
        assert one.up_kB_best <= one.up_kB
        curve = [point for point in results.curves(paper / "small") if point.key == one.key]
        assert [point.round for point in curve] == [1, 2, 3, 4, 5, 6]
        assert [point.value for point in curve] == pytest.approx(points, abs=5e-6)
    assert "fl-top-dp@10% seed 1" in more.stderr
    assert "seed 0" not in more.stderr  # nothing is run twice
    both = [one.best for one in kept[:2]]
    assert f"{sum(both) / 2:.3f} ({min(both):.3f} to {max(both):.3f})" in more.stdout


def test_how_far_the_weights_of_a_top_k_moved(once):
    """Those of the model that the run left, and no other weight has moved."""
    paper = once[0]
    known = {one.measure: one.value for one in results.facts(paper / "small")}
    moved = [known[f"moved {percent}"] for percent in work.QUANTILES]
    assert moved == sorted(moved)
    (row,) = plan.chosen(plan.find(paper, "t1"), ["fl-top@10%"])
    like = build(row.config(0))
    left = load_file(paper.parent / "runs" / "small" / "fl-top@10%-0" / "model.safetensors")
    model = copy.deepcopy(like.task.model)
    model.load_state_dict(left)
    far = (flatten(model) - flatten(like.task.model)).abs()
    assert int((far > 0).sum()) <= like.scheme.coordinates.count(like.task.layout)
    assert 0 < moved[-1] <= float(far.max()) + 1e-6


def test_every_row_is_listed(reproduce, done):
    rows = reproduce(done, "--list")["rows"]
    assert {"table", "row", "paper", "ours", "seeds", "state", "seconds"} <= set(rows[0])
    assert [row["state"] for row in rows] == ["done", "done", *["not run"] * 5]
    assert [row["ours"] is None for row in rows] == [False, False, *[True] * 5]
    assert [row["paper"] for row in rows] == [0.6, 0.5, None, 0.3, None, 0.5, None]
    assert rows[0]["seconds"] > 0  # measured here


def test_bounds_need_no_run(reproduce, paper):
    (row,) = reproduce(paper, "t2")["rows"]
    (fact,) = results.facts(paper / "small")
    assert row["ours"] == fact.value > 0
    assert row["paper"] == 0.3
    for seed, value in ((1, 0.1), (2, 0.9), (3, 0.5)):
        results.add(paper / "small", [replace(fact, seed=seed, value=value)])
    (line,) = tables.lines(plan.find(paper, "t2"))
    known = sorted([fact.value, 0.1, 0.5, 0.9])
    assert line.plain()["ours"] == pytest.approx((known[1] + known[2]) / 2)  # the median, as the table has it
    assert line.cells()["S: ours"].startswith(f"{(known[1] + known[2]) / 2:.3g} (0.1 to 0.9)")


def test_killed_at_any_moment_it_goes_on(hush, reproduce, paper):
    """With SIGKILL to the command itself: its process ends by itself, and the run is as if undisturbed."""
    file = paper / "small" / "small.toml"
    file.write_text(file.read_text().replace("rounds = 6", "rounds = 40"))
    words = ("t1", "--rows", "fl-top-dp@10%")
    log = paper.parent / "runs" / "small" / "fl-top-dp@10%-0" / "rounds.jsonl"
    began = subprocess.Popen(
        command(paper, *words, "--workers", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(began.pid, signal.SIGKILL)
    began.wait()
    assert not results.read(paper / "small")
    assert reproduce(paper, "--list", "t1")["rows"][1]["state"] == "interrupted"
    (row,) = reproduce(paper, *words, "--workers", "2")["rows"]  # the bits do not depend on how many
    assert row["state"] == "done"
    (row,) = plan.chosen(plan.find(paper, "t1"), ["fl-top-dp@10%"])
    whole = paper.parent / "whole.toml"
    whole.write_text(config.dump(row.config(0)))
    assert hush("run", whole, "--out", paper.parent / "whole")[0] == 0
    model = log.with_name("model.safetensors").read_bytes()
    assert model == (paper.parent / "whole" / "model.safetensors").read_bytes()


def test_a_row_is_run_again_at_another_commit(hush, reproduce, done):
    """In a directory of its own, and at this commit once; what it replaces was of another."""

    def git(*words):
        names = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
        subprocess.run(["git", *names, *words], cwd=done, check=True, capture_output=True)

    words = ("t1", "--rows", "fl-top@10%", "--again")
    status, out, err = hush(*command(done, *words)[1:])
    assert (status, out) == (2, "")
    assert "commit what was changed" in err
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all of it")
    before = results.read(done / "small")
    (row,) = reproduce(done, *words)["rows"]
    commit = results.commit(done / "small")
    assert [run["commit"] for run in row["runs"]] == [commit]
    run = done.parent / "runs" / "small" / f"fl-top@10%-0-{commit}"
    log = run / "rounds.jsonl"
    made = log.stat().st_mtime_ns
    after = results.read(done / "small")
    assert [replace(one, commit="", seconds=0) for one in after] == [
        replace(one, commit="", seconds=0) for one in before
    ]  # the same numbers, since the code is the same
    reproduce(done, *words)
    assert log.stat().st_mtime_ns == made
    assert "1 of 1 had a result before; --again" in hush(*command(done, "t1", "--rows", "fl-top@10%")[1:])[1]
    (done / "small" / "small.toml").write_text(CONFIG.replace("rounds = 6", "rounds = 7"))
    assert hush(*command(done, *words)[1:])[0] == 2


def test_runs_of_another_scheme_with_the_same_beginning_are_not_a_row_s(reproduce, done):
    folder = done.parent / "runs" / "small"
    shutil.rmtree(folder / "fl-top@10%-0")
    (done / "small" / "results.csv").unlink()
    first, private, *_ = reproduce(done, "--list", "t1")["rows"]
    assert (first["state"], first["seconds"]) == ("not run", None)
    assert private["state"] == "interrupted"  # its figures are not in the folder
    assert private["seconds"] > 0


def test_of_several_seeds_bytes_are_means_and_epsilons_the_largest(done):
    folder = done / "small"
    one, other = (kept for kept in results.read(folder) if kept.row == "fl-top-dp@10%")
    results.add(
        folder, replace(other, up_kB_best=one.up_kB_best + 1, epsilon_paper=9.5, epsilon_server=77.25, evaluated=3)
    )
    (line,) = (line for line in tables.lines(plan.find(done, "t1")) if line.row.name == "fl-top-dp@10%")
    cells = line.cells()
    assert cells["kB up: ours"] == f"{one.up_kB_best + 0.5:.2f}"
    assert (cells["ours, as the paper counts"], cells["server"]) == ("9.50", "77.25")
    assert cells["evaluated"] == "6 of 6, 3 of 6"


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("setting,row", "<<<<<<< ours\nsetting,row", "line 2, is no row of results (it has more cells"),
        (",rounds,", ",turns,", "there is no column rounds"),
        ("fl-top@10%,0,6", "fl-top@10%,0,six", "'six'"),
        ("fl-top@10%,0,6", "fl-top@10%,0,", "is no row of results"),
    ],
)
def test_a_damaged_file_of_results_is_refused(hush, done, before, after, sentence):
    path = done / "small" / "results.csv"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    status, out, err = hush(*command(done, "--list")[1:])
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_tables_and_figures_are_written_from_results(reproduce, done):
    drawn = {f"{name}.svg" for name in ("ratios", "rounds", "bits", "claim")}
    assert {Path(path).name for path in reproduce(done, "--tables")["written"]} == {"README.md", *drawn}
    assert reproduce(done, "--tables")["written"] == []
    text = (done / "small" / "README.md").read_text()
    assert "old figures" not in text
    assert text.count("<!-- end -->") == 2
    assert "| fl-top-dp@20% | - | not run | - |" in text
    best = results.read(done / "small")[-1].best
    assert f"| fl-top@10% | 0.6 | {best:.3f} | {best - 0.6:+.3f} |" in text
    assert "more" in text


def test_a_result_of_fewer_evaluations_is_told(done):
    path = done / "small" / "results.csv"
    path.write_text(path.read_text().replace("fl-top@10%,0,6,6,", "fl-top@10%,0,6,3,"))
    lines = {line.row.name: line for line in tables.lines(plan.find(done, "t1"))}
    assert lines["fl-top@10%"].state == "evaluated in part"
    assert lines["fl-top-dp@10%"].state == "done"


def test_what_is_not_known_is_a_dash_and_is_run_again(done):
    """As of runs that kept the best figure alone; the new result replaces the old one and its curve."""
    folder, table = done / "small", plan.find(done, "t1")
    kept = next(one for one in results.read(folder) if one.row == "fl-top@10%")
    gone = replace(kept, round_best=None, down_kB=None, up_kB_best=None, down_kB_best=None)
    results.add(folder, gone)
    assert gone in results.read(folder)
    assert {point.row for point in results.curves(folder)} == {"fl-top-dp@10%"}
    (line,) = (line for line in tables.lines(table) if line.row.name == "fl-top@10%")
    assert (line.state, line.plain()["runs"][0]["round_best"]) == ("known in part", None)
    assert [line.cells()[head] for head in ("kB up: ours", "kB down: ours", "best round")] == ["-", "-", "-"]
    assert line.brief()["kB up, down"] == "-, -"
    assert not work.Job(line.row, 0, done).done()
    results.add(folder, kept, [results.Point(*kept.key, 1, 0.5)])
    assert work.Job(line.row, 0, done).done()
    assert [point.value for point in results.curves(folder) if point.key == kept.key] == [0.5]


def test_points_of_the_figures(done):
    (paper,) = plan.papers(done)
    wanted = tomllib.loads(TABLES)["figures"]
    known = {name: figures._KINDS[one.get("kind", "ratios")][0](paper, one) for name, one in wanted.items()}
    assert known["bits"] == {"two-bit": [(4, 2.0), (32, 2.0)], "others, a number of p bits": [(4, 4.0), (32, 32.0)]}
    assert known["claim"] == {"ln(p/(p-2))": [(4, 0.693147), (32, 0.064539)]}
    assert list(known["rounds"]) == ["10%", "20%", "10% rate 0.1", "30%"]
    published, curve = known["rounds"]["10%"]["fl-top-dp"]
    assert published == 0.5
    assert [at for at, *_ in curve] == [1, 2, 3, 4, 5, 6]
    assert all(low <= mean <= high for _, mean, low, high in curve)
    assert any(low < high for *_, low, high in curve)  # of two seeds
    assert known["rounds"]["20%"]["fl-top-dp"] == (None, [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a table, as u-table1"),
        (("t9",), "table 't9' is not known: choose from t1, t2, mine, variants"),
        (("t1", "--rows", "fl-sign"), "row 'fl-sign' is not in t1"),
        (("t1", "--rows", ""), "a name in --rows is empty"),
        (("t1", "--rows", "fl-top@10%,"), "a name in --rows is empty"),
        (("--list", "--rows", "fl-top@10%"), "--rows are those of a table"),
        (("t1", "--list", "--rows", "fl-sign"), "row 'fl-sign' is not in t1"),
        (("t1", "--tables"), "leave the table, --rows, --again and --list out"),
    ],
)
def test_mistakes(hush, paper, words, sentence):
    status, out, err = hush(*command(paper, *words)[1:])
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_a_run_that_fails_is_told(hush, paper):
    file = paper / "small" / "tables.toml"
    file.write_text(file.read_text().replace("clip = 1.0", "clip = 1.0, gamma = 2.0"))
    status, _, err = hush(*command(paper, "mine")[1:])
    assert status == 2
    assert "fl-top-dp S=1 seed 0: fl-top-dp has no gamma to set" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_folder_of_experiments_without_tables_hides_none(tmp_path, monkeypatch):
    (tmp_path / "experiments").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (cli._folder(None) / "constrained" / "tables.toml").exists()


def test_without_experiments_it_is_told(tmp_path):
    with pytest.raises(Mistake, match="clone of the project"):
        plan.papers(tmp_path)


def test_a_row_that_a_table_leaves_out_is_that_of_another_with_the_same_setting():
    folder = Path(__file__).parents[2] / "experiments"
    for table, row, other in (("u-table1", "fl-top-dp@0.1%", "u-table8"), ("u-table2", "fl-top-dp@0.5%", "u-table9")):
        (found,) = plan.chosen(plan.find(folder, table), [row])
        assert (found.name, found.table.name) == (row, other)
        assert found.published["accuracy" if table == "u-table1" else "balanced"]
    (own,) = plan.chosen(plan.find(folder, "u-table1"), ["fl-top-dp@0.5%"])
    assert own.table.name == "u-table1"
    with pytest.raises(Mistake, match="is not in u-table1"):
        plan.chosen(plan.find(folder, "u-table1"), ["fl-top-dp@0.7%"])


@pytest.mark.parametrize(("table", "row"), [("c-table7", "fl-sign-dp@1"), ("u-table1", "fl-std-dp S=0.25")])
def test_a_row_of_another_measure_or_of_our_own_is_not_a_table_s(table, row):
    folder = Path(__file__).parents[2] / "experiments"
    with pytest.raises(Mistake, match=f"is not in {table}"):
        plan.chosen(plan.find(folder, table), [row])


def test_every_row_of_the_papers_has_a_configuration():
    """Each is one that `hush run` would take; nothing is loaded."""
    rows = 0
    for paper in plan.papers(Path(__file__).parents[2] / "experiments"):
        for table in paper.tables:
            assert table.rows, table.name
            for row in table.rows:
                wanted = row.config(0)
                check(wanted, entry(wanted.scheme.name))
                rows += 1
    assert rows > 300
