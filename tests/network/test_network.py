"""A server and its sites as processes of their own, over mutual TLS: the simulator's weights, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from network.parties import SEED, Place, federation
from safetensors.torch import load_file

from hush.experiment import config
from hush.experiment.directory import execute, open_directory
from hush.experiment.resolving import build
from hush.privacy.ledger import Ledger

pytestmark = pytest.mark.network
SITES = ("a", "b", "c")
PLAIN = {"data": {"name": "digits"}, "run": {"rounds": 5, "seed": SEED}}
SCHEMES: dict[str, dict[str, Any]] = {
    "fl-top-dp": {"scheme": {"name": "fl-top-dp", "ratio": 0.1, "noise": 1.0, "clip": 0.5}},
    "fl-sign-dp": {"scheme": {"name": "fl-sign-dp", "noise": 1.0}, "train": {"batch": 20, "steps": 2}},
    "two-bit": {"scheme": {"name": "two-bit", "precision": 4}},
    "hush": {"scheme": {"name": "hush", "noise": 1.0, "features": 20}},
    "top-k-ef": {"scheme": {"name": "top-k-ef", "ratio": 0.05}},
}
SECURE = {"fl-top-dp", "fl-sign-dp", "hush"}


def tables(name: str, secure: bool = False, **more: Any) -> dict[str, Any]:
    wanted = {**PLAIN, "sampling": {"kind": "fixed", "cohort": len(SITES)}, **SCHEMES[name], **more}
    return {**wanted, "secure": {"mode": "full"}} if secure else wanted


def simulated(wanted: dict[str, Any], out: Path, clients: int = len(SITES)) -> dict[str, torch.Tensor]:
    """The weights that one process makes of it, a client at a time."""
    wanted = {
        **wanted,
        "data": {**wanted["data"], "clients": clients},
        "run": {**wanted["run"], "block": 1, "exact": True},
    }
    built = build(config.parse(wanted, "test"))
    open_directory(out, built.config, resume=False)
    for _ in execute(built, out):
        pass
    return load_file(out / "model.safetensors")


CASES = [*((name, False) for name in SCHEMES), *((name, True) for name in sorted(SECURE))]


@pytest.mark.parametrize(("name", "secure"), CASES)
def test_weights_are_the_simulator_s(name: str, secure: bool, tmp_path: Path) -> None:
    """To the bit; and server and sites agree on what was spent."""
    wanted = tables(name, secure)
    with federation(tmp_path, SITES, wanted) as place:
        server, sites = place.server(), place.all()
        assert server.join() == 0, server.events()
        assert [party.join() for party in sites.values()] == [0, 0, 0]
        found = load_file(place.out / "model.safetensors")
        known = simulated(wanted, tmp_path / "simulated")
        assert all(torch.equal(found[name], known[name]) for name in known)
        _agree(place)


def test_two_servers_that_do_not_collude(tmp_path: Path) -> None:
    """The second adds up the masks; the first has the sum, and the weights are the simulator's."""
    wanted = {**tables("fl-sign-dp", True), "secure": {"mode": "full", "servers": 2}}
    with federation(tmp_path, SITES, wanted, second=("clerk",)) as place:
        server, clerk, sites = place.server(second="clerk"), place.second("clerk"), place.all()
        assert server.join() == 0, server.events("mistake")
        assert [party.join() for party in (clerk, *sites.values())] == [0, 0, 0, 0]
        found = load_file(place.out / "model.safetensors")
        known = simulated(wanted, tmp_path / "simulated")
        assert all(torch.equal(found[name], known[name]) for name in known)
        _agree(place)


def _agree(place: Place) -> None:
    """The sites' ledgers hold the events of the server's, and nothing else."""
    events = Ledger.load(place.out / "privacy.json").events if (place.out / "privacy.json").exists() else ()
    for name in place.sites:
        own = place.kit(name) / "state" / "ledger.json"
        mine = Ledger.load(own).events if own.exists() else ()
        assert [event.round for event in mine] == [event.round for event in events]
        assert all(one.noise == other.noise for one, other in zip(mine, events, strict=True))
