"""What the coordinator does: found a federation, approve sites, renew certificates, revoke."""

import contextlib
import hashlib
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from cryptography import x509

from hush.data import files
from hush.errors import Mistake, Refused
from hush.federation import certificates as issued
from hush.federation import enrolment
from hush.federation import kit as kits
from hush.federation.enrolment import Grant, Request
from hush.federation.kit import COORDINATOR, Kit
from hush.secure.keys import Identity, repeatable

PORT, DAYS = 8900, 365
_LABEL = r"(?!-)[a-z0-9-]{1,63}(?<!-)"


def init(
    folder: Path,
    host: str,
    port: int = PORT,
    sites: Sequence[str] = (),
    days: int = DAYS,
    simulation: int | None = None,
    start: datetime | None = None,
) -> Kit:
    """Found a federation: the coordinator's kit, and for a trial those of these sites, complete.

    In a rehearsal the identities are those of its seed; the keys of TLS are always new.
    """
    host = _host(host)
    _check_port(port)
    _check_days(days)
    for name in sites:
        kits.check_name(name)
        if name == COORDINATOR or sites.count(name) > 1:
            raise Mistake(f"--site {name} would share a folder with another kit: choose another name")
    if simulation is not None and not sites:
        raise Mistake(f"--simulation {simulation} is of kits that are made together: name each --site")
    for name in (COORDINATOR, *sites):
        enrolment.free(folder / name)
    start, key = start or issued.now(), issued.new_key()
    authority = issued.authority(key, start)
    seeds = {
        name: os.urandom(32) if simulation is None else repeatable(f"kit {simulation} {name}".encode())(32)
        for name in (issued.SERVER, *sites)
    }
    server = Identity(seeds[issued.SERVER]).public

    def fill(draft: Path) -> None:
        for name, seed in seeds.items():
            own, seen = issued.new_key(), Identity(seed).public
            given = (authority, key, name, own, seen, start, days)
            cert = issued.pem(issued.issue(*given, host=host if name == issued.SERVER else None))
            place = draft / (COORDINATOR if name == issued.SERVER else name)
            enrolment.secrets(place, own, seed)
            enrolment.complete(place, name, host, port, authority, server, cert, simulation)
            if name != issued.SERVER:
                files.write(draft / COORDINATOR / "sites" / f"{name}.pem", cert)
        files.write(draft / COORDINATOR / "ca-key.pem", issued.key_pem(key), private=True)
        (draft / COORDINATOR / "sites").mkdir(exist_ok=True)

    with enrolment.writing(folder):
        files.add_folders(folder, fill)
    return kits.whole(folder / COORDINATOR)


def check_new(kit: Kit, asked: Request) -> None:
    """A Mistake where this site cannot be put on the roster."""
    if kit.simulation is not None:
        raise Mistake(f"{kit.path} is of a rehearsal, which protects nobody: found a federation without --simulation")
    own = issued.public(asked.asked)
    for one, _, pem in kits.filed(kit):
        if one.name == asked.name:
            raise Mistake(
                f"{one.name} is on the roster already: hush federation revoke {kit.path} {one.name} comes first"
            )
        if one.key.hex() == asked.identity or issued.public(issued.read(pem)) == own:
            raise Mistake(f"{asked.name} has the keys of {one.name}: each site makes a request of its own")
    if {asked.identity, own.hex()} & _revoked(kit):
        raise Mistake(f"the keys of {asked.name} were revoked: the site makes a new request")


def approve(kit: Kit, asked: Request, days: int = DAYS, start: datetime | None = None) -> Path:
    """Put a site on the roster; the file to hand back to it."""
    _check_days(days)
    with enrolment.writing(kit.path), _roster(kit):
        check_new(kit, asked)
        return _grant(kit, asked.name, asked.asked, bytes.fromhex(asked.identity), days, start)


def renew(kit: Kit, name: str, days: int = DAYS, start: datetime | None = None) -> Path:
    """A new certificate for the same keys: the server's own, or a file to hand to a site of the roster."""
    _check_days(days)
    with enrolment.writing(kit.path), _roster(kit):
        own = name == issued.SERVER
        place = kit.certificate if own else _on_roster(kit, name)
        old = kits.certificate(place)
        if not own:
            kits.filed(kit)  # which checks it
            return _grant(kit, name, old, issued.identity_of(old), days, start)
        authority, key = _authority(kit)
        given = (authority, key, name, old, issued.identity_of(old), start or issued.now(), days)
        files.write(place, issued.pem(issued.issue(*given, host=kit.host)))
        return place


def revoke(kit: Kit, name: str) -> Path:
    """Take a site off the roster; its certificate is kept among the revoked ones."""
    with enrolment.writing(kit.path), _roster(kit):
        place = _on_roster(kit, name)
        digest = hashlib.sha256(kits.content(place)).hexdigest()
        gone = kit.path / "revoked" / f"{name}-{digest[:16]}.pem"
        files.move(place, gone)
        place.with_suffix(".kit.json").unlink(missing_ok=True)
    return gone


@contextlib.contextmanager
def _roster(kit: Kit) -> Iterator[None]:
    """One change of the roster at a time."""
    if not kit.coordinator:
        raise Mistake(f"{kit.path} is the kit of {kit.name}: the coordinator's has the roster")
    with files.alone(kit.path / "roster"):
        yield


def _on_roster(kit: Kit, name: str) -> Path:
    """The file of a site's certificate."""
    place = kit.path / "sites" / f"{name}.pem"
    if not kits.named(name) or not os.path.isfile(place):
        raise Mistake(f"{name[:60]!r} is not on the roster: see hush federation show {kit.path}")
    return place


def _grant(kit: Kit, name: str, party: issued.Signed, identity: bytes, days: int, start: datetime | None) -> Path:
    """Certify a site, and write what it gets back; its certificate comes last, since that is the roster."""
    authority, key = _authority(kit)
    cert = issued.pem(issued.issue(authority, key, name, party, identity, start or issued.now(), days))
    ours, server = (kits.content(path).decode() for path in (kit.authority, kit.certificate))
    grant = Grant(name, kit.host, kit.port, kit.federation, ours, cert.decode(), server)
    answer = kit.path / "sites" / f"{name}.kit.json"
    files.write(answer, enrolment.as_json(asdict(grant)))
    files.write(kit.path / "sites" / f"{name}.pem", cert)
    return answer


def _authority(kit: Kit) -> tuple[x509.Certificate, issued.Key]:
    """The authority's certificate and its private key, which only this command needs."""
    place, cert = kit.path / "ca-key.pem", kits.certificate(kit.authority)
    key = kits.checked(place, issued.read_key, kits.content(place))
    if issued.public(key) != issued.public(cert):
        raise Mistake(f"{place} is the key of another authority: restore it from a copy")
    if not issued.timely(cert, issued.now()):
        raise Mistake(f"{kit.authority} is not valid now: set this machine's clock, or found a new federation")
    return cert, key


def _revoked(kit: Kit) -> set[str]:
    """Identities and TLS keys that were revoked, in hexadecimal digits."""
    found = set()
    for path in (kit.path / "revoked").glob("*.pem"):
        with contextlib.suppress(Refused):
            cert = issued.read(kits.content(path))
            found |= {issued.identity_of(cert).hex(), issued.public(cert).hex()}
    return found


def _host(host: str) -> str:
    """A name or an address that clients can reach, spelled as TLS compares it."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if not address.is_unspecified and "%" not in host:
            return str(address)
    name = host.lower()
    labels = name.split(".")
    right = len(name) <= 253 and all(re.fullmatch(_LABEL, label) for label in labels) and not labels[-1].isdigit()
    if not right:
        raise Mistake(
            f"--host {host[:60]} is no host: give the name or address by which sites reach it, without a port"
        )
    return name


def _check_port(port: int) -> None:
    if not 1 <= port <= 65535:
        raise Mistake(f"--port {port} must be from 1 to 65535: {PORT} is the usual one")


def _check_days(days: int) -> None:
    if not 1 <= days <= issued.LASTS:
        raise Mistake(f"--days {days} must be from 1 to {issued.LASTS}: {DAYS} is the usual one")
