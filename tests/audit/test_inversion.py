"""Gradient inversion: exact where nothing hides a row, nothing learned under noise, and by nothing but the upload."""

import csv
import dataclasses
import io
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import hush
from hush.audit.analytic import Analytic, first_layer
from hush.audit.inversion import EXACT, invert, matched, picture, psnr, ssim
from hush.audit.matching import Matching, distance, labels
from hush.audit.upload import Seen, see
from hush.errors import Mistake

MARGIN = 1.0  # dB above the baseline that noise may leave to chance
SIDE, CLASSES, RATE = 8, 4, 0.5


def images(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A bright rectangle on black, somewhere; classes at random."""
    draw = np.random.default_rng(seed)
    x = torch.zeros(count, 1, SIDE, SIDE)
    for image in x:
        top, left, height, width = draw.integers(0, 4, 4)
        image[0, top : top + height + 2, left : left + width + 2] = float(draw.uniform(0.3, 1.0))
    return x, torch.from_numpy(draw.integers(CLASSES, size=count))


def task(kind: str = "mlp", rows: int = 1, units: int = 64) -> hush.Task:
    torch.manual_seed(0)
    size = SIDE * SIDE
    models = {
        "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(size, units), nn.ReLU(), nn.Linear(units, CLASSES)),
        "cnn": lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(8 * size, CLASSES)
        ),
    }
    x, y = images(40 * rows)
    split = [list(range(rows * k, rows * (k + 1))) for k in range(40)]
    return hush.Task(models[kind](), nn.functional.cross_entropy, (x, y), split, public=images(60, seed=1))


def scheme(name: str, **more: object):
    given = {"sampling": hush.Fixed(40), "rate": RATE, "steps": 1}
    if name == "fl-sign-dp":
        given |= {"batch": 1, "clip": 1.0, "noise": 1.5, "balance": "none"}
    elif name.endswith("-dp"):
        given |= {"clip": 1.0, "noise": 10.0}
    return hush.scheme(name, **{**given, **more})


def test_one_row_is_read_off_the_first_layer_exactly():
    for client in range(5):
        found = invert(scheme("fl-std"), task(), client, Analytic())
        assert (found.reconstructions - found.originals).abs().max() < 1e-4
        assert found.psnr == (EXACT,)
        assert found.ssim == pytest.approx((1.0,), abs=1e-6)


def test_some_local_steps_do_not_hide_it():
    found = invert(scheme("fl-std", steps=3), task(), 0, Analytic())
    assert (found.reconstructions - found.originals).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["fl-sign", "two-bit"])
def test_signs_show_the_outline(name):
    gains = []
    for client in range(4):
        found = invert(scheme(name), task(units=200), client, Analytic())
        there = found.originals > 0
        assert found.reconstructions[there].min() > found.reconstructions[~there].max()
        gains.append(found.gained)
    assert sum(gains) / len(gains) > 3


@pytest.mark.parametrize("name", ["fl-std-dp", "fl-top-dp", "fl-sign-dp", "two-bit-dp"])
def test_noise_leaves_no_more_than_the_mean_of_public_rows(name):
    more = {"ratio": 0.5} if "top" in name else {}
    problem = task()
    gains = [invert(scheme(name, **more), problem, client, Analytic()).gained for client in range(8)]
    assert max(gains) < MARGIN
    assert sum(gains) / len(gains) < MARGIN / 4


def test_the_same_clip_without_noise_hides_nothing():
    quiet = invert(scheme("fl-std-dp", noise=0.01), task(), 0, Analytic())
    assert quiet.gained > 20


def test_top_k_is_read_where_its_coordinates_are():
    whole = invert(scheme("fl-top", ratio=0.5), task(), 0, Analytic())
    few = invert(scheme("fl-top", ratio=0.05), task(), 0, Analytic())
    assert whole.gained > few.gained > 0


def test_units_that_are_active_for_one_row_give_it_exactly():
    rows = 3
    found = invert(scheme("fl-std", batch=None), task(rows=rows, units=400), 1, Analytic())
    assert found.reconstructions.shape == found.originals.shape
    assert max(found.psnr) > 60
    assert found.gained > 3


def test_matching_recovers_an_image_through_a_convolution():
    found = invert(scheme("fl-std"), task("cnn"), 0, Matching(RATE, iterations=250, restarts=2, smooth=1e-3))
    assert found.psnr[0] > 20
    assert found.gained > 8


def test_matching_recovers_two_rows_at_once():
    attack = Matching(RATE, iterations=200, restarts=2, smooth=1e-3)
    found = invert(scheme("fl-std", batch=None), task("cnn", rows=2), 1, attack)
    assert min(found.psnr) > 25


def test_matching_goes_through_local_steps():
    problem, rate = task("cnn"), 0.01
    seen = see(scheme("fl-std", rate=rate, steps=3), problem, 0)
    right, wrong = (Matching(rate, steps=steps) for steps in (3, 1))
    rows, targets = problem.train.inputs[:1], problem.train.targets[:1]
    torch.testing.assert_close(right._update(seen, rows, targets), seen.upload, rtol=1e-3, atol=1e-6)
    assert (wrong._update(seen, rows, targets) - seen.upload).norm() > 0.1 * seen.upload.norm()


@pytest.mark.parametrize("name", ["fl-sign", "two-bit"])
def test_of_all_rows_the_true_one_is_nearest_to_its_codes(name):
    problem = task("cnn")
    seen, attack = see(scheme(name), problem, 0), Matching(RATE)
    near = distance(seen, attack.soft)
    each = [float(near(attack._update(seen, problem.train.inputs[[k]], problem.train.targets[[k]]))) for k in range(40)]
    assert np.argmin(each) == 0


def test_matching_finds_something_in_signs_alone():
    found = invert(scheme("fl-sign"), task("cnn"), 1, Matching(RATE, iterations=150, restarts=1, smooth=0.1))
    assert found.gained > MARGIN


def test_bits_are_those_of_the_true_magnitudes():
    problem = task("cnn")
    seen = see(scheme("two-bit", precision=12), problem, 3)
    truth = see(scheme("fl-std"), problem, 3).upload.double()
    assert torch.equal(seen.numbers < 0, truth < 0)
    assert torch.equal(seen.set_bits, ((truth.abs() / seen.periods) % 1 >= 0.5).double())
    assert 0 < seen.set_bits.mean() < 1


@pytest.mark.parametrize("name", ["fl-std", "fl-sign", "two-bit"])
def test_labels_are_read_off_the_last_layer(name):
    problem = task("mlp")
    for client in range(10):
        assert labels(see(scheme(name), problem, client)).tolist() == [int(problem.train.targets[client])]


def test_the_order_of_a_clients_rows_does_not_matter():
    problem, order = task(rows=3), [5, 3, 4]
    turned = hush.Task(problem.model, problem.loss, problem.train, [[0, 1, 2], order], public=problem.public)
    plain = hush.Task(problem.model, problem.loss, problem.train, [[0, 1, 2], [3, 4, 5]], public=problem.public)
    wanted = scheme("fl-std", sampling=hush.Fixed(2), batch=None)
    one, other = (invert(wanted, found, 1, Analytic()) for found in (plain, turned))
    assert sorted(one.psnr) == pytest.approx(sorted(other.psnr), abs=0.5)
    torch.testing.assert_close(one.originals[[2, 0, 1]], other.originals)
    assert matched(one.originals[[2, 0, 1]], one.originals).equal(one.originals)


def test_an_attack_sees_the_upload_the_plan_and_the_public_problem_alone():
    assert [field.name for field in dataclasses.fields(Seen)] == ["upload", "plan", "problem", "spec", "records"]
    problem = task()
    seen = see(scheme("fl-std"), problem, 7)
    assert seen.problem is problem.problem  # public rows, and no population
    assert not {"train", "split", "population"} & set(vars(seen.problem))
    # Whatever the client holds: the same upload gives the same rows.
    other = hush.Task(problem.model, problem.loss, images(40, seed=5), [[k] for k in range(40)], public=problem.public)
    theirs = dataclasses.replace(see(scheme("fl-std"), other, 7), upload=seen.upload)
    assert Analytic().reconstruct(theirs).equal(Analytic().reconstruct(seen))


def test_uploads_are_those_of_the_schemes_own_code():
    problem, wanted = task(), scheme("fl-sign")
    seen = see(wanted, problem, 2, seed=4)
    block = problem.block(np.array([2]), hush.SecretSeed.simulated(4))
    assert seen.upload.equal(wanted.client(block, seen.plan)[0])
    assert set(seen.upload.tolist()) == {-1.0, 1.0}


def test_likeness():
    x = images(2)[0]
    assert psnr(x + 0.1, x, 1.0) == pytest.approx((20.0, 20.0), abs=1e-4)
    assert psnr(x, x, 1.0) == (EXACT, EXACT)
    assert ssim(x, x, 1.0) == pytest.approx((1.0, 1.0))
    assert max(ssim(1 - x, x, 1.0)) < 0.1
    assert ssim(x.flatten(1), x.flatten(1), 1.0) == pytest.approx((1.0, 1.0))
    # Constant images have no structure: what is left compares their means.
    flat = torch.ones(1, 1, 9, 9)
    assert ssim(0.5 * flat, flat, 1.0)[0] == pytest.approx((2 * 0.5 + 1e-4) / (1.25 + 1e-4))


def test_the_baseline_is_the_mean_of_public_rows():
    problem = task()
    found = invert(scheme("fl-std"), problem, 1, Analytic())
    error = float((problem.public.inputs.mean(0) - problem.train.inputs[1]).square().mean())
    error /= float(problem.public.inputs.max()) ** 2  # black is 0
    assert found.baseline[0][0] == pytest.approx(-10 * math.log10(error), abs=1e-3)


def test_a_picture_shows_originals_above_reconstructions():
    found = invert(scheme("fl-std", batch=None), task(rows=3), 1, Analytic())
    shown = Image.open(io.BytesIO(picture(found, scale=1)))
    assert shown.size == (3 * (SIDE + 2), 2 * (SIDE + 2))
    top = torch.from_numpy(np.array(shown))[1 : SIDE + 1, 1 : SIDE + 1]
    assert (top / 255 * found.high - found.originals[0, 0]).abs().max() < 0.003


def test_mistakes_are_said():
    problem = task("cnn")
    with pytest.raises(Mistake, match="not linear with a bias"):
        first_layer(see(scheme("fl-std"), problem, 0))
    with pytest.raises(Mistake, match="not one of the 40"):
        invert(scheme("fl-std"), problem, 40, Analytic())
    with pytest.raises(Mistake, match="fewer numbers than coordinates"):
        see(scheme("fl-cs", ratio=0.5, chunks=1), problem, 0)
    with pytest.raises(Mistake, match="secure sum"):
        see(hush.secured(scheme("fl-std-dp"), problem), problem, 0)
    with pytest.raises(Mistake, match="must be positive"):
        Matching(rate=0.0)
    bare = hush.Task(problem.model, problem.loss, problem.train, problem.split)
    with pytest.raises(Mistake, match="public rows"):
        invert(scheme("fl-std"), bare, 0, Analytic())
    plain = invert(scheme("fl-std"), task(), 0, Analytic())
    with pytest.raises(Mistake, match="no images"):
        picture(dataclasses.replace(plain, originals=torch.zeros(1, 4), reconstructions=torch.zeros(1, 4)))


def test_the_committed_table_is_that_of_the_committed_results():
    folder = Path(__file__).parents[2] / "experiments" / "attacks"
    script = runpy.run_path(str(folder / "inversion.py"))
    with (folder / "inversion.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (folder / "inversion.md").read_text() == script["report"](rows)
    pictures, attacks = map(str, script["PICTURES"]), script["NETWORKS"]
    wanted = {(name, how) for name in script["SCHEMES"] for how in attacks} | {(script["BASELINE"], "none")}
    assert {(row["scheme"], row["attack"], row["picture"]) for row in rows} == {
        (*case, picture) for picture in pictures for case in wanted
    }
    # What the table is there to show: plain updates are the picture, those with noise are nothing of it.
    base = {row["picture"]: float(row["psnr"]) for row in rows if row["attack"] == "none"}
    for row in rows:
        gain = float(row["psnr"]) - base[row["picture"]]
        assert row["scheme"] != "fl-std" or gain > 10
        assert not row["scheme"].endswith("-dp") or gain < 2 * MARGIN
