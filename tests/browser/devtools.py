"""A headless Chromium, driven by the DevTools protocol over a pair of pipes.

Nothing but the standard library: requests and answers are JSON objects, each ended by a zero byte,
on the file descriptors 3 and 4 of the browser.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
ANSWER_S: Final = 30.0


def find_browser() -> str | None:
    """Return where a Chromium is, or none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserFailed(Exception):
    """The browser refused a request, or went away."""


@final
class Browser:
    """One tab of one browser with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program: Final = program
        self._profile: Final = profile
        self._number = 0
        self._session = ""
        self._pending = b""
        self.events: Final[list[dict[str, Any]]] = []

    def __enter__(self) -> Self:
        read_there, self._write = os.pipe()
        self._read, write_there = os.pipe()

        def hand_over() -> None:
            # Past the numbers that are wanted first, so that neither overwrites the other.
            reading, writing = os.dup(read_there), os.dup(write_there)
            while reading < 5 or writing < 5:
                reading, writing = os.dup(reading), os.dup(writing)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        arguments = [
            "--headless",
            "--no-sandbox",  # containers seldom allow one, and the page is ours
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile}",
        ]
        self._process = subprocess.Popen(
            [self._program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,
        )
        os.close(read_there)
        os.close(write_there)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Ask for something and wait for the answer."""
        self._number += 1
        number = self._number
        request: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        answer = self._wait(lambda one: one.get("id") == number)
        if "error" in answer:
            raise BrowserFailed(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path) -> None:
        """Open a file and wait until all of it is there."""
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        if not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self._wait(lambda one: one.get("method") == "Page.loadEventFired")

    def show(self, *, width: int, height: int = 900, theme: str = "light") -> None:
        """Set the size of the window and the theme."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.ask("Emulation.setEmulatedMedia", features=[feature])

    def print_media(self) -> None:
        """Show the page as it is printed."""
        self.ask("Emulation.setEmulatedMedia", media="print")

    def value(self, expression: str) -> Any:  # noqa: ANN401  (whatever the page says)
        """Return the value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserFailed(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def picture(self, path: Path) -> bytes:
        """Take a picture of the whole page."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        picture = base64.b64decode(data)
        path.write_bytes(picture)
        return picture

    def complaints(self) -> list[str]:
        """Return what the browser has complained about, and what the page wanted from elsewhere."""
        self.value("1")  # whatever was said before this answer is there now
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled":
                found.append(f"console.{about['type']}: {about['args']}")
            elif method == "Log.entryAdded":
                found.append(f"{about['entry']['level']}: {about['entry']['text']}")
        return found

    def requests(self) -> list[str]:
        """Return every address that the page asked for."""
        self.value("1")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def _wait(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until = time.monotonic() + ANSWER_S
        while True:
            while b"\0" in self._pending:
                line, _, self._pending = self._pending.partition(b"\0")
                message: dict[str, Any] = json.loads(line)
                if "method" in message:
                    self.events.append(message)
                if is_wanted(message):
                    return message
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise BrowserFailed(f"the browser gives no answer within {ANSWER_S:.0f} s")
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise BrowserFailed("the browser has gone")
            self._pending += chunk
