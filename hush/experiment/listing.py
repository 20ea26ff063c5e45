"""What the command line shows of the catalogue, as plain values on file: torch is slow to import, and they are known.

`make tables` writes listing.json anew (`python -m hush.experiment.listing`), and a test holds that it is current.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hush.experiment.settings import SETTINGS, Setting

PLACE = Path(__file__).with_name("listing.json")
WEIGHTS = 1_663_370  # of the papers' image network, for bits per weight


def names() -> list[str]:
    """The schemes of the catalogue, in its order."""
    return list(_known())


def beginning(incomplete: str) -> list[str]:
    """The schemes whose names begin so, for the completion of a shell."""
    return [name for name in names() if name.startswith(incomplete)]


def about(name: str) -> dict[str, Any]:
    """What a scheme sends, protects and is made of."""
    return dict(_of(name)["about"])


def settings(name: str) -> list[Setting]:
    """The settings that a scheme listens to, with its own defaults in place of the common ones."""
    return [replace(SETTINGS[key], default=default) for key, default in _of(name)["settings"].items()]


def _of(name: str) -> dict[str, Any]:
    return _known().get(name) or describe(name)


@cache
def _known() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(PLACE.read_text())
    return found


def describe(name: str) -> dict[str, Any]:
    """The same from the scheme's parts, for one that is not on file: file.py:function, or another name of a scheme.

    Sizes come from the Spec that the parts themselves state.
    """
    import torch

    from hush.catalogue.values import Settings
    from hush.experiment.defaults import of_scheme
    from hush.experiment.own import entry
    from hush.models.networks import cnn, head
    from hush.models.weights import Layout
    from hush.parts.stages import Clip

    found = entry(name)
    values = Settings(**{"clip": Clip(1.0), **found.settings, "noise": 1.0})  # any noise: it has no default
    scheme, shape = found.scheme(values), torch.Size((1, 28, 28))
    model = head(torch.Size(((values.features or 0) + 1,)), 10) if found.featured else cnn(shape, 10)
    layout = Layout.of(model)
    spec, down = scheme.specs(scheme.coordinates.count(layout))[-1], scheme.coordinates.down(layout)
    up_bits, down_bits = 8 * spec.form.length(spec.size), 8 * scheme.downlink.form.length(down)
    shown = {
        "name": found.name,
        "summary": found.summary,
        "paper": found.paper,
        "guarantee": scheme.level or "none",
        "uplink_bits_per_weight": 0.0 if scheme.baseline else round(up_bits / WEIGHTS, 4),
        "downlink_bits_per_weight": 0.0 if scheme.baseline else round(down_bits / WEIGHTS, 4),
        "coordinates": str(scheme.coordinates),
        "trainer": str(scheme.trainer),
        "stages": [type(stage).__name__ for stage in scheme.stages],
        "aggregator": str(scheme.aggregator),
        "step": str(scheme.step),
        "downlink": str(scheme.downlink),
        "average": scheme.average,
        "sampling": str(scheme.sampling),
    }
    return {"about": shown, "settings": {one.key: one.default for one in of_scheme(name)}}


if __name__ == "__main__":
    from hush.catalogue.entries import ENTRIES

    lines = (f"{json.dumps(name)}: {json.dumps(describe(name), ensure_ascii=False)}" for name in ENTRIES)
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
