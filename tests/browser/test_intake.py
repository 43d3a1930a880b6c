"""The page of a real intake: what a producer sends is on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium import webdriver

from aqueduct_core.intake.settings.service import HttpSettings
from tests.browser.driving import column, complaints, look, shown, text
from tests.core.intake.lives import run, send_some
from tests.support.intake_process import Site
from tests.support.waiting import LONG, wait_until

pytestmark = pytest.mark.browser


def test_what_a_producer_sends_is_on_the_page(browser: webdriver.Chrome, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake(http=HttpSettings(listen="127.0.0.1:0"), name="till") as intake:
        look(browser, intake.ready["http"])
        shown(browser, "No channel was opened yet")
        run(send_some(intake.url, site, "orders", 100))
        shown(browser, "orders", "#channel-table")
        names = column(browser, "channel-table", 0)
        messages = dict(zip(names, column(browser, "channel-table", 2), strict=True))
        assert messages["orders"] == "100"
        with intake.client() as client:
            client.hold("audit", "me")
        shown(browser, "audit", "#queries")
        wait_until(lambda: "till" in text(browser, "#name"), LONG, "the name")
        assert complaints(browser) == []
        intake.kill()
        shown(browser, "Not connected", "#state")
