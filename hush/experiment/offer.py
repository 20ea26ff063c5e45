"""A charter on its way from the server to a site: with the roster's certificates and the public batch."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hush.core.protocols import Roster
from hush.core.scheme import Scheme
from hush.core.task import Problem
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake, Refused
from hush.experiment.brief import Brief
from hush.federation import envelopes, kit
from hush.federation.charter import Charter, roster_digest
from hush.federation.envelopes import Kind
from hush.federation.kit import Kit
from hush.secure.keys import Identity
from hush.secure.sealed import introduced


@dataclass(frozen=True)
class Offer:
    """A charter as it came, opened: the scheme, the problem, the roster."""

    charter: Charter
    scheme: Scheme
    brief: Brief
    problem: Problem
    names: tuple[str, ...]
    roster: Roster
    second: str | None = None  # the name of the second server


def offered(charter: Charter, problem: Problem, own: Kit, second: str | None = None) -> bytes:
    """The charter with the roster's certificates and the public batch."""
    people = {name: pem.decode() for name, pem in kit.certificates(own).items()}
    helper = "" if second is None else people.pop(second)
    texts = {"charter": charter.json, "roster": json.dumps(people), "second": helper}
    return envelopes.seal_tensors(Kind.CHARTER, _packed(problem.public), texts)


def _packed(rows: Samples | None) -> dict[str, Tensor]:
    """Rows as tensors by name."""
    if rows is None:
        return {"none": torch.zeros(0)}
    found = rows.inputs
    if not isinstance(found, Sparse):
        return {"inputs": found.contiguous(), "targets": rows.targets.contiguous()}
    parts = {"starts": found.starts, "columns": found.columns, "values": found.values, "targets": rows.targets}
    return {**{name: part.contiguous() for name, part in parts.items()}, "width": torch.tensor([found.width])}


def opened(own: Kit, tensors: dict[str, Tensor], texts: dict[str, str], code: Path | None = None) -> Offer:
    """A charter, with the roster's certificates and the public batch, each held against the charter's digests."""
    charter = Charter.read(texts.get("charter", ""))
    if charter.server != own.server.hex() and own.simulation is None:
        raise Refused("the charter is another server's than that of this site's kit")
    try:
        people = json.loads(texts.get("roster", ""))
        pems = {str(name): str(pem).encode() for name, pem in people.items()}
    except (ValueError, AttributeError, RecursionError):
        raise Refused("the roster did not arrive whole") from None
    authority = own.authority.read_bytes()
    members = [kit.member(pem, authority) for _, pem in sorted(pems.items())]
    names = tuple(one.name for one in members)
    if list(names) != sorted(pems) or len(set(names)) != len(names):
        raise Refused("the roster's certificates are not those of its names")
    roster = tuple((number, one.key) for number, one in enumerate(members))
    if roster_digest(roster) != charter.roster or len(roster) != charter.population:
        raise Refused("the roster is not the charter's")
    second = _second(charter, texts.get("second", ""), authority)
    known = dict(zip(names, (key for _, key in roster), strict=True))
    if second is not None and (second.name in known or second.key in known.values()):
        raise Refused("the second server is on the roster of clients: it would see its own sum in halves")
    if second is not None:
        known[second.name] = second.key
    if known.get(own.name) != Identity(own.identity_seed).public:
        raise Refused(f"the roster does not have {own.name} with its key")
    brief, scheme = Brief.read(charter.problem), charter.decoded()
    if scheme.to_json() != charter.scheme:
        raise Refused("the charter's scheme is not written as hush writes it")
    try:
        problem = brief.problem(_unpacked(tensors, brief), code)
    except Mistake as why:
        raise Refused(f"the charter's problem cannot be made here: {why}") from why
    charter.check(problem)
    return Offer(charter, scheme, brief, problem, names, roster, None if second is None else second.name)


def _second(charter: Charter, pem: str, authority: bytes) -> kit.Member | None:
    """The charter's second server, whose certificate has the key that introduced itself."""
    if not charter.second:
        return None
    found = kit.member(pem.encode(), authority)
    try:
        key, _ = introduced(bytes.fromhex(charter.second))
    except (ValueError, Mistake) as why:
        raise Refused(f"the charter's second server is refused: {why}") from why
    if key != found.key or key.hex() == charter.server:
        raise Refused("the charter's second server is not the one of its certificate, or is the first one")
    return found


def _unpacked(tensors: dict[str, Tensor], brief: Brief) -> Samples | None:
    """The public batch: rows as the model takes them."""
    if "none" in tensors:
        return None
    try:
        inputs: Tensor | Sparse
        if "inputs" in tensors:
            inputs = tensors["inputs"]
        else:
            starts, columns, values = (tensors[name] for name in ("starts", "columns", "values"))
            if bool((starts.diff() < 0).any()):
                raise ValueError("its rows overlap")
            inputs = Sparse(starts, columns, values, int(tensors["width"]))
        found = Samples(inputs, tensors["targets"])
        dense = isinstance(inputs, Sparse) or inputs.dtype is torch.float32
        if not dense or found.targets.dtype not in (torch.int64, torch.float32):
            raise ValueError("its numbers are of other types")
        if list(inputs.shape[1:]) != brief.inputs:
            raise ValueError("its rows are of another shape")
    except (KeyError, IndexError, ValueError, TypeError, RuntimeError) as error:
        raise Refused(f"the public batch did not arrive as hush sends it ({type(error).__name__})") from None
    return found
