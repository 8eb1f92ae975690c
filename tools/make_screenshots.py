"""Make the README's pictures: ``docs/report.webp`` and ``docs/serve.webp``.

$ python tools/make_screenshots.py

Needs the extras ``embedded``, ``serve`` and ``test``, and Debian's chromium. The first time, it
ranks two samples as ``admire demo`` does, which takes a minute; later they are cached.
"""

from __future__ import annotations

import io
import shutil
import socket
import tempfile
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from admire import SAMPLES, rank, read_items, write_run
from admire.apps.report import write_report
from admire.apps.serve import Models, Service, make_server

DOCS = Path(__file__).parents[1] / "docs"
SLOW = 300_000  # milliseconds, for models that are loaded


def main() -> None:
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=False
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(SLOW)
        expect.set_options(timeout=SLOW)
        # The first card of the report of what ``admire demo`` does.
        write_run(rank(read_items(SAMPLES)[:2], source=SAMPLES), Path(folder, "demo"))
        page.goto(write_report([Path(folder, "demo")], Path(folder, "report.html")).as_uri())
        page.keyboard.press("j")
        end = page.evaluate("document.activeElement.getBoundingClientRect().bottom")
        page.evaluate("document.activeElement.blur()")
        page.set_viewport_size({"width": 1200, "height": round(end) + 10})
        save(page, "report")
        # The first example of the page, ranked. It is served until this process ends.
        listening = socket.create_server(("127.0.0.1", 0))
        server = make_server(Service(Models()), "127.0.0.1")
        threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        page.set_viewport_size({"width": 1200, "height": 900})
        page.locator(".example").first.click()
        page.locator("#result .predicted").wait_for()
        page.evaluate("scrollTo(0, 0)")
        save(page, "serve")
        browser.close()


def save(page: Page, name: str) -> None:
    """Write what the window shows."""
    page.locator("img").evaluate_all("all => Promise.all(all.map(one => one.decode()))")
    with Image.open(io.BytesIO(page.screenshot())) as shot:
        shot.convert("RGB").save(DOCS / f"{name}.webp", quality=85, method=6)


if __name__ == "__main__":
    main()
