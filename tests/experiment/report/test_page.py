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


def test_three_titled_figures_and_links_from_tiles_to_adversaries(make):
    reader = read(make())
    labels = [attributes["aria-label"] for attributes in reader.named("svg")]
    assert [label.split(":")[0] for label in labels] == [
        "Accuracy against rounds",
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
    assert len(reader.named("svg")) == 2
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
    assert reader.named("script") == []
    assert reader.named("b") == []
    assert "<script>alert(1)</script>&amp;" in reader.text()
    assert "ratio 0.005" in reader.text()
    assert "secure false" in reader.text()


def test_needs_no_network(make):
    text = page.write(make()).read_text(encoding="utf-8")
    assert not any(tag in ("script", "link", "img", "iframe") for tag, _ in Reader(text).tags)
    assert "//" not in text
    assert "url(" not in text


def test_a_run_without_evaluated_rounds(make, line):
    rows = [line(n, accuracy=None, best_accuracy=None, best_round=None) for n in (1, 2)]
    reader = read(make(rows=rows))
    assert "Accuracy, last – not evaluated yet" in reader.text()
    assert len(reader.named("svg")) == 2


def test_phases_of_a_secure_sum(make, line, secure):
    text = read(make("secure", rows=[line(1), line(2), secure])).text()
    assert "Phase What travels Up, mean Up, largest Down, mean Down, largest" in text
    assert "advertise fresh public keys 1.45 2.90 0.0 0.0" in text
    assert "sealed for each 80.3 160.7 130.8 261.7 mask" in text
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
    assert len(drawn.named("svg")) == 3
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
