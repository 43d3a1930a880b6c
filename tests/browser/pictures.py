"""Pictures of the page for people to judge: ``python -m tests.browser.pictures DIRECTORY``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from selenium import webdriver

from tests.browser.conftest import started
from tests.browser.driving import look, resize, shown
from tests.browser.served import TOKEN, Served, full, served
from tests.core.monitoring.statuses import activity, status

WIDTHS = (400, 1600)
TALLEST = 2_600


def picture(browser: webdriver.Chrome, path: Path, width: int) -> None:
    height = browser.execute_script("return document.documentElement.scrollHeight")
    resize(browser, width, min(height, TALLEST))
    browser.save_screenshot(str(path))


def with_answers(browser: webdriver.Chrome, told: Served, directory: Path, width: int) -> None:
    for scheme in ("light", "dark"):
        told.intakes = [full(time.time())]
        look(browser, told.url, width, scheme)
        shown(browser, "warehouse")
        picture(browser, directory / f"page-full-{width}-{scheme}.png", width)
    nothing = activity(
        channels=(), channels_found=0, peers=(), peers_found=0, history=(), ends={}, opened=0
    )
    told.intakes = [status(activity=nothing, lag=(), counters={}, connections=0, channels=0)]
    look(browser, told.url, width)
    shown(browser, "Nobody is connected")
    picture(browser, directory / f"page-empty-{width}.png", width)
    now = time.time()
    told.intakes = [full(now, name="till"), full(now, name="depot", full=True), None]
    look(browser, told.url, width, "dark")
    shown(browser, "1 of 3 intakes")
    picture(browser, directory / f"page-several-{width}.png", width)


def main(directory: Path) -> None:
    with started() as browser:
        for width in WIDTHS:
            with served() as (told, server):
                with_answers(browser, told, directory, width)
                told.intakes = [full(time.time())]
                look(browser, told.url, width)
                shown(browser, "warehouse")
                server.close()
                shown(browser, "Not connected")
                picture(browser, directory / f"page-disconnected-{width}.png", width)
            with served(token=TOKEN) as (told, _):
                look(browser, told.url, width, "dark" if width == min(WIDTHS) else "light")
                picture(browser, directory / f"page-login-{width}.png", width)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
