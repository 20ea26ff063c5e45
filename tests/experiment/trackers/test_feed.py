"""Trackers get each round once, and nothing that the guarantee takes as secret."""

import json

import pytest

from hush.errors import Mistake
from hush.experiment import config, directory
from hush.experiment.resolving import build
from hush.experiment.trackers import feed, public, tensorboard

# What stays at the server of a private run: words, who took part and how many, and what follows from that.
STAYS = "round cohort aborted reason refused level best_round clip bytes seconds kernels length measure larger".split()


def experiment(name, **scheme):
    settings = {
        "data": {"name": "digits"},
        "model": {"name": "linear"},
        "scheme": {"name": name, "accountant": "rdp", **scheme},
        "train": {"steps": 1},
        "run": {"rounds": 4, "seed": 77_123},
    }
    return build(config.parse(settings, "test"))


@pytest.fixture(scope="module")
def private():
    return experiment("fl-std-dp", noise=1.0, clip=0.1)


def run(built, path, words, stop=None):
    """Train in the directory and feed its trackers, to the end or to a stop."""
    directory.open_directory(path, built.config, resume=True)
    said = []
    fed = feed.Feed(words, path, path.name, built.config, said.append)
    for row in directory.execute(built, path):
        fed.put(row)
        if row["round"] == stop:
            return said
    fed.close()
    return said


def board(word, path):
    """The points of each curve of a TensorBoard folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(json.loads((path / feed.KEPT).read_text())[word]).Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def record(word, path):
    """The metrics of an MLflow run."""
    from mlflow.tracking import MlflowClient

    client, name = (
        MlflowClient(f"sqlite:///{word.removeprefix('mlflow:')}/mlflow.db"),
        json.loads((path / feed.KEPT).read_text())[word],
    )
    metrics = client.get_run(name).data.metrics
    assert client.get_run(name).info.status == "FINISHED"
    return {tag: [(one.step, one.value) for one in client.get_metric_history(name, tag)] for tag in metrics}


@pytest.mark.parametrize(("kind", "read"), [("tensorboard", board), ("mlflow", record)])
def test_a_stopped_run_logs_no_round_twice_and_none_is_missing(kind, read, private, tmp_path, monkeypatch):
    # Who was stopped writes nothing after it. Here its thread lives on: what it was given is written at once, or never.
    monkeypatch.setattr(tensorboard, "FLUSH", 3600)
    put = tensorboard.Board.put

    def written(board, number, found):
        put(board, number, found)
        board.writer.file_writer.event_writer._async_writer._byte_queue.join()

    monkeypatch.setattr(tensorboard.Board, "put", written)
    word, path = f"{kind}:{tmp_path / 'there'}", tmp_path / "run"
    run(private, path, [], stop=1)  # a round before anybody asked for a tracker
    run(private, path, [word], stop=2)
    run(private, path, [word])
    run(private, path, [word])  # a finished run has nothing to add
    found = read(word, path)
    rows = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
    for name in ("accuracy", "loss"):
        steps, values = zip(*found[f"test/{name}"], strict=True)
        assert list(steps) == [1, 2, 3, 4]
        assert values == pytest.approx([row[name] for row in rows], rel=1e-6)
    assert [value for _, value in found["epsilon/model"]] == pytest.approx([row["epsilon"]["model"] for row in rows])


def test_two_runs_of_one_name_have_folders_of_their_own(private, tmp_path):
    word = f"tensorboard:{tmp_path / 'there'}"
    for place in ("one", "two"):
        run(private, tmp_path / place / "run", [word], stop=1)
    assert sorted(one.name for one in (tmp_path / "there").iterdir()) == ["run", "run-2"]


def test_what_a_private_run_shows(private, tmp_path):
    """Every field of a row is decided upon: a new one fails here until it is."""
    run(private, tmp_path, [])
    row = json.loads((tmp_path / "rounds.jsonl").read_text().splitlines()[-1])
    assert set(row) - {"epsilon"} - set(public.measured(row)) - set(STAYS) == set()
    assert {"accuracy", "loss", "best_accuracy"} <= set(public.measured(row))
    found = public.figures(row)
    assert {name.partition("/")[0] for name in found} == {"test", "epsilon"}
    assert [name for name in found if name.startswith("epsilon")] == ["epsilon/model"]


def test_a_run_without_a_guarantee_shows_its_bytes(tmp_path):
    built = experiment("fl-std")
    run(built, tmp_path, [])
    row = json.loads((tmp_path / "rounds.jsonl").read_text().splitlines()[-1])
    found = public.figures(row)
    assert found["kB_up/payload"] == row["bytes"]["up"]["payload"]["mean"] / 1000
    assert found["cohort"] == row["cohort"]
    assert "epsilon/model" not in found


def test_the_seed_and_folders_stay(private):
    """A simulation's noise follows from its seed."""
    there = private.config.model_copy(
        update={"data": private.config.data.model_copy(update={"name": "/home/me/own.py:load"})}
    )
    shown = public.settings(there)
    assert shown["data.name"] == "own.py:load"
    assert shown["scheme.noise"] == "1.0"
    assert "77123" not in json.dumps(shown)


@pytest.mark.parametrize("word", ["wandb:x", "tensorboard", "tensorboard:", "mlflow:"])
def test_what_is_no_tracker_is_refused(word):
    with pytest.raises(Mistake, match=r"names no tracker: write tensorboard:DIR or mlflow:DIR"):
        feed.check([word])


def test_a_tracker_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(feed, "find_spec", lambda name: None)
    with pytest.raises(Mistake, match=r"not installed: pip install 'hush-fl\[mlflow\]'"):
        feed.check(["mlflow:x"])


def test_a_place_that_cannot_be_written(private, tmp_path):
    (tmp_path / "file").write_text("")
    for kind in ("tensorboard", "mlflow"):
        with pytest.raises(Mistake, match=rf"--log-to {kind}:\S+/file/logs cannot be written"):
            run(private, tmp_path / kind, [f"{kind}:{tmp_path / 'file' / 'logs'}"])


def test_a_tracker_that_is_lost_does_not_stop_the_training(private, tmp_path, monkeypatch):
    from hush.experiment.trackers import tensorboard

    def put(self, number, found):
        raise feed.Lost("no route to host")

    monkeypatch.setattr(tensorboard.Board, "put", put)
    word = f"tensorboard:{tmp_path / 'there'}"
    said = run(private, tmp_path / "run", [word])
    assert said == [
        f"{word} is lost (no route to host): the run goes on; --resume with --log-to adds the missing rounds"
    ]
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_password_in_an_address_is_refused():
    with pytest.raises(Mistake, match="has a user or a password") as told:
        feed.check(["mlflow:https://me:s3cret@host/"])
    assert "s3cret" not in str(told.value)
