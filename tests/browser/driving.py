"""What a person does in a browser, and waits for."""

from __future__ import annotations

from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from tests.support.waiting import LONG, wait_until


def look(browser: webdriver.Chrome, url: str, width: int = 1600, scheme: str = "light") -> None:
    """Open a page in a window of this width, in one of the two schemes of colours."""
    resize(browser, width, 900)
    media = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.get("about:blank")
    browser.get_log("browser")  # of what was open before
    browser.get(url)


def resize(browser: webdriver.Chrome, width: int, height: int) -> None:
    measures = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", measures)


def text(browser: webdriver.Chrome, selector: str = "body") -> str:
    """As it is rendered; read at one moment, though the page is made anew all the time."""
    found: str = browser.execute_script(
        "return document.querySelector(arguments[0])?.innerText ?? ''", selector
    )
    return found


def shown(browser: webdriver.Chrome, expected: str, selector: str = "body") -> None:
    wait_until(lambda: expected in text(browser, selector), LONG, f"{expected!r} in {selector}")


def column(browser: webdriver.Chrome, place: str, at: int) -> list[str]:
    """The cells of a column of the table in ``place``."""
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]"
        ".map(row => row.children[arguments[1]].textContent)",
        place,
        at,
    )
    return found


def press(browser: webdriver.Chrome, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def focused(browser: webdriver.Chrome) -> str:
    """Of what has the keyboard: its id, its text, or what it is."""
    found: str = browser.execute_script(
        "const e = document.activeElement;"
        "return e.id || e.dataset?.order || e.getAttribute('aria-label') || e.textContent.trim()"
    )
    return found


def complaints(browser: webdriver.Chrome) -> list[Any]:
    """Errors of the page so far, breaches of its own policy among them."""
    return [each["message"] for each in browser.get_log("browser") if each["level"] == "SEVERE"]


def click(browser: webdriver.Chrome, selector: str) -> None:
    browser.find_element(By.CSS_SELECTOR, selector).click()
