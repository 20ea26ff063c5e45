"""A federation as a job of NVIDIA FLARE, in FLARE's own simulator: the weights of hush's simulator, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from network.parties import federation
from network.test_network import SITES, _agree, simulated, tables
from safetensors.torch import load_file

from hush.experiment import config
from hush.experiment.job import ALLOWED, exported
from hush.federation import kit

pytestmark = pytest.mark.network
LOCAL = """
[server]
kit = "{0}/kits/coordinator"
out = "{0}/run"

[site]
kit = "{0}/kits/{{name}}"
data = "{0}/rows/{{name}}.npz"
"""


def flare(folder: Path, workspace: Path) -> subprocess.CompletedProcess[str]:
    """The job in FLARE's simulator: a process for each site, which may build the classes of the allow-list alone."""
    local = workspace / "local"
    local.mkdir(parents=True)
    (local / "hush.toml").write_text(LOCAL.format(folder))
    allowed = sorted({one for classes in ALLOWED.values() for one in classes})
    enforced = {"class_list_enforcement_mode": "enforce", "class_allow_list": allowed}
    (local / "resources.json").write_text(json.dumps({"format_version": 2, **enforced}))
    words = [sys.executable, "-m", "nvflare.cli", "simulator", str(folder / "job"), "-w", str(workspace)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    return subprocess.run(
        [*words, "-c", ",".join(SITES), "-t", str(len(SITES))],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=150,
        check=False,
    )


def test_a_job_has_the_simulator_s_weights(tmp_path: Path) -> None:
    """Three sites, masks and integer noise; and server and sites agree on what was spent."""
    wanted = tables("fl-top-dp", True)
    wanted["run"] = {**wanted["run"], "rounds": 2}
    with federation(tmp_path, SITES, wanted) as place:
        exported(tmp_path / "job", "job", config.parse(wanted, "test"), kit.read(place.kit("server")))
        done = flare(tmp_path, tmp_path / "flare")
        assert done.returncode == 0, done.stdout[-3000:]
        found = load_file(place.out / "model.safetensors")
        known = simulated(wanted, tmp_path / "simulated")
        assert all(torch.equal(found[name], known[name]) for name in known)
        _agree(place)
