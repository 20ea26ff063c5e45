"""Headless Chromium over the DevTools protocol, on two pipes: no driver, no port and no package is needed."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
    " --disable-sync --disable-dev-shm-usage --hide-scrollbars --force-color-profile=srgb --remote-debugging-pipe"
).split()


def found() -> str | None:
    """The browser of this machine."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Browser:
    """One tab. `requests` are the addresses that it asked for since the last `open`, `errors` what its script said."""

    def __init__(self, program: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="hush-browser-"))
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        # The protocol's pipes are 3 and 4 at the browser: first out of each other's way.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 50) for end in (theirs, ours)]

        def place() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.home}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=place,
            start_new_session=True,
        )
        for end in (theirs, ours, *high):
            os.close(end)
        self.number, self.waiting, self.session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{part}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol and its answer."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._read(30)
            if said.get("id") == self.number:
                assert "error" not in said, said["error"]
                return said["result"]

    def _read(self, seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\0" not in self.waiting:
            if not select.select([self._from], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._from, 2**20)
            assert more, "the browser has ended"
            self.waiting += more
        line, _, self.waiting = self.waiting.partition(b"\0")
        said = json.loads(line)
        if "method" in said:
            self.events.append(said)
        return said

    def open(self, address: str) -> None:
        """Load a page and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read(30)

    def js(self, expression: str) -> Any:
        """The value of an expression of the page."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def until(self, expression: str, seconds: float = 15) -> None:
        """Wait for the page."""
        end = time.monotonic() + seconds
        while not self.js(expression):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.05)

    @property
    def requests(self) -> list[str]:
        """What was asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    @property
    def errors(self) -> list[str]:
        """Exceptions and complaints, those of the content security policy too."""
        thrown = [json.dumps(e["params"]) for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        said = [e["params"]["entry"]["text"] for e in self.events if e["method"] == "Log.entryAdded"]
        return thrown + said

    def size(self, width: int, height: int = 900, phone: bool = False) -> None:
        """The window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def scheme(self, name: str) -> None:
        """light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def mouse(self, kind: str, x: float, y: float, pressed: bool = False) -> None:
        """mouseMoved, mousePressed or mouseReleased at a place of the window."""
        more = (
            {"button": "left", "buttons": 1 if pressed else 0, "clickCount": 1}
            if kind != "mouseMoved" or pressed
            else {}
        )
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str) -> None:
        """The middle of an element, which is brought into view."""
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y, pressed=True)
        self.mouse("mouseReleased", x, y)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element is."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.js(f"{place}.scrollIntoView({{block: 'center'}})")
        x, y = self.js(f"(r => [r.left + r.width / 2, r.top + r.height / 2])({place}.getBoundingClientRect())")
        return float(x), float(y)

    def key(self, name: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name)

    def shot(self, path: Path, whole: bool = True) -> None:
        """A picture of the page."""
        got = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(got["data"]))

    def pdf(self, path: Path) -> None:
        """The page in print."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))

    def close(self) -> None:
        """End it, and remove what it wrote."""
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (AssertionError, TimeoutError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for end in (self._to, self._from):
            os.close(end)
        shutil.rmtree(self.home, ignore_errors=True)
