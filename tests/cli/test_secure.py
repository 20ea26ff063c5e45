"""--secure as a person uses it: what it runs, what it leaves, what it refuses."""

import json
import tomllib

import pytest
from safetensors.torch import load_file

from hush.cli import _spelled
from hush.experiment.settings import SecureTable
from hush.privacy.ledger import Ledger

QUICK = ["--data", "digits", "--model", "linear", "--rounds", "2", "--clients", "40", "--cohort", "8"]
QUICK += ["--sampling", "fixed"]


@pytest.fixture
def ran(hush, tmp_path):
    """A run with --json: its last row, its configuration, its model's weights; the card beside them may differ."""

    def call(out, *words):
        status, said, err = hush("run", *words, "--out", out, "--json")
        assert status == 0, err
        folder = tmp_path / out
        config = tomllib.loads((folder / "config.toml").read_text())
        return json.loads(said), config, weights(folder)

    return call


def weights(folder):
    return {name: tensor.numpy().tobytes() for name, tensor in load_file(folder / "model.safetensors").items()}


def same(row):
    return {key: value for key, value in row.items() if key not in ("seconds", "path")}


NOISE = {"fl-sign-dp": ["--noise", "1", "--set", "train.batch=5"]}


@pytest.mark.parametrize("scheme", ["fl-top-dp", "fl-sign-dp", "fl-cs-dp", "fl-std-dp"])
def test_secure_full_on_digits(scheme, ran):
    """The whole protocol, and the simulation of it: the same model, the same bytes, the same epsilon."""
    words = [scheme, *QUICK, *NOISE.get(scheme, ["--noise", "1"])]
    words += ["--ratio", "0.2"] if scheme in ("fl-top-dp", "fl-cs-dp") else []
    words += ["--set", "scheme.chunks=10"] if scheme == "fl-cs-dp" else []
    full, config, model = ran("full", *words, "--secure", "full")
    row, other, simulated = ran("simulated", *words, "--secure", "--exact")
    assert model == simulated
    assert same(full) == same(row)
    assert set(full["bytes"]["phases"]) == {"advertise", "share", "mask", "consent", "unmask"}
    assert isinstance(full["epsilon"]["model"], float)
    assert (config["secure"]["mode"], other["secure"]["mode"]) == ("full", "simulated")
    assert config["secure"]["servers"] == 1
    assert ("bits" in config["scheme"]) == (scheme != "fl-sign-dp")


TOP = ["fl-top-dp", *QUICK, "--ratio", "0.2", "--noise", "1"]
BUDGET = [*TOP[:-2], "--epsilon", "50", "--delta", "1e-3"]


def test_two_servers(ran):
    """Far fewer bytes, and the same numbers: the same model."""
    one, _, model = ran("one", *TOP, "--secure", "--exact")
    two, config, other = ran("two", *TOP, "--secure", "full", "--set", "secure.servers=2")
    assert model == other
    assert config["secure"]["servers"] == 2
    assert set(two["bytes"]["phases"]) == {"numbers", "seeds"}
    assert two["bytes"]["up"]["payload"] == one["bytes"]["up"]["payload"]
    assert two["bytes"]["up"]["protocol"]["mean"] < 0.4 * one["bytes"]["up"]["protocol"]["mean"]


def test_secure_costs_no_privacy_and_few_bits(ran, tmp_path):
    """By the ledger the noise is that of the plain run; a coordinate takes a few bits in place of 32."""
    plain, _, _ = ran("plain", *TOP)
    secure, config, _ = ran("secure", *TOP, "--secure")
    for whom in ("model", "server"):
        assert secure["epsilon"][whom] == pytest.approx(plain["epsilon"][whom], rel=2e-3)
        assert secure["epsilon"][whom] <= plain["epsilon"][whom]
    assert all(1 <= event.noise <= 1.002 for event in Ledger.load(tmp_path / "secure" / "privacy.json").events)
    less = secure["bytes"]["up"]["payload"]["mean"] / plain["bytes"]["up"]["payload"]["mean"]
    assert less == pytest.approx(config["scheme"]["bits"] / 32, rel=0.1)
    assert config["secure"]["noise"] == "skellam"


def test_a_budget_is_met(ran):
    row, _, _ = ran("r", *TOP[:-2], "--epsilon", "3", "--delta", "1e-3", "--secure")
    assert 2.9 < row["epsilon"]["model"] <= 3


def test_bits_and_loss(ran):
    _, twelve, _ = ran("twelve", *TOP, "--secure", "--bits", "12")
    _, coarse, _ = ran("coarse", *TOP, "--secure", "--set", "secure.rounding=0.3")
    assert twelve["scheme"]["bits"] == 12 > coarse["scheme"]["bits"]
    assert "rounding" not in coarse["secure"]  # which is told by the bits


def test_the_configuration_runs_again_to_the_same_model(ran):
    row, config, model = ran(
        "one", *TOP, "--secure", "full", "--set", "secure.rounding=0.1", "--set", "sampling.tolerance=0.2"
    )
    again, other, repeated = ran("two", "one/config.toml")
    assert (model, same(row), config) == (repeated, same(again), other)


def test_whom_the_noise_is_sized_for(ran):
    """The budget's multiplier is that of the released noise, of those who must stay, of the honest ones among them."""
    words = [*BUDGET, "--secure", "--set", "sampling.tolerance=0.25"]
    found = {}
    for view in ("model", "server", "colluding"):
        row, config, _ = ran(view, *words, "--set", f"scheme.against={view}")
        found[view] = config["scheme"]["noise"]
        assert (config["scheme"]["against"], config["scheme"]["epsilon"]) == (view, 50.0)
        assert row["epsilon"]["model"] <= 50
    z = found["server"]
    assert found["model"] == pytest.approx(z * 0.75**0.5, abs=1.1e-3)
    assert found["colluding"] == pytest.approx(z / (1 - 1 / 6) ** 0.5, abs=0.02 * z)  # a tenth of 7 to 9 clients is one
    assert ran("plain", *BUDGET, "--secure")[1]["scheme"]["noise"] == z


def test_a_declared_dropout(ran, hush):
    """A third of a cohort may be missing; the card names what is assumed."""
    row, config, _ = ran("r", *TOP, "--secure", "--set", "sampling.dropout=0.05")
    assert config["sampling"]["dropout"] == 0.05
    status, said, _ = hush("privacy", "card", "r")
    assert status == 0
    assert "a drawn client drops out with probability 0.05 at most" in " ".join(said.split())
    assert "colluding" in row["epsilon"]
    assert "shares are sized for 67% of a cohort" in " ".join(said.split())


def test_resume_gives_the_same_model(ran, hush, tmp_path):
    """Two rounds, and two more: the same as four at once."""
    words = [*TOP, "--secure", "full", "--clip", "adaptive"]
    words[words.index("--rounds") + 1] = "4"
    whole, _, model = ran("whole", *words)
    half = [*words]
    half[half.index("--rounds") + 1] = "2"
    ran("half", *half)
    config = (tmp_path / "half" / "config.toml").read_text()
    assert "rounds = 2" in config
    (tmp_path / "half" / "config.toml").write_text(config.replace("rounds = 2", "rounds = 4"))
    status, said, err = hush("run", "--resume", "--out", "half", "--json")
    assert status == 0, err
    assert same(json.loads(said)) == same(whole)
    assert weights(tmp_path / "half") == model


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("run x --secure", "run x --secure simulated"),
        ("run x --secure full", "run x --secure full"),
        ("run x --secure simulated --noise 1", "run x --secure simulated --noise 1"),
        ("run x --secure --noise 1", "run x --secure simulated --noise 1"),
        ("run --secure x", "run --secure simulated x"),
        ("run x --secure=full --servers 2", "run x --secure=full --servers 2"),
        ("run x --noise 1", "run x --noise 1"),
    ],
)
def test_secure_may_stand_anywhere(words, found):
    assert _spelled(words.split()) == found.split()


def test_it_comes_before_the_scheme_as_well(ran):
    _, config, _ = ran("r", "--secure", *TOP)
    assert config["secure"]["mode"] == "simulated"


def test_a_run_without_it_says_nothing_of_it(ran):
    row, config, _ = ran("r", *TOP)
    assert SecureTable(**config.get("secure", {})) == SecureTable()
    assert "phases" not in row["bytes"]


MISTAKES = {
    "votes": (
        ["two-bit", *QUICK, "--set", "scheme.precision=4", "--secure"],
        "two-bit takes votes and not sums: leave secure out",
    ),
    "alone": (["standalone", "--data", "digits", "--secure"], "standalone sends nothing: leave secure out"),
    "pooled": (["centralized", "--data", "digits", "--secure"], "centralized sends nothing: leave secure out"),
    "servers": ([*TOP, "--set", "secure.servers=2"], "belong to a secure sum: add --secure"),
    "rounding": ([*TOP, "--set", "secure.rounding=0.1"], "belong to a secure sum: add --secure"),
    "both": (
        [*TOP, "--secure", "--set", "secure.rounding=0.1", "--bits", "12"],
        "rounding and bits are both given: give one",
    ),
    "bits": ([*TOP, "--bits", "12"], "fl-top-dp has no bits to set: leave it out"),
    "few": ([*TOP, "--secure", "--bits", "2"], "bits=2 are too few"),
    "many": ([*TOP, "--secure", "--bits", "33"], "bits=33 must be from 2 to 32"),
    "vote": ([*TOP, "--secure", "--set", "scheme.select=vote"], "select='vote' has no secure sum"),
    "few on average": ([*TOP, "--secure", "--cohort", "2", "--sampling", "poisson"], "cohort=2"),
    "cohort": ([*TOP, "--secure", "--cohort", "2"], "cohort=2"),
    "tolerance": ([*TOP, "--secure", "--set", "sampling.tolerance=0.4"], "tolerance=0.4 is more than a third"),
    "three": ([*TOP, "--secure", "--set", "secure.servers=3"], "servers"),
    "nothing": ([*TOP, "--secure", "--set", "secure.rounding=0"], "rounding"),
    "codes": (["fl-sign-dp", *QUICK, "--noise", "1", "--secure", "--bits", "9"], "bits=9 cannot be chosen"),
    "no rounding": (["fl-sign-dp", *QUICK, "--noise", "1", "--secure", "--set", "secure.rounding=0.1"], "rounding"),
    "no noise": (["fl-std", *QUICK, "--secure", "--set", "secure.rounding=0.1"], "rounding"),
    "mode": ([*TOP, "--secure=half"], "secure.mode"),
    "dropout": (
        [*BUDGET, "--secure", "--set", "sampling.dropout=0.2"],
        "take larger cohorts, a larger tolerance (up to a third)",
    ),
    "rate": ([*TOP, "--set", "sampling.dropout=1"], "sampling.dropout"),
    "open": (
        [*BUDGET, "--set", "scheme.against=colluding"],
        "which colluding clients could help to read: add --secure",
    ),
    "noise": ([*TOP, "--secure", "--set", "scheme.against=colluding"], "give --epsilon with it"),
    "trusted": (
        ["dp-fedavg", *BUDGET[1:], "--set", "scheme.against=server"],
        "the same noise against all: leave against out",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_and_status_2(case, hush, tmp_path):
    words, part = MISTAKES[case]
    status, out, err = hush("run", *words, "--out", "r")
    assert (status, out) == (2, "")
    assert part in err
    assert err.startswith("hush: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "r").exists()
