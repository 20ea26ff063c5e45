"""A party's kit: the folder with its keys, its certificate and where its federation is, checked when it is read."""

import contextlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from cryptography import x509

from hush.errors import Mistake, Refused
from hush.federation import certificates as issued
from hush.secure.keys import Identity

SITE = re.compile(r"[a-z][a-z0-9-]{0,39}")
COORDINATOR = "coordinator"  # the folder of the server's kit
LARGEST = 65536  # bytes of any file of a kit
FACTS = {"name": str, "host": str, "port": int, "federation": str, "server": str, "format": int}
SECRETS = ("key.pem", "identity.key", "ca-key.pem")  # which nobody else may read

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Member:
    """One of the roster: its name, the Ed25519 key that its certificate binds, and how long that is valid."""

    name: str
    key: bytes
    until: datetime


@dataclass(frozen=True)
class Kit:
    """Who a party is, and where its federation is.

    name           "server", or the site's name
    federation     SHA-256 of the authority's certificate: the fingerprint of the federation
    server         the server's Ed25519 public key
    identity_seed  32 secret bytes of the party's own Ed25519 identity
    simulation     the seed of a rehearsal, whose draws repeat and protect nobody; None in earnest
    """

    path: Path
    name: str
    host: str
    port: int
    federation: str
    server: bytes
    identity_seed: bytes = field(repr=False)
    simulation: int | None

    @property
    def coordinator(self) -> bool:
        """Whether this is the server's."""
        return self.name == issued.SERVER

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.path / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The party's own."""
        return self.path / "cert.pem"

    @property
    def key(self) -> Path:
        """The private key of TLS."""
        return self.path / "key.pem"

    @property
    def state(self) -> Path:
        """The folder of what the party must not forget (ledger, claims, accepted charters), made at the first call."""
        folder = self.path / "state"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def read(path: Path) -> Kit:
    """The kit in this folder; one that is not whole, not private or not valid now is a Mistake."""
    kit = whole(path)
    for place in (kit.authority, kit.certificate):
        found, now = certificate(place), issued.now()
        if now < found.not_valid_before_utc:
            raise Mistake(f"{place} is not valid before {shown(found.not_valid_before_utc)}: set this machine's clock")
        if now > found.not_valid_after_utc:
            remedy = f"hush federation renew {path}" if kit.coordinator else "ask the coordinator to renew it"
            remedy = remedy if place == kit.certificate else "found a new federation with hush federation init"
            raise Mistake(f"{place} expired on {shown(found.not_valid_after_utc)}: {remedy}")
    return kit


def whole(path: Path) -> Kit:
    """The kit in this folder, whether it is valid now or not."""
    known = described(path)
    check_private(path)
    kit = Kit(
        path,
        known["name"],
        known["host"],
        known["port"],
        known["federation"],
        bytes.fromhex(known["server"]),
        seed(path),
        known["simulation"],
    )
    authority, own = certificate(kit.authority), certificate(kit.certificate)
    if issued.fingerprint(authority) != kit.federation:
        raise Mistake(f"{kit.authority} is not the authority that kit.json names: restore both from a copy")
    checked(kit.authority, issued.check_authority, authority)
    checked(kit.certificate, issued.check_issued, own, authority, kit.coordinator)
    if checked(kit.certificate, issued.name_of, own) != kit.name:
        raise Mistake(f"{kit.certificate} is not for {kit.name}: restore this kit's own from a copy")
    key, identity = checked(kit.key, issued.read_key, content(kit.key)), Identity(kit.identity_seed).public
    same = issued.public(key) == issued.public(own) and identity == checked(kit.certificate, issued.identity_of, own)
    if not same or (kit.coordinator and kit.server != identity):
        raise Mistake(f"{kit.certificate} has other keys than this kit: restore all of the kit from one copy")
    if kit.coordinator and not issued.names_host(own, kit.host):
        raise Mistake(f"{kit.certificate} is not for the host {kit.host}: restore all of the kit from one copy")
    return kit


def roster(kit: Kit) -> tuple[Member, ...]:
    """The sites whose certificates the coordinator holds and are valid now, by name; of a site's kit a Mistake."""
    return tuple(one for one, valid, _ in filed(kit) if valid)


def certificates(kit: Kit) -> dict[str, bytes]:
    """The roster's certificates by name, in PEM: what the coordinator sends to sites."""
    return {one.name: pem for one, valid, pem in filed(kit) if valid}


def filed(kit: Kit) -> list[tuple[Member, bool, bytes]]:
    """All sites that were approved and not revoked: each with whether it is valid now, and its certificate."""
    if not kit.coordinator:
        raise Mistake(f"{kit.path} is the kit of {kit.name}: the coordinator's has the roster")
    authority, found, folder = certificate(kit.authority), [], kit.path / "sites"
    if not os.path.isdir(folder):
        raise Mistake(f"{folder} is missing: restore it from a copy")
    for path in sorted(folder.glob("[!.]*.pem"), key=lambda one: one.stem):
        pem = content(path)
        one = checked(path, _member, pem, authority)
        if one.name != path.stem:
            raise Mistake(f"{path} is the certificate of {one.name}: restore the roster from a copy")
        found.append((one, issued.timely(certificate(path), issued.now()), pem))
    return found


def member(pem: bytes, authority: bytes) -> Member:
    """The site of a certificate that this authority signed and that is valid now; anything else is Refused."""
    by = issued.read(authority)
    issued.check_authority(by)
    found = _member(pem, by)
    if not issued.timely(issued.read(pem), issued.now()):
        raise Refused(f"the certificate of {found.name} is not valid now, only until {shown(found.until)}")
    return found


def _member(pem: bytes, authority: x509.Certificate) -> Member:
    found = issued.read(pem)
    issued.check_issued(found, authority, server=False)
    name = issued.name_of(found)
    if not named(name):
        raise Refused(f"{name[:60]!r} is no name of a site")
    return Member(name, issued.identity_of(found), found.not_valid_after_utc)


def named(name: str) -> bool:
    """Whether a site may be called this."""
    return SITE.fullmatch(name) is not None and name != issued.SERVER


def check_name(name: str) -> None:
    """A Mistake for a name that no site may have."""
    if not named(name):
        raise Mistake(
            f"{name[:60]!r} is no name of a site: take 1 to 40 lower-case letters, digits and hyphens, a letter first,"
            f' and not "{issued.SERVER}"'
        )


def shown(time: datetime) -> str:
    """A time as a certificate has it."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def content(path: Path) -> bytes:
    """A file of a kit; one that is not there, or too large to be one, is a Mistake."""
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}): check the path, or restore it from a copy") from None
    if len(found) > LARGEST:
        raise Mistake(f"{path} is too large to be of a kit: restore it from a copy")
    return found


def seed(folder: Path) -> bytes:
    """The 32 secret bytes of a party's identity."""
    place = folder / "identity.key"
    try:
        found = bytes.fromhex(content(place).decode())
    except ValueError:
        found = b""
    if len(found) != 32:
        raise Mistake(f"{place} is damaged: restore it from a copy")
    return found


def certificate(path: Path) -> x509.Certificate:
    """The one certificate in this file."""
    return checked(path, issued.read, content(path))


def checked(path: Path, check: Callable[_P, _T], *given: _P.args, **options: _P.kwargs) -> _T:
    """What a check says of a file; what it refuses is a Mistake."""
    try:
        return check(*given, **options)
    except Refused as why:
        raise Mistake(f"{path} is not right, {why}: restore it from a copy") from None


def facts(text: bytes, kinds: dict[str, type]) -> dict[str, Any] | None:
    """A JSON object with exactly these keys and types, in format 1; None where it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or set(found) != set(kinds):
        return None
    if any(type(found[name]) is not kind for name, kind in kinds.items()) or found["format"] != 1:
        return None
    if not all(value.isascii() for value in found.values() if isinstance(value, str)):
        return None
    return found


def described(path: Path) -> dict[str, Any]:
    """What kit.json says."""
    place = path / "kit.json"
    if not os.path.exists(place):
        if os.path.exists(path / "request.json"):
            raise Mistake(
                f"{path} is not complete: give its request.json to the coordinator, and what comes back to"
                f" hush federation accept {path}"
            )
        if os.path.exists(path / COORDINATOR / "kit.json"):
            raise Mistake(f"{path} is not a kit but holds some: name one, such as {path / COORDINATOR}")
        raise Mistake(f"{path} is no kit: make one with hush federation init or hush federation request")
    text = content(place)
    found = facts(text, {**FACTS, "simulation": type(None)}) or facts(text, {**FACTS, "simulation": int})
    if found is not None:
        known = found["name"] == issued.SERVER or named(found["name"])
        keys = all(re.fullmatch("[0-9a-f]{64}", found[name]) for name in ("federation", "server"))
        if known and keys and 1 <= found["port"] <= 65535 and found["host"]:
            return found
    raise Mistake(f"{place} is damaged: restore it from a copy")


def check_private(folder: Path) -> None:
    """A Mistake where others may read a secret."""
    for place in (folder / name for name in SECRETS):
        with contextlib.suppress(OSError):  # who needs it says that it is not there
            if place.stat().st_mode & 0o077:
                raise Mistake(f"{place} can be read by others: chmod 600 {place}, or make a new kit if anybody did")
