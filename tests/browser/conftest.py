"""A browser for the tests of this folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en"),
)


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium as the system has it. Each test serves its page on a port of its own."""
    with started() as chrome:
        yield chrome


@contextmanager
def started() -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own, which goes with it."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program, "make browser installs chromium"
    assert driver, "make browser installs chromium-driver"
    with tempfile.TemporaryDirectory() as profile:
        options = Options()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        chrome = webdriver.Chrome(options, Service(driver))
        try:
            yield chrome
        finally:
            chrome.quit()
