"""A card that the server of a federation signed: card.json, and its signature in card.sig beside it.

The signature is Ed25519 with the identity that the server's certificate binds and every site's kit names, over the
words "hush privacy card 1", a line feed, and the bytes of card.json.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.data import files
from hush.errors import Mistake, Refused
from hush.federation import certificates, kit
from hush.secure.keys import WEAK, Identity
from hush.secure.keys import verify as signed_by

FILE = "card.json"
_PURPOSE = b"hush privacy card 1\n"
_LARGEST = 2**20  # bytes of a card


def sign(card: Mapping[str, Any], by: Path, folder: Path) -> dict[str, Any]:
    """Write the card and its signature into a folder; the card as it is signed, which says by whom and when."""
    server = kit.read(by)
    if not server.coordinator:
        raise Mistake(f"{by} is the kit of {server.name}: cards are signed by the server, with the coordinator's kit")
    identity, now = Identity(server.identity_seed), kit.shown(certificates.now())
    about = {"at": now, "key": identity.public.hex(), "federation": server.federation, "simulation": server.simulation}
    whole = {**card, "signed": about}
    text = canonical(whole)
    try:
        files.write(folder / FILE, text)
        files.write(_signature(folder / FILE), (identity.sign(_PURPOSE + text).hex() + "\n").encode())
    except OSError as error:
        raise Mistake(f"{folder} cannot be written ({error.strerror}): make room there, or check its rights") from None
    return whole


def verify(path: Path, against: str) -> dict[str, Any]:
    """The card in a file, or in a folder, if it is signed by the server; anything else is a Mistake.

    `against`: the server's certificate, the kit of any party of its federation, or its public key in 64 digits.
    """
    place = path / FILE if path.is_dir() else path
    key, text, signature = _key(against), _content(place), _content(_signature(place))
    try:
        whole = bytes.fromhex(signature.decode("ascii"))
    except ValueError:
        whole = b""
    if not signed_by(key, whole, _PURPOSE + text):
        raise Mistake(
            f"{place} is not what the owner of the key {key.hex()} signed: it or its signature was changed, or another"
            " key signed it; ask for both files again, and for the server's key"
        )
    found: dict[str, Any] = json.loads(text)
    if found["signed"]["key"] != key.hex():
        raise Mistake(f"{place} names another key than the one that signed it: ask for the server's own card")
    return found


def canonical(card: Mapping[str, Any]) -> bytes:
    """A card as it is signed: JSON with sorted keys, without spaces, and a line feed."""
    return (json.dumps(card, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _signature(place: Path) -> Path:
    return place.with_suffix(".sig")


def _key(against: str) -> bytes:
    """The public key that is named, or that a certificate or a kit names."""
    if re.fullmatch("[0-9a-f]{64}", against):
        key, why = bytes.fromhex(against), f"{against} is a key under which anybody can sign"
    elif Path(against).is_dir():
        key, why = bytes.fromhex(kit.described(Path(against))["server"]), f"{against} names no key of a server"
    else:
        place = Path(against)
        try:
            name, key = certificates.bound(kit.content(place))
        except Refused as refused:
            raise Mistake(
                f"{place} is not the certificate of a server ({refused}): give cert.pem of the coordinator's kit, a"
                " kit, or the server's key in 64 hexadecimal digits"
            ) from None
        if name != certificates.SERVER:
            raise Mistake(f"{place} is the certificate of {name}: give that of the server")
        why = f"{place} binds a key under which anybody can sign"
    if key in WEAK:
        raise Mistake(f"{why}: ask for the server's own")
    return key


def _content(place: Path) -> bytes:
    try:
        with place.open("rb") as file:
            found = file.read(_LARGEST + 1)
    except OSError as error:
        raise Mistake(
            f"{place} cannot be read ({error.strerror}): a signed card is card.json with card.sig beside it, which"
            " hush privacy card RUN --sign KIT writes"
        ) from None
    if len(found) > _LARGEST:
        raise Mistake(f"{place} is too large to be a card: name the file that --sign wrote")
    return found
