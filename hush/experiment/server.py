"""The server of a real federation: it waits for its sites, offers them a charter and trains with them."""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hush.core.spec import Asked
from hush.core.task import Population, Problem
from hush.data import files
from hush.data.samples import Split
from hush.errors import Mistake
from hush.experiment import config as configuration
from hush.experiment import directory, federated
from hush.experiment.brief import Brief, brief
from hush.experiment.config import Config
from hush.experiment.federated import Federated
from hush.experiment.journal import Row
from hush.experiment.offer import offered
from hush.experiment.preparing import Prepared
from hush.experiment.resolving import DELTA, Experiment
from hush.federation import envelopes, kit
from hush.federation.cellnet import Cell, Ears
from hush.federation.channel import Line
from hush.federation.charter import Charter, digests, roster_digest
from hush.federation.claims import Claims
from hush.federation.envelopes import Kind
from hush.federation.kit import Kit
from hush.federation.network import Network, line_to
from hush.federation.remote import Remote
from hush.federation.second import Relay
from hush.federation.sites import GRACE, Sites
from hush.models.inputs import fitted
from hush.parts.aggregators.secure import run_name
from hush.parts.trainers.cohort import choose
from hush.random.seeds import SecretSeed
from hush.secure.keys import Identity
from hush.secure.sealed import introduced
from hush.secure.terms import Terms

Say = Callable[..., None]
PATIENCE = 10.0  # seconds between two lines on who is waited for


@dataclass(frozen=True)
class Hosted:
    """A federation that is about to train: `rows` does, a round at a time."""

    experiment: Experiment
    charter: Charter
    rows: Iterator[Row]


@dataclass
class _Taken:
    """Whose uploads were taken, on disk before the round's checkpoint: a site hears of it with its next question."""

    path: Path
    names: tuple[str, ...]
    rounds: dict[str, list[int]] = field(default_factory=dict)

    def read(self, sites: Sites) -> None:
        """What an earlier process of the server wrote."""
        if self.path.exists():
            self.rounds = json.loads(self.path.read_text())
        for name, known in self.rounds.items():
            sites.took(name, known[-1] if known else envelopes.NONE)

    def note(self, round: int, clients: tuple[int, ...]) -> None:
        """The two last rounds of each: the last one counts only where it was finished."""
        for client in clients:
            known = self.rounds.setdefault(self.names[client], [])
            self.rounds[self.names[client]] = [*known[-1:], round]
        files.write(self.path, json.dumps(self.rounds).encode())

    def settle(self, round: int, aborted: bool, sites: Sites) -> None:
        """A round is over."""
        for name, known in self.rounds.items():
            if aborted and round in known:
                known.remove(round)
            sites.took(name, known[-1] if known else envelopes.NONE)


@contextmanager
def host(
    config: Config,
    own: Kit,
    out: Path,
    version: str,
    say: Say,
    deadline: float | None = None,
    wait: float | None = None,
    grace: float = GRACE,
    second: str | None = None,
    line: Callable[[Kit, Ears], Line] = Cell,
) -> Iterator[Hosted]:
    """The federation of a kit's sites, ready to train by a configuration in a directory; a begun run goes on.

    `deadline`: seconds for each phase. `wait`: seconds after which it begins without sites that have not accepted the
    charter; all are waited for if not given. `second`: the member that is the second server. `grace`: see Sites.
    `version`: of hush, which sites must have too. `say(event, **facts)` is the log. `line`: what carries bytes.
    """
    everybody = kit.roster(own)
    members = tuple(one for one in everybody if one.name != second)
    if second is not None and len(members) == len(everybody):
        raise Mistake(f"{second} is not on the roster: approve the second server as a site is")
    if (second is not None) != (config.secure.servers == 2):
        raise Mistake("a sum in halves has a second server: give --second NAME with secure.servers=2, or neither")
    if not members:
        raise Mistake(f"{own.path} has no site on its roster: approve one with hush federation approve")
    stored = out / "config.toml"
    if stored.exists() and config.run.engine is None:
        engine = configuration.read(stored).run.engine
        config = config.model_copy(update={"run": config.run.model_copy(update={"engine": engine})})
    if config.secure.mode is not None:  # masks are real here
        config = config.model_copy(update={"secure": config.secure.model_copy(update={"mode": "full"})})
    ready = _engined(federated.prepared(config))
    about = brief(ready, str(ready.config.run.engine))
    asks = ready.entry.level == "record" or not ready.entry.private
    keys = {one.name: one.key for one in everybody}
    names = tuple(one.name for one in members)
    welcome = envelopes.seal(Kind.WELCOME, {"problem": about.json, "records": asks})
    sites = Sites(keys, own.federation, version, welcome, say, grace)
    cell = line(own, Ears(sites.heard, sites.joined, sites.left, sites.admit))
    sites.send = cell.send
    cell.start()
    say("listening", port=own.port, sites=len(keys))
    try:
        known = _registered(sites, out, names, asks, own.simulation is not None, wait, say)
        experiment = known.resolve(ready)
        helper = _introduced(sites, second, keys, out, say)
        charter = _charter(experiment, about, own, members, helper, out)
        directory.open_directory(out, experiment.config, resume=True)
        known.write(out)
        files.write(out / "charter.json", charter.json.encode())
        sites.offer(offered(charter, experiment.task.problem, own, second), charter.digest)
        _agreed(sites, charter.digest, wait, say)
        taken = _Taken(out / "taken.json", names)
        taken.read(sites)
        clients = Remote(
            experiment.task,
            Network(sites, names, charter.digest),
            charter.run,
            charter.digest,
            {number: one.key for number, one in enumerate(members)},
            deadline,
            claims=Claims(out / "begun.json"),
            simulation=own.simulation is not None,
            taken=taken.note,
            relay=None if second is None else _relay(sites, second, keys[second], own, charter.digest, deadline),
        )
        secret = _secret(own)

        def rows() -> Iterator[Row]:
            for row in directory.execute(experiment, out, clients=clients, secret=secret):
                taken.settle(row["round"], row["aborted"], sites)
                yield row
                if row["round"] < experiment.config.run.rounds:
                    _there(sites, charter.digest, 3 if experiment.scheme.secure else 1, say)

        yield Hosted(experiment, charter, rows())
        sites.over(f"the run is finished after {experiment.config.run.rounds} rounds")
    finally:
        cell.stop()


def _engined(ready: Prepared) -> Prepared:
    """With the engine that clients train by, which is in the charter."""
    config, rows = ready.config, ready.data.test
    if config.run.engine is not None:
        return ready
    problem = Problem(ready.model, ready.loss.function, rows, ready.public)
    engine = choose(problem, Population(fitted(ready.model, rows), Split.of([range(len(rows))])))
    return replace(ready, config=config.model_copy(update={"run": config.run.model_copy(update={"engine": engine})}))


def _registered(
    sites: Sites, out: Path, names: tuple[str, ...], asks: bool, simulation: bool, wait: float | None, say: Say
) -> Federated:
    """How many records each site has, where that is public; they are asked once in a run, and all must say it."""
    known = federated.stored(out)
    if known is not None:
        if tuple(known.sites) != names or known.simulation != simulation:
            raise Mistake(f"{out} was begun with other sites or another kit: choose another --out")
        return known

    def ready() -> bool:
        there = sites.registered
        return all(name in there and (there[name] or not asks) for name in names)

    left = None if asks else wait
    while not sites.gather(ready, PATIENCE if left is None else min(PATIENCE, left)):
        say("waiting", sites=list(sites.missing) or [name for name, n in sites.registered.items() if not n])
        left = None if left is None else left - PATIENCE
        if left is not None and left <= 0:
            break
    return Federated({name: sites.registered.get(name) or 1 for name in names}, asks, simulation)


def _introduced(sites: Sites, second: str | None, keys: dict[str, bytes], out: Path, say: Say) -> str:
    """How the second server has introduced itself, when it has; in a begun run as the charter says."""
    if second is None:
        return ""
    if (out / "charter.json").exists():
        return Charter.read((out / "charter.json").read_text()).second
    while not sites.gather(lambda: second not in sites.missing, PATIENCE):
        say("waiting", sites=[second])
    found = sites.introduction(second)
    try:
        key, _ = introduced(bytes.fromhex(found))
    except ValueError:
        raise Mistake(f"{second} is no second server: start it with hush second") from None
    if key != keys[second]:
        raise Mistake(f"{second} has introduced itself with another key than the roster's: revoke it")
    return found


def _relay(
    sites: Sites, second: str, key: bytes, own: Kit, digest: str, deadline: float | None
) -> Callable[[Terms, Asked], Relay]:
    """What opens a round with the second server."""
    identity, ask = Identity(own.identity_seed), line_to(sites, second, digest, deadline)
    return lambda terms, asked: Relay(terms, asked, identity, key, ask)


def _charter(
    experiment: Experiment, about: Brief, own: Kit, members: tuple[kit.Member, ...], second: str, out: Path
) -> Charter:
    """That of the run in the directory, or a new one."""
    scheme, place = experiment.scheme, out / "charter.json"
    name = run_name(_secret(own)) if own.simulation is not None else secrets.token_hex(32)
    if place.exists():
        name = Charter.read(place.read_text()).run
    wanted = experiment.config
    charter = Charter(
        run=name,
        scheme=scheme.to_json(),
        seed=wanted.run.seed,
        population=len(members),
        rounds=wanted.run.rounds,
        delta=wanted.scheme.delta or DELTA,
        records=int(experiment.task.sizes.min()) if scheme.level == "record" else 1,
        roster=roster_digest(tuple((number, one.key) for number, one in enumerate(members))),
        server=own.server.hex(),
        second=second,
        problem=about.json,
        **digests(experiment.task.problem),
    )
    if place.exists() and place.read_text() != charter.json:
        raise Mistake(
            f"{out} was begun under another charter: its sites or settings have changed; choose another --out"
        )
    return charter


def _agreed(sites: Sites, digest: str, wait: float | None, say: Say) -> None:
    """Until all have accepted the charter, or the time is up."""
    left = wait
    while not sites.gather(lambda: not sites.undecided(digest), PATIENCE if left is None else min(PATIENCE, left)):
        say("undecided", sites=list(sites.undecided(digest)), charter=digest[:16])
        if left is not None:
            left -= PATIENCE
            if left <= 0:
                return


def _there(sites: Sites, digest: str, least: int, say: Say) -> None:
    """Until so many sites are there: behind a cut link all rounds would go by without anybody.

    It does not depend on who is drawn. `least`: those without whom no round has a sum.
    """
    while not sites.gather(lambda: len(sites.present(digest)) >= min(least, len(sites.names)), PATIENCE):
        present = sites.present(digest)
        say("waiting", sites=[name for name in sites.names if name not in present])


def _secret(own: Kit) -> SecretSeed:
    return SecretSeed.system() if own.simulation is None else SecretSeed.simulated(own.simulation)
