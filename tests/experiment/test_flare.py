"""What a FLARE job names, against a stand-in of Collab's calls: who takes part, who does not, and why."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from hush.errors import Mistake
from hush.experiment import flare, local, server
from hush.experiment.population import deal
from hush.federation import flare as calls
from hush.federation import kit
from hush.federation.coordinator import init

SITES = ("a", "b")
EXPERIMENT = """
data.name = "digits"
run = {rounds = 2, seed = 7}
sampling = {kind = "fixed", cohort = 2}
scheme = {name = "fl-top-dp", ratio = 0.1, noise = 1.0, clip = 0.5}
"""
NAME: ContextVar[str] = ContextVar("name")
CALLER: ContextVar[str] = ContextVar("caller")


class Peer:
    """A proxy as Collab has it: calls go to the target's own threads, and are not waited for."""

    def __init__(self, caller: str, name: str, targets: dict[str, object], pool: ThreadPoolExecutor) -> None:
        self._caller, self._name, self._targets, self._pool = caller, name, targets, pool

    def __call__(self, **options: object) -> "Peer":
        return self

    def tell(self, data: bytes) -> None:
        self._pool.submit(self._do, "tell", data)

    def begin(self) -> None:
        self._pool.submit(self._do, "begin")

    def _do(self, method: str, *given: bytes) -> None:
        NAME.set(self._name)
        CALLER.set(self._caller)
        getattr(self._targets[self._name], method)(*given)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The job of a server and two sites, in this process."""
    init(tmp_path / "kits", "localhost", 8900, list(SITES), simulation=7)
    deal("digits", tmp_path / "rows", list(SITES), "iid", 7)
    for name in SITES:
        (tmp_path / "kits" / name / "policy.toml").write_text('accept = "rule"\n')
    (tmp_path / local.FILE).write_text(
        '[server]\nkit = "kits/coordinator"\nout = "run"\n\n[site]\nkit = "kits/{name}"\ndata = "rows/{name}.npz"\n'
    )
    monkeypatch.setattr(server, "PATIENCE", 0.3)
    monkeypatch.setattr(calls, "folder", lambda: tmp_path)
    monkeypatch.setattr(calls, "name", NAME.get)
    monkeypatch.setattr(calls, "caller", CALLER.get)
    monkeypatch.setattr(calls, "aborted", lambda: False)

    def go(wait: float | None = None) -> None:
        known = kit.read(tmp_path / "kits" / "coordinator").federation
        targets: dict[str, object] = {"server": flare.Server("job", EXPERIMENT, known, 60.0, wait)}
        targets |= {name: flare.Client(known) for name in SITES}
        with ThreadPoolExecutor(8) as pool:
            monkeypatch.setattr(calls, "peers", lambda: {to: Peer(NAME.get(), to, targets, pool) for to in targets})
            for name in SITES:
                NAME.set(name)
                targets[name].open()
            NAME.set("server")
            targets["server"].train()

    return go


def test_a_job_trains(play: Callable[..., None], tmp_path: Path) -> None:
    play()
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert (tmp_path / "kits" / "a" / "state" / "ledger.json").exists()


def test_a_site_that_declines_ends_the_job_with_its_reason(play: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "kits" / "b" / "policy.toml").write_text('schemes = ["fl-std"]\naccept = "rule"\n')
    with pytest.raises(Mistake, match=r"b does not take part.*which this site takes part in"):
        play()
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_site_that_stops_says_no_more_than_that(play: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "rows" / "b.npz").unlink()
    with pytest.raises(Mistake, match=r"b does not take part.*, and its operator is told why$"):
        play()


def test_a_kit_of_another_name_or_federation_is_a_mistake(play: Callable[..., None], tmp_path: Path) -> None:
    place = tmp_path / local.FILE
    text = place.read_text()
    place.write_text(text.replace("kits/{name}", "kits/a"))
    with pytest.raises(Mistake, match="FLARE calls this site b"):
        play()
    init(tmp_path / "others", "localhost", 8900, list(SITES), simulation=7)
    place.write_text(text.replace("kits/{name}", "others/{name}"))
    with pytest.raises(Mistake, match="another federation than the job"):
        play()


def test_only_the_server_is_heard(play: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    NAME.set("a")
    monkeypatch.setattr(calls, "peers", dict)
    site = flare.Client(kit.read(tmp_path / "kits" / "coordinator").federation)
    site.open()
    CALLER.set("b")
    site.begin()
    site.tell(b"anything")
    assert not site._thread.is_alive()
    assert site._site._inbox.empty()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no kit in a table .server."),
        ('[server]\nkit = "k"\nkey = 1\n', "'server.key' is not known"),
        ("[server", "is not TOML"),
    ],
)
def test_a_wrong_file_is_a_mistake(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / local.FILE).write_text(text)
    with pytest.raises(Mistake, match=said):
        local.hosting(tmp_path)


def test_a_missing_file_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="cannot be read"):
        local.taking(tmp_path)
