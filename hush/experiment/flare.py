"""What a FLARE job of hush names: the server and a site, as classes that FLARE makes from the job's JSON."""

import json
import logging
import tomllib
from pathlib import Path
from threading import Thread
from typing import Any

from hush import __version__
from hush.errors import Mistake, Refused
from hush.experiment import config, local
from hush.experiment.client import Office, only_one
from hush.experiment.rules import rules
from hush.experiment.server import host
from hush.federation import envelopes, flare, kit
from hush.federation.cellnet import SERVER, Ears
from hush.federation.envelopes import Kind
from hush.federation.flare import Calls
from hush.federation.kit import Kit
from hush.federation.site import UNTOLD, Site

LOG = logging.getLogger("hush")


def say(event: str, **facts: Any) -> None:
    """An event, to the log of the job."""
    LOG.info("%s %s", event, json.dumps(facts))


class Server:
    """hush's server in a job. `experiment` is TOML, `federation` the fingerprint of the kits."""

    def __init__(
        self, name: str, experiment: str, federation: str, deadline: float = 300.0, wait: float | None = None
    ) -> None:
        self._name, self._experiment, self._federation = name, experiment, federation
        self._deadline, self._wait = deadline, wait
        self._declined: dict[str, str] = {}
        self._training = False
        self._line: Calls | None = None

    @flare.main
    def train(self) -> None:
        """The run; the same job again goes on with it."""
        folder = flare.folder()
        asked = local.hosting(folder)
        own = _kit(local.placed(folder, asked.kit, SERVER), self._federation)
        if not own.coordinator:
            raise Mistake(f"{own.path} is the kit of the site {own.name}: name the coordinator's in [server]")
        tables = tomllib.loads(self._experiment)
        if asked.data is not None:
            data = str(local.placed(folder, asked.data, SERVER)) if config.is_path(asked.data) else asked.data
            tables.setdefault("data", {})["name"] = data
        out = own.path / "runs" / self._name if asked.out is None else local.placed(folder, asked.out, SERVER)
        out.parent.mkdir(parents=True, exist_ok=True)
        peers = flare.peers()

        def line(_: Kit, ears: Ears) -> Calls:
            self._line = Calls(peers, ears)
            return self._line

        wanted = config.parse(tables, "the job")
        with host(wanted, own, out, __version__, self._say, self._deadline, self._wait, line=line) as hosted:
            self._training = True
            say("charter", digest=hosted.charter.digest)
            for row in hosted.rows:
                say("round", **{key: row[key] for key in ("round", "aborted", "reason", "refused")})

    @flare.published
    def tell(self, data: bytes) -> None:
        """Bytes of the site that calls."""
        if self._line is not None:
            self._line.heard(flare.caller(), data)

    def _say(self, event: str, **facts: Any) -> None:
        """A site that declines cannot come back within the job: whoever waits for it ends the job with its reason."""
        say(event, **facts)
        if event == "declined":
            self._declined[facts["site"]] = facts["why"]
        if event not in ("waiting", "undecided"):
            return
        if flare.aborted():
            raise Mistake("the job was stopped")
        if self._declined and (self._wait is None or self._training):
            site, why = next(iter(self._declined.items()))
            raise Mistake(f"{site} does not take part, and cannot come back within this job: {why}")


class Client:
    """hush's site in the client's process of a job: its kit, rows and policy are those of its operator's hush.toml."""

    def __init__(self, federation: str) -> None:
        self._federation = federation
        self._site: Site | None = None
        self._thread: Thread | None = None

    @flare.begun
    def open(self) -> None:
        """Read what the operator says; a mistake ends the job before anything is said."""
        folder, name = flare.folder(), flare.name()
        asked = local.taking(folder)
        own = _kit(local.placed(folder, asked.kit, name), self._federation)
        if own.name != name:
            raise Mistake(f"{own.path} is the kit of {own.name}, and FLARE calls this site {name}: take the same name")

        def path(text: str | None) -> Path | None:
            return None if text is None else local.placed(folder, text, name)

        insisted = rules(own, path(asked.policy))
        office = Office(own, path(asked.data), insisted, say, asked.accept, path(asked.code))
        self._site = site = Site(own, office, __version__, say)
        site.send = Calls(flare.peers(), Ears(site.heard, site.joined, site.left)).send
        self._thread = Thread(target=_stay, args=(own, site), daemon=True, name="site")

    @flare.published
    def begin(self) -> None:
        """The server is there."""
        if self._site is not None and self._thread is not None and flare.caller() == SERVER:
            self._thread.start()  # which it does once
            self._site.joined(SERVER)

    @flare.published
    def tell(self, data: bytes) -> None:
        """Bytes of the server; others are not heard."""
        if self._site is not None:
            self._site.heard(flare.caller(), data)


def _stay(own: Kit, site: Site) -> None:
    """Until the run is over. Why a site has stopped is for its own log; the server hears that it has."""
    try:
        with only_one(own):
            say("over", why=site.run())
    except BaseException as why:
        LOG.error("%s", why, exc_info=not isinstance(why, Mistake))
        if not isinstance(why.__cause__, Refused | Mistake):  # which the server has seen
            site.send(SERVER, envelopes.seal(Kind.DECLINE, UNTOLD))


def _kit(path: Path, federation: str) -> Kit:
    """A party's kit, which is of the job's federation."""
    own = kit.read(path)
    if own.federation != federation:
        raise Mistake(f"{path} is of another federation than the job: submit the job of this one")
    return own
