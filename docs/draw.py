"""Draws the figures of the texts: `python docs/draw.py` writes docs/figures/*.svg, the same each time."""

import math
from pathlib import Path

FOLDER = Path(__file__).parent / "figures"
INK, PALE, TEAL, ORANGE, SOFT, WARM = "#1f2937", "#6b7280", "#0f766e", "#c2410c", "#ccfbf1", "#ffedd5"
STYLE = f"""text{{font:15px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:{INK}}}
.small{{font-size:13px;fill:{PALE}}}.head{{font-weight:600}}.teal{{fill:{TEAL}}}.orange{{fill:{ORANGE}}}"""


def text(x, y, words, kind="", anchor="middle"):
    """Lines of words, the first at y."""
    return "".join(
        f'<text x="{x:.1f}" y="{y + 18 * number:.1f}" text-anchor="{anchor}" class="{kind}">{line}</text>'
        for number, line in enumerate(words.split("\n"))
    )


def box(x, y, width, height, words, fill="#fff", edge=INK, kind=""):
    """A rounded box with its words in the middle."""
    lines = words.count("\n") + 1
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{edge}" '
        f'stroke-width="1.5"/>' + text(x + width / 2, y + height / 2 + 5 - 9 * (lines - 1), words, kind)
    )


def line(points, color=INK, width=1.8, arrow=False, dash=False):
    """A line through points, with a head at its end if asked for."""
    head = f' marker-end="url(#{color[1:]})"' if arrow else ""
    dashes = ' stroke-dasharray="5 5"' if dash else ""
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{at}" fill="none" stroke="{color}" stroke-width="{width}"{head}{dashes}/>'


def arrow(x1, y1, x2, y2, color=INK, dash=False):
    return line([(x1, y1), (x2, y2)], color, arrow=True, dash=dash)


def svg(width, height, title, *parts):
    """A drawing on a white card, so that it can be read on a dark page as well."""
    heads = "".join(
        f'<marker id="{color[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="{color}"/></marker>'
        for color in (INK, PALE, TEAL, ORANGE)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{title}</title><style>{STYLE}</style><defs>{heads}</defs>'
        f'<rect width="{width}" height="{height}" rx="10" fill="#fff"/>' + "\n".join(parts) + "</svg>\n"
    )


def views():
    """Who sees what, on the way from a client to everybody."""
    parts = [
        text(95, 36, "clients", "head"),
        text(350, 36, "server", "head"),
        text(605, 36, "everybody", "head"),
        *(
            box(30, 55 + 62 * n, 130, 46, words, SOFT, TEAL)
            for n, words in enumerate(("rows, update", "rows, update", "rows, update"))
        ),
        *(arrow(160, 78 + 62 * n, 275, 130 + 10 * (n - 1), TEAL) for n in range(3)),
        box(280, 105, 140, 70, "sum of\nthe uploads", "#fff", INK),
        arrow(420, 140, 535, 140),
        box(540, 105, 130, 70, "released\nmodel", "#fff", INK),
        line([(215, 60), (215, 268)], ORANGE, dash=True),
        line([(350, 180), (350, 268)], ORANGE, dash=True),
        line([(605, 180), (605, 268)], ORANGE, dash=True),
        text(185, 290, "upload", "head orange"),
        text(
            185,
            310,
            "sees single uploads;\nonly the client's own\nshare of the noise\nprotects. --secure\nhides them",
            "small",
        ),
        text(380, 290, "server, colluding", "head orange"),
        text(
            380,
            310,
            "knows who took part,\nsees the sum: all shares\nof the noise protect, or"
            "\nthose of the clients that\ndo not collude",
            "small",
        ),
        text(590, 290, "model", "head orange"),
        text(
            590,
            310,
            "sees every released model,\nnot who took part: the noise\nprotects, and that most"
            "\nclients are not drawn in\nmost rounds",
            "small",
        ),
    ]
    return svg(720, 400, "Who sees what: single uploads, the sum, the released models", *parts)


def clip():
    """Updates before and after the clip."""
    x, y, r = 190, 165, 100
    updates = [(20, 62), (68, 120), (128, 78), (196, 140), (265, 60), (330, 128)]
    parts = [text(190, 34, "the updates of six clients", "head"), text(540, 34, "clipped to norm S", "head")]
    for shift in (0, 350):
        parts.append(
            f'<circle cx="{x + shift}" cy="{y}" r="{r}" fill="{SOFT if shift else "none"}" stroke="{TEAL}" '
            'stroke-width="1.5" stroke-dasharray="6 4"/>'
        )
        for angle, length in updates:
            reach = min(length, r) if shift else length
            end = x + shift + reach * math.cos(math.radians(angle)), y - reach * math.sin(math.radians(angle))
            long = length > r
            parts.append(arrow(x + shift, y, *end, ORANGE if long else INK))
    parts += [
        text(365, 165, "→", "head"),
        text(190, 305, "a client with unusual rows moves the\nmodel as far as it likes", "small"),
        text(540, 305, "nobody moves the sum by more than S:\nso much noise can hide anybody", "small"),
    ]
    return svg(720, 340, "Updates before and after clipping to norm S", *parts)


def shares():
    """Noise in shares, which add up to what hides one client."""
    parts = [text(133, 34, "each client adds a share", "head"), text(365, 34, "the server adds", "head")]
    for n in range(3):
        y = 55 + 72 * n
        parts += [
            box(20, y, 100, 50, "clipped\nupdate", SOFT, TEAL),
            text(135, y + 31, "+"),
            box(150, y, 96, 50, "noise\nS σ / √n", WARM, ORANGE),
            arrow(246, y + 25, 300, 152 + 6 * (n - 1)),
        ]
    parts += [
        box(305, 115, 130, 74, "sum + noise\nof deviation\nS σ", "#fff", INK),
        arrow(435, 152, 490, 152),
        box(495, 115, 200, 74, "÷ planned cohort\nmoves the model", "#fff", INK),
        text(135, 300, "one share hides little:\nthat is the upload view", "small"),
        text(370, 300, "n shares together hide\nany one client", "small"),
        text(595, 300, "more clients, the same noise,\na better mean", "small"),
    ]
    return svg(720, 340, "Every client adds a share of the noise; together they hide each of them", *parts)


def bell(x):
    return math.exp(-x * x / 2)


def worlds():
    """The two worlds that epsilon compares, for one Gaussian release of multiplier 1 and of multiplier 3."""
    parts = [text(360, 30, "what an observer may see, in the world with one client and in the world without", "head")]
    for shift, sigma, words in ((0, 1.0, "little noise: σ = 1"), (360, 3.0, "more noise: σ = 3")):
        middle, wide, base = shift + 180, 24.0, 235
        for offset, color in ((-0.5, TEAL), (0.5, ORANGE)):
            points = []
            for n in range(0, 301, 3):
                at = (n - 150) / wide  # in steps of S
                points.append((middle + n - 150, base - 170 * bell((at - offset) / sigma) / sigma))
            parts.append(line(points, color, 2.2))
        parts += [
            line([(shift + 25, base), (shift + 335, base)], PALE, 1),
            line([(middle - wide / 2, base + 6), (middle + wide / 2, base + 6)], INK, 2),
            text(middle, base + 26, "S", "small"),
            text(middle, base + 58, words, "head"),
        ]
    parts += [
        text(360, 320, "without the client", "teal"),
        text(360, 340, "with the client", "orange"),
        text(
            360,
            366,
            "Where the curves differ, an observer learns something. Epsilon bounds how much, over all rounds;",
            "small",
        ),
        text(360, 384, "delta is how often the bound may fail.", "small"),
    ]
    return svg(720, 400, "Two worlds, with one client and without, as an observer sees them", *parts)


def masks():
    """Masks of pairs cancel in the sum."""
    parts = [text(150, 34, "what a client sends", "head"), text(560, 34, "what the server can add up", "head")]
    rows = (
        ("5", "+ a − c", "A"),
        ("2", "− a + b", "B"),
        ("7", "− b + c", "C"),
    )
    for n, (number, mask, name) in enumerate(rows):
        y = 60 + 66 * n
        parts += [
            text(35, y + 28, name, "head"),
            box(60, y, 60, 44, number, SOFT, TEAL),
            box(130, y, 110, 44, mask, WARM, ORANGE),
            arrow(240, y + 22, 405, 148 + 8 * (n - 1)),
        ]
    parts += [
        text(322, 60, "each looks like noise,\nmodulo 2^bits", "small"),
        box(410, 118, 290, 60, "5 + 2 + 7  + a − c − a + b − b + c", "#fff", INK),
        arrow(555, 178, 555, 214),
        box(500, 218, 110, 44, "14", SOFT, TEAL, "head"),
        text(150, 290, "a, b and c are streams that two clients\nagree on, new in each round", "small"),
        text(555, 290, "masks cancel; those of a client that\ndropped out are restored from shares", "small"),
    ]
    return svg(720, 325, "Masks of pairs of clients cancel in the sum", *parts)


def levels():
    """A whole client, or one record of it."""
    parts = [text(185, 34, "client level", "head"), text(540, 34, "record level", "head")]
    for shift, mode in ((0, "client"), (355, "record")):
        for n in range(3):
            x, y = shift + 35 + 105 * n, 60
            gone = mode == "client" and n == 1
            fill, edge, dash = ("#fff", ORANGE, "5 4") if gone else (SOFT, TEAL, "none")
            parts.append(
                f'<rect x="{x}" y="{y}" width="90" height="120" rx="8" fill="{fill}" stroke="{edge}" '
                f'stroke-width="1.5" stroke-dasharray="{dash}"/>'
            )
            for row in range(4):
                missing = gone or (mode == "record" and n == 1 and row == 2)
                fill, edge, dash = ("none", ORANGE, "4 3") if missing else (TEAL, TEAL, "none")
                parts.append(
                    f'<rect x="{x + 12}" y="{y + 14 + 26 * row}" width="66" height="14" rx="3" fill="{fill}" '
                    f'stroke="{edge}" stroke-dasharray="{dash}"/>'
                )
    parts += [
        text(185, 212, "the world without one client,\nwith all its records", "small"),
        text(185, 254, "phones, clinics: a crowd of clients"),
        text(540, 212, "the world without one record\nof one client", "small"),
        text(540, 254, "hospitals: few clients, many patients"),
    ]
    return svg(720, 280, "What is protected: a client with all its records, or one record", *parts)


def rooms():
    """The rooms of the code, each on those that it may import."""
    rows = (
        ("use", ("cli",)),
        ("", ("experiment",)),
        ("method", ("catalogue", "federation", "audit")),
        ("", ("parts",)),
        ("", ("core",)),
        ("mathematics", ("privacy", "secure", "models")),
        ("ground", ("errors", "random", "data")),
    )
    notes = {"cli": "one file per command", "experiment": "with report, reproduce, sweep, trackers"}
    parts = []
    for n, (name, row) in enumerate(rows):
        y, width = 20 + 54 * n, 480 / len(row)
        parts.append(text(20, y + 26, name, "head", "start"))
        for place, room in enumerate(row):
            words = f"{room}: {notes[room]}" if room in notes else room
            parts.append(box(150 + width * place, y, width - 10, 40, words, SOFT if n < 3 else "#fff", TEAL))
    parts.append(arrow(665, 30, 665, 376, PALE))
    parts.append(text(690, 213, "imports", "small").replace("<text", '<text transform="rotate(90 690 213)"'))
    return svg(720, 406, "The rooms of the code: none imports one above it, or to its right", *parts)


def round_():
    """One round, who calls whom."""
    lanes = {"loop": 90, "clients": 300, "server": 460, "session": 620}
    names = ("core/rounds.loop", "Clients", "ServerRound", "ClientSession")
    parts = [box(x - 72, 14, 144, 34, name, SOFT, TEAL) for x, name in zip(lanes.values(), names, strict=True)]
    parts += [line([(x, 48), (x, 655)], PALE, 1, dash=True) for x in lanes.values()]

    def call(y, one, other, words, dash=False):
        x1, x2 = lanes[one], lanes[other]
        return arrow(x1, y, x2, y, INK, dash) + text((x1 + x2) / 2, y - 7, words, "small")

    def note(y, lane, words):
        lines = words.count("\n") + 1
        return box(lanes[lane] - 82, y, 164, 16 + 18 * lines, words, "#fff", PALE, "small")

    parts += [
        note(62, "loop", "coordinates.draw,\nsampling.draw"),
        note(124, "loop", "scheme.event to\nledger.record: on disk"),
        call(212, "loop", "clients", "collect(Order)"),
        f'<rect x="205" y="226" width="505" height="86" rx="6" fill="none" stroke="{ORANGE}" stroke-dasharray="5 4"/>',
        text(216, 244, "Simulated, or Cluster", "small orange", "start"),
        note(252, "clients", "blocks: fit, encode,\naggregator.combine"),
        f'<rect x="205" y="322" width="505" height="218" rx="6" fill="none" stroke="{ORANGE}" stroke-dasharray="5 4"/>',
        text(216, 340, "Remote, over a Channel", "small orange", "start"),
        call(366, "clients", "server", "aggregator.open"),
        call(396, "clients", "session", "each phase: plan, or message"),
        note(406, "session", "charter, policy,\nown ledger, fit, encode"),
        call(484, "session", "clients", "answer, or refused, or nothing", True),
        call(508, "clients", "server", "take, advance"),
        call(532, "server", "clients", "total()", True),
        call(566, "clients", "loop", "Total, or Aborted", True),
        note(580, "loop", "decode in reverse,\nstep.move, books"),
        text(90, 652, "yield Report", "head"),
    ]
    return svg(720, 665, "One round: the loop, the clients, the server and a session", *parts)


def mark():
    """The sign of hush: a small circle that says little."""
    ring, mouth = (
        f'<circle cx="16" cy="16" r="13" fill="{TEAL}"/>',
        '<rect x="8" y="14.5" width="16" height="3" fill="#fff"/>',
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><title>hush</title>{ring}{mouth}</svg>\n'


FIGURES = {
    "views": views,
    "clip": clip,
    "shares": shares,
    "worlds": worlds,
    "masks": masks,
    "levels": levels,
    "rooms": rooms,
    "round": round_,
    "mark": mark,
}

if __name__ == "__main__":
    for name, drawn in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(drawn())
