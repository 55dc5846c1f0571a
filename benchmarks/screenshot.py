"""A picture of a page as a browser shows it, or a PDF as it prints it.

    python benchmarks/screenshot.py runs/RUN/report.html docs/report.png
    python benchmarks/screenshot.py report.html phone.png --width 360 --dark
    python benchmarks/screenshot.py report.html report.pdf

In: an HTML file. Out: a PNG of the whole page (or of its first `--height` pixels) or, for a name that ends in .pdf,
an A4 PDF. Needs Chromium or Chrome (Debian: apt-get install chromium); talks to it over the DevTools pipe, so that
widths below a browser window's minimum and dark mode are the real thing. The browser has no network. Exit code 2 when
there is no browser or no such page, 1 when the browser gives no picture.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe "
    "--host-resolver-rules=MAP~*~0.0.0.0"
)


class Browser:
    """A headless browser for one page, spoken to with NUL-terminated JSON on file descriptors 3 and 4."""

    def __init__(self, program: str, profile: str) -> None:
        child_reads, self._write = os.pipe()
        self._read, child_writes = os.pipe()
        # a shell puts the pipes where the browser expects them; Popen itself cannot choose the numbers
        script = f'exec "$@" 3<&{child_reads} 4>&{child_writes}'
        flags = [flag.replace("~", " ") for flag in FLAGS.split()]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(child_reads, child_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_reads)
        os.close(child_writes)
        self._pending = b""
        self._number = 0
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and returns its result; RuntimeError when the browser refuses it or is gone."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def wait_for(self, event: str) -> None:
        """Returns when the browser has reported `event`."""
        while self._next().get("method") != event:
            pass

    def close(self) -> None:
        """Ends the browser."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser ended before it gave a picture")
            self._pending += chunk
        head, self._pending = self._pending.split(b"\0", 1)
        message: dict[str, Any] = json.loads(head)
        return message


def picture(browser: Browser, page: Path, *, width: int, height: int | None, scale: float, dark: bool) -> bytes:
    """Returns a PNG of the page at `width` CSS pixels, whole or its first `height` pixels."""
    _open(browser, page, width, scale, dark)
    full = browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
    _size(browser, width, height or int(full) + 1, scale)
    data = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
    return base64.b64decode(data)


def pdf(browser: Browser, page: Path) -> bytes:
    """Returns the page as an A4 PDF."""
    _open(browser, page, 900, 1, dark=False)
    data = browser.call(
        "Page.printToPDF", printBackground=False, preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69
    )["data"]
    return base64.b64decode(data)


def _open(browser: Browser, page: Path, width: int, scale: float, dark: bool) -> None:
    browser.call("Page.enable")
    _size(browser, width, 900, scale)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])
    browser.call("Page.navigate", url=page.resolve().as_uri())
    browser.wait_for("Page.loadEventFired")


def _size(browser: Browser, width: int, height: int, scale: float) -> None:
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 700
    )


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="A picture or a PDF of an HTML file.")
    parser.add_argument("page", type=Path, help="an HTML file")
    parser.add_argument("out", type=Path, help="a .png or .pdf file")
    parser.add_argument("--width", type=int, default=1280, help="CSS pixels; below 700 the page is shown as on a phone")
    parser.add_argument("--height", type=int, help="only the first so many CSS pixels")
    parser.add_argument("--scale", type=float, default=1.0, help="pixels of the picture per CSS pixel")
    parser.add_argument("--dark", action="store_true", help="dark mode")
    options = parser.parse_args()
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        print(
            "There is no Chromium or Chrome on this machine: install one (Debian: apt-get install chromium).",
            file=sys.stderr,
        )
        return 2
    if not options.page.is_file():
        print(f"There is no page {options.page}: give an HTML file, such as the report.html of a run.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            if options.out.suffix == ".pdf":
                data = pdf(browser, options.page)
            else:
                data = picture(
                    browser,
                    options.page,
                    width=options.width,
                    height=options.height,
                    scale=options.scale,
                    dark=options.dark,
                )
        finally:
            browser.close()
    options.out.write_bytes(data)
    print(f"{options.out}: {len(data) / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
