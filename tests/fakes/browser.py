"""A real browser for tests: Debian's chromium, driven by playwright.

page = look("file:///tmp/report.html")      # the fixture of conftest.py
assert barriers(page) == []

What a page asks for beyond its own address, and what the browser complains of, fails the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

Look = Callable[..., "Page"]

PATIENCE = 15_000  #: how long to wait for what a page should do, in ms: much, for a busy machine
OPTIONS = [
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"


@contextmanager
def start() -> Iterator[Browser]:
    """The browser, without a network; the test is skipped where there is none."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra 'test')")
    program = shutil.which("chromium")
    if not program:
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    driver.expect.set_options(timeout=PATIENCE)
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=False, args=OPTIONS
        )
        yield browser
        browser.close()


@contextmanager
def watched(browser: Browser) -> Iterator[Look]:
    """A function that opens an address in a window of its own, and returns its page.

    Its options are those of ``browser.new_context``, besides ``own``: the beginnings of addresses
    that the page may ask for, by default its own.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def look(address: str, *, own: tuple[str, ...] = (), **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        allowed = ("data:", "blob:", *(own or (address.partition("#")[0].partition("?")[0],)))

        def check_request(request: Request) -> None:
            if not request.url.startswith(allowed):
                problems.append(f"asked for {request.url[:200]}")

        def check_message(message: ConsoleMessage) -> None:
            answered = "the server responded with a status of 4" in message.text  # which pages tell
            if message.type in ("error", "warning") and not answered:
                problems.append(message.text)

        context.on("request", check_request)
        context.on("console", check_message)
        context.on("weberror", lambda error: problems.append(str(error.error)))
        page = context.new_page()
        answer = page.goto(address)
        assert answer is None or answer.ok, answer.text()
        return page

    yield look
    for context in contexts:
        context.close()
    assert problems == []


PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@cache
def _axe() -> str:
    if not AXE.exists():
        pytest.skip("needs axe-core: npm ci in tests/")
    return AXE.read_text()


def barriers(page: Page, part: str = "html") -> list[str]:
    """What keeps people out of a part, by axe-core: each element that breaks a rule, and how."""
    page.evaluate(_axe())  # by the driver, which no policy of the page forbids
    run = "part => axe.run(part, {resultTypes: ['violations']}).then(found => found.violations)"
    found = page.evaluate(run, part)
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:200]} {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]


def decoded(pictures: Locator) -> int:
    """Return how many pictures there are; the test fails if any cannot be decoded."""
    widths = pictures.evaluate_all(
        "all => Promise.all(all.map(one => one.decode().then(() => one.naturalWidth)))"
    )
    assert all(widths)
    return len(widths)


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))
