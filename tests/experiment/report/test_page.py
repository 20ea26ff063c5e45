import base64
import hashlib
import json
import re
import time
from html.parser import HTMLParser

import pytest

from hush.errors import Mistake
from hush.experiment.report import page

VOID = {"meta", "line", "rect", "circle", "polyline"}


class Reader(HTMLParser):
    """The page's text and tags; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    def text(self):
        return " ".join(" ".join(self.words).split())

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def read(path):
    return Reader(page.write(path).read_text(encoding="utf-8"))


def test_states_the_key_figures(make):
    text = read(make(rows=200, total=200)).text()
    assert "fl-top-dp on digits, 200 of 200 rounds" in text
    assert "Accuracy, last 0.700 round 200" in text
    assert "Up per client 112.0 kB mean: payload 110.0, protocol 2.00; at most 440.0 payload" in text
    assert "Down per client 222.0 kB" in text
    assert "Epsilon, model 2.50 δ = 1e-5" in text
    assert "Epsilon, server 2.67 δ = 1e-5; median client 0" in text
    assert "knows who took part and sees the sum 2.67 0" in text


def test_titled_figures_without_a_script_and_links_from_tiles_to_adversaries(make):
    reader = read(make())
    labels = [attributes["aria-label"] for attributes in reader.named("svg")]
    assert [label.split(":")[0] for label in labels] == [
        "Accuracy against rounds",
        "Accuracy against kB up per client",
        "Accuracy against epsilon, model",
        "Kilobytes per client against rounds",
        "Epsilon against rounds",
    ]
    links = {attributes["href"] for attributes in reader.named("a")}
    assert links == {"#model", "#server", "#upload"}
    assert links <= {"#" + attributes["id"] for _, attributes in reader.tags if "id" in attributes}


def test_reloads_only_while_rounds_are_to_come(make):
    def refresh(reader):
        return [a["content"] for a in reader.named("meta") if a.get("http-equiv") == "refresh"]

    assert refresh(read(make("going", rows=2, total=3))) == ["5"]
    assert refresh(read(make("done", rows=3, total=3))) == []


def test_no_guarantee_says_none_and_draws_no_epsilon(make):
    reader = read(make(private=False, scheme="fl-std"))
    assert len(reader.named("svg")) == 3
    assert not any("psilon" in attributes["aria-label"] for attributes in reader.named("svg"))
    text = reader.text()
    assert "Epsilon, upload none no guarantee" in text
    assert "no differential privacy guarantee against any adversary" in text
    assert "δ =" not in text


def test_an_infinite_upload_epsilon_is_none_beside_finite_ones(make, line):
    epsilon = {"model": 0.5, "server": 2.67, "server_median": 0.0, "upload": float("inf")}
    text = read(make(rows=[line(1, epsilon=epsilon)], total=1)).text()
    assert "Epsilon, model 0.50" in text
    assert "Epsilon, upload none no guarantee" in text
    assert "inf" not in text.lower().split()


def test_settings_are_shown_and_escaped(make):
    reader = read(make(data="<script>alert(1)</script>&amp;", scheme="<b>x</b>"))
    assert reader.named("script") == [{"type": "application/json", "id": "series"}, {}]
    assert reader.named("b") == []
    assert "<script>alert(1)</script>&amp;" in reader.text()
    assert "ratio 0.005" in reader.text()
    assert "secure false" in reader.text()


def test_needs_no_network(make):
    text = page.write(make()).read_text(encoding="utf-8")
    reader = Reader(text)
    assert not any(tag in ("link", "img", "iframe", "form") for tag, _ in reader.tags)
    assert not any({"src", "style", "onload", "onclick"} & set(attributes) for _, attributes in reader.tags)
    assert all(attributes["href"].startswith("#") for attributes in reader.named("a"))
    assert "//" not in text
    assert "url(" not in text
    assert "import" not in text


def test_the_policy_allows_the_page_s_own_script_and_style_and_nothing_else(make):
    text = page.write(make()).read_text(encoding="utf-8")
    (policy,) = [a["content"] for a in Reader(text).named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    script, style = (
        re.search(r"<script>(.*?)</script>", text, re.DOTALL),
        re.search(r"<style>(.*?)</style>", text, re.DOTALL),
    )
    digests = [base64.b64encode(hashlib.sha256(one[1].encode()).digest()).decode() for one in (script, style)]
    assert policy == (
        f"default-src 'none'; img-src data:; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}';"
        " form-action 'none'; base-uri 'none'"
    )


def series(path):
    text = page.write(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="series">(.*?)</script>', text)[1])


def test_the_script_gets_each_round_s_numbers_and_words(make):
    found = series(make(rows=3))
    (table,) = found["tables"]
    assert table["round"] == {"v": [1, 2, 3], "t": ["round 1", "round 2", "round 3"]}
    assert table["measure"] == {"v": [0.501, 0.502, 0.503], "t": ["0.501", "0.502", "0.503"]}
    assert table["up"] == {"v": [0.56, 1.12, 1.68], "t": ["0.56 kB", "1.12 kB", "1.68 kB"]}
    assert table["epsilon upload"]["t"] == ["31.00"] * 3
    assert [axis["key"] for axis in found["charts"]["measure"]["axes"]] == ["round", "up", "epsilon model"]
    assert found["charts"]["measure"]["lines"][0]["mark"] == 2
    assert [line["y"] for line in found["charts"]["epsilon"]["lines"]] == [
        "epsilon model",
        "epsilon server",
        "epsilon upload",
    ]


def test_norms_are_drawn_beside_the_bound(make, line):
    length = {"mean": 0.9, "bound": 0.5, "noise": 0.8}
    path = make(rows=[line(n, length=None if n == 2 else length) for n in (1, 2, 3)])
    assert "Norms against rounds: mean 0.9, clip bound 0.5, noise 0.8" in page.write(path).read_text()
    assert series(path)["tables"][0]["length mean"]["v"] == [0.9, None, 0.9]
    assert "Norms" not in read(make("none")).text()


def test_a_very_long_run_is_thinned_with_its_best_round(make, line):
    rows = [line(n, best_round=min(n, 4321), best_accuracy=0.9) for n in range(1, 6001)]
    rounds = series(make(rows=rows, total=6000))["tables"][0]["round"]["v"]
    assert len(rounds) == 2001
    assert 4321 in rounds
    assert rounds == sorted(rounds)


def test_card_data_weights_and_results_are_shown_and_escaped(make, described):
    reader = read(described(make(rows=3)))
    text = reader.text()
    for tag in ("b", "i", "u"):
        assert reader.named(tag) == []
    assert "Simulated: noise from a seed." in text
    assert "Before you rely on it 6 clients are <b>few</b>" in text
    assert "Guarantee differential privacy, client level, delta 1e-05, pld accountant" in text
    assert "model the <u>models</u> 2.50 –" in text
    assert "Assumptions honest & curious Used without noise test metrics <i>as they are</i>" in text
    assert "<b>E</b> 9 3 0.750 0.500 to 0.900" in text
    assert "West 4 0 – –" in text
    assert "0 8 1.000 0.680 to 1.000" in text
    assert "10 of 50 weights (20.00%) train and travel, the same in every round." in text
    assert "<b>1</b> 10 × 4 40 10 25.0%" in text
    assert "Rows 168 training, 42 test A row" in text
    assert "9 of 401 rows were dropped." in text
    assert "<b>age</b> <b>young</b> rows 401 9 0 Run" in text.replace("Run it again", "Run")
    assert "hush run trial/config.toml --out trial-again" in text


def test_a_run_with_noise_of_the_system_is_not_called_simulated(make, described):
    path = described(make(), noise_source="the operating system's generator at each party", warnings=[])
    text = read(path).text()
    assert "Simulated" not in text
    assert "Before you rely on it" not in text


def test_the_command_of_a_folder_with_a_blank_is_quoted(make):
    assert "hush run 'my run/config.toml' --out 'my run-again'" in read(make("my run")).text()


@pytest.mark.parametrize("name", ["privacy.json", "about.json"])
def test_a_damaged_file_beside_the_page_is_told(make, name):
    path = make()
    (path / name).write_text("[1]")
    with pytest.raises(Mistake, match=f"{name}' is damaged"):
        page.write(path)


def test_a_run_without_evaluated_rounds(make, line):
    rows = [line(n, accuracy=None, best_accuracy=None, best_round=None) for n in (1, 2)]
    reader = read(make(rows=rows))
    assert "Accuracy, last – not evaluated yet" in reader.text()
    assert len(reader.named("svg")) == 2
    assert "No round has been evaluated yet." in reader.text()


def test_phases_of_a_secure_sum(make, line, secure):
    text = read(make("secure", rows=[line(1), line(2), secure])).text()
    assert "Phase What travels Up, mean Up, largest Down, mean Down, largest" in text
    assert "advertise a fresh public key 1.45 2.90 0.0 0.0" in text
    assert "public of two shared secrets 80.3 160.7 130.8 261.7 mask" in text
    assert "Secure sum" not in read(make()).text()


def test_aborted_rounds_are_told(make, line):
    rows = [line(1), line(2, aborted=True, cohort=0), line(3, aborted=True, cohort=0)]
    assert "2 rounds aborted: nothing of them was released" in read(make(rows=rows)).text()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_run_that_has_just_begun(make, rows):
    reader = read(make(rows=rows, total=200))
    assert f"{rows} of 200 rounds" in reader.text()
    assert ("No round has finished yet." in reader.text()) is (rows == 0)


def test_epsilon_that_begins_at_zero_is_drawn(make, line):
    rows = [line(n, epsilon={"model": n - 1.0, "server": 40.0}) for n in (1, 2, 3)]
    drawn = read(make(rows=rows))
    assert [one["aria-label"].split(":")[0] for one in drawn.named("svg")][-1] == "Epsilon against rounds"
    assert "epsilon, log scale" in drawn.text()


def test_the_page_is_small_quick_and_replaced_whole(make):
    path = make(rows=200, total=200)
    (path / "report.html").write_text("old")
    began = time.perf_counter()
    made = page.write(path)
    assert time.perf_counter() - began < 0.5
    assert 10_000 < made.stat().st_size < 200_000
    assert sorted(file.name for file in path.iterdir()) == ["config.toml", "report.html", "rounds.jsonl"]


def test_a_failed_write_leaves_the_old_page(make):
    path = make()
    before = page.write(path).read_bytes()
    (path / "rounds.jsonl").write_text("damaged\n")
    with pytest.raises(Mistake):
        page.write(path)
    assert (path / "report.html").read_bytes() == before
    assert len(list(path.iterdir())) == 3
