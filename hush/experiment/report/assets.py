"""The pages' own style sheets and script, and the policies that let a browser take these and nothing else."""

import base64
import hashlib
from functools import cache
from html import escape
from pathlib import Path


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy(served: bool = False) -> str:
    """The content security policy: this script and style, by their digests; a served page may ask its own server."""
    allowed = [
        "default-src 'none'",
        "img-src data:",
        f"script-src {_hash(_text('page.js'))}",
        f"style-src {_hash(_text('page.css'))}",
    ]
    allowed += ["connect-src 'self'", "form-action 'self'"] if served else ["form-action 'none'"]
    return "; ".join([*allowed, "base-uri 'none'"])


def document(title: str, body: str, series: str, live: int | None, served: bool = False) -> str:
    """A whole page. `series`: the numbers of its figures as JSON. `live`: seconds after which it is read again."""
    again = f'<noscript><meta http-equiv="refresh" content="{live}"></noscript>' if live is not None else ""
    numbers = series.replace("<", "\\u003c")  # no tag can end the block early
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(served))}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f"<title>{escape(title)} – hush</title><style>{_text('page.css')}</style></head>"
        f"<body{' data-live' if live is not None else ''}><main>{body}"
        f'<script type="application/json" id="series">{numbers}</script></main>'
        f"<script>{_text('page.js')}</script></body></html>\n"
    )


def sheet(title: str, body: str) -> str:
    """A page to print: a style sheet, and no script."""
    style = _text("sheet.css")
    allowed = f"default-src 'none'; style-src {_hash(style)}; form-action 'none'; base-uri 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} – hush</title><style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )
