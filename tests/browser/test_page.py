"""The page as people use it: read, search, order, by keyboard, narrow, dark, without an intake."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from msgspec import structs
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from aqueduct_core.flight.activity import CursorLag, HistorySample
from tests.browser.driving import (
    click,
    column,
    complaints,
    focused,
    look,
    press,
    shown,
    text,
)
from tests.browser.served import TOKEN, Served, full, served
from tests.core.monitoring.statuses import HOSTILE, activity, status
from tests.support.waiting import LONG, wait_until

pytestmark = pytest.mark.browser


@pytest.fixture
def told() -> Iterator[Served]:
    with served() as (told, _):
        told.intakes = [full(time.time())]
        yield told


def test_the_page_shows_what_the_status_says(browser: webdriver.Chrome, told: Served) -> None:
    look(browser, told.url)
    shown(browser, "Live", "#state")
    assert text(browser, "#name") == "till"
    tiles = text(browser, "#tiles")
    assert "953 k since the start" in tiles
    assert "610 MiB" in tiles
    assert "the oldest 8.4 s" in tiles
    assert column(browser, "queries", 0) == ["warehouse", "audit", "events"]
    assert column(browser, "queries", 3) == ["12,403", "2,000", "0"]
    assert column(browser, "channel-table", 0)[:3] == ["0", "orders", "order-lines"]
    assert column(browser, "peer-table", 0)[0] == "10.0.1.17:51123"
    assert "connections closed for a breach of the protocol" in text(browser, "#counts")
    assert "/s – Aqueduct till" in browser.title
    assert complaints(browser) == []


def test_what_a_peer_wrote_is_shown_and_never_obeyed(
    browser: webdriver.Chrome, told: Served
) -> None:
    everywhere = structs.replace(
        full(time.time()),
        name=HOSTILE,
        listen=HOSTILE,
        lag=(CursorLag("<img src=x onerror=alert(2)>", "messages", 5, 5, 5.0),),
    )
    told.intakes = [everywhere, None]
    look(browser, told.url)
    shown(browser, r"<script>alert(1)</script>\u202e", "#channel-table")
    shown(browser, "<img src=x onerror=alert(2)>", "#queries")
    scripts = browser.find_elements(By.CSS_SELECTOR, "script:not([src]), main img, [onerror]")
    assert scripts == []
    assert "\u202e" not in text(browser)
    assert complaints(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_wider_than_the_window_and_all_text_can_be_read(
    browser: webdriver.Chrome, told: Served, width: int, scheme: str
) -> None:
    told.intakes = [full(time.time()), full(time.time(), full=True), None]
    look(browser, told.url, width, scheme)
    shown(browser, "does not answer")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(FAINT) == []
    assert browser.execute_script("return document.getAnimations().length") == 0


FAINT = """
function parts(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function light([r, g, b]) {
  const part = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const [x, y, z] = [r, g, b].map(c => part(c / 255));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}
function ground(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = parts(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
}
const found = new Set();
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(e);
  if (!own || !e.getClientRects().length || e.closest("noscript, svg, option")) continue;
  const [a, b] = [light(parts(style.color)), light(ground(e))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) found.add(`${e.tagName} ${e.className} ${style.color}`);
}
return [...found];
"""
"""What has less contrast to its ground than people with weak eyes need (WCAG 2, level AA)."""


def test_the_keyboard_reaches_everything(browser: webdriver.Chrome, told: Served) -> None:
    look(browser, told.url)
    shown(browser, "warehouse")
    press(browser, Keys.TAB)
    assert focused(browser) == "Skip to the channels"
    press(browser, Keys.ENTER, Keys.TAB)
    assert focused(browser) == "search"
    press(browser, "sensor-0012")
    wait_until(lambda: told.queries[-1].search == "sensor-0012", LONG, "the question")
    press(browser, Keys.TAB, "t")  # the order of the tree
    wait_until(lambda: told.queries[-1].order == "tree", LONG, "the order")
    for _ in range(2):
        press(browser, Keys.TAB)
    wait_until(lambda: focused(browser) == "Channels", LONG, "the table, which scrolls")
    press(browser, Keys.TAB, Keys.TAB, Keys.ENTER)  # the title of the second column
    wait_until(lambda: told.queries[-1].order == "rate", LONG, "the order of the column")
    asked = len(told.queries)
    wait_until(lambda: len(told.queries) > asked + 1, LONG, "two more answers")
    assert focused(browser) == "rate"  # where it was, though the table was made anew
    sorted_by = browser.find_element(By.CSS_SELECTOR, "#channel-table th[aria-sort]")
    assert sorted_by.text.startswith("Messages/s")


def test_a_chart_is_read_by_keys(browser: webdriver.Chrome, told: Served) -> None:
    look(browser, told.url)
    shown(browser, "warehouse")
    chart = browser.find_element(By.CSS_SELECTOR, "#charts svg")
    label = chart.get_attribute("aria-label")
    assert label is not None
    assert label.startswith("Messages a second: now ")
    browser.execute_script("arguments[0].focus()", chart)
    press(browser, Keys.HOME)
    first = text(browser, "#charts output")
    assert first.count(":") == 2
    press(browser, Keys.PAGE_DOWN)
    assert text(browser, "#charts output") != first
    press(browser, Keys.ESCAPE)
    assert ":" not in text(browser, "#charts output")


def test_a_chart_of_several_intakes_has_all_of_them_at_every_moment(
    browser: webdriver.Chrome, told: Served
) -> None:
    """Whenever each of them takes its samples: what stands still together is a level line."""
    now = time.time()
    told.intakes = []
    for step in (2.02, 2.4, 1.9):
        samples = tuple(
            HistorySample(now - step * n, 0, 0, 0, 0, 1_000, 7, 1, 1) for n in range(200, -1, -1)
        )
        told.intakes.append(status(activity=activity(history=samples)))
    look(browser, told.url)
    shown(browser, "3 intakes", "#name")
    lines = browser.find_elements(By.CSS_SELECTOR, "#charts .line")
    drawn = [(line.get_attribute("d") or "").replace("M", "L").split("L")[1:] for line in lines]
    assert all(len(points) > 150 for points in drawn)
    recent = [{point.split()[1] for point in points[-100:]} for points in drawn]
    assert [len(heights) for heights in recent] == [1, 1, 1, 1]


def test_tables_and_fields_have_names(browser: webdriver.Chrome, told: Served) -> None:
    look(browser, told.url)
    shown(browser, "warehouse")
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('table')].filter(t => !t.caption.textContent).length"
        " + [...document.querySelectorAll('th')].filter(t => !t.scope).length"
        " + [...document.querySelectorAll('input, select')].filter(f => !f.labels.length).length"
        " + [...document.querySelectorAll('img')].filter(i => !i.hasAttribute('alt')).length"
        " + [...document.querySelectorAll('section')].filter(s => !document.getElementById("
        "s.getAttribute('aria-labelledby'))).length"
    )
    assert nameless == 0
    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1


def test_an_intake_with_nothing_says_so(browser: webdriver.Chrome, told: Served) -> None:
    nothing = activity(
        channels=(), channels_found=0, peers=(), peers_found=0, history=(), ends={}, opened=0
    )
    told.intakes = [status(activity=nothing, lag=(), counters={}, connections=0, channels=0)]
    look(browser, told.url)
    for said in ("No query has read from here yet", "No channel was opened yet",
                 "Nobody is connected", "Nothing happened yet"):  # fmt: skip
        shown(browser, said)
    assert complaints(browser) == []


def test_what_no_query_has_read_is_not_behind(browser: webdriver.Chrome, told: Served) -> None:
    told.intakes = [structs.replace(full(time.time()), lag=())]
    look(browser, told.url)
    shown(browser, "no query yet", "#tiles")
    assert "Not read" in text(browser, "#tiles")
    assert "Behind" not in text(browser, "#tiles")
    told.intakes *= 2
    shown(browser, "2 intakes", "#name")
    assert column(browser, "intakes", 3) == ["–", "–"]
    told.intakes = [full(time.time())] * 2
    wait_until(lambda: column(browser, "intakes", 3) == ["12,403"] * 2, LONG, "how far they are")


def test_of_several_intakes_rows_say_which_and_connections_follow_the_order(
    browser: webdriver.Chrome, told: Served
) -> None:
    now = time.time()
    told.intakes = [full(now, name="till"), full(now, name="depot")]
    look(browser, told.url)
    shown(browser, "2 intakes", "#name")
    shown(browser, "busiest first", "#peers-count")
    assert set(column(browser, "channel-table", 10)) == {"till", "depot"}
    assert set(column(browser, "peer-table", 10)) == {"till", "depot"}
    browser.find_element(By.CSS_SELECTOR, "#order option[value=quiet]").click()
    shown(browser, "quiet for longest first", "#peers-count")
    assert column(browser, "peer-table", 1)[:2] == ["till-3", "till-3"]
    told.intakes = told.intakes[:1]
    shown(browser, "till", "#name")
    wait_until(lambda: "Intake" not in text(browser, "#channel-table thead"), LONG, "one intake")


def test_ten_thousand_channels_are_searched_where_they_are(
    browser: webdriver.Chrome, told: Served
) -> None:
    whole = full(time.time(), 50)
    assert whole.activity is not None
    many = structs.replace(whole.activity, channels_found=10_000)
    told.intakes = [structs.replace(whole, activity=many)]
    look(browser, told.url)
    shown(browser, "50 of 10,000", "#channels-count")
    assert len(column(browser, "channel-table", 0)) == 50
    assert told.queries[-1].most == 50


def test_what_is_wrong_is_said_first(browser: webdriver.Chrome, told: Served) -> None:
    idle = (CursorLag("audit", "messages", 7_000, 700_000, 3_700.0, held=False),)
    told.intakes = [structs.replace(full(time.time()), full=True, lag=idle)]
    look(browser, told.url)
    shown(browser, "the spool is full", "#alarms")
    shown(browser, "No query reads cursor audit: 7,000 messages wait, the oldest for 1 h 1 min")
    told.intakes = [full(time.time())]
    assert wait_until(lambda: text(browser, "#alarms") == "", LONG, "the end of the alarms")


def test_who_gets_no_answer_is_told_and_goes_on_when_there_is_one(
    browser: webdriver.Chrome,
) -> None:
    with served() as (told, server):
        told.intakes = [full(time.time())]
        look(browser, told.url)
        shown(browser, "Live", "#state")
        server.close()
        shown(browser, "Not connected", "#state")
        shown(browser, "No answer comes: nobody is there", "#alarms")
        assert "warehouse" in text(browser, "#queries")
        with served(port=server.address.port) as (again, _):
            again.intakes = [full(time.time(), name="back")]
            shown(browser, "Live", "#state")
            shown(browser, "back", "#name")


def test_a_token_is_given_in_a_form_and_stays_out_of_the_page(browser: webdriver.Chrome) -> None:
    with served(token=TOKEN) as (told, _):
        told.intakes = [full(time.time())]
        look(browser, told.url)
        assert browser.current_url.endswith("/login")
        assert focused(browser) == "token"
        press(browser, "wrong", Keys.ENTER)
        shown(browser, "This is not a token that may look")
        press(browser, TOKEN, Keys.ENTER)
        shown(browser, "warehouse")
        assert browser.current_url == f"{told.url}/"
        assert browser.execute_script("return document.cookie") == ""
        assert TOKEN not in browser.page_source
        [cookie] = browser.get_cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        click(browser, "#leave button")
        wait_until(lambda: browser.current_url.endswith("/login"), LONG, "the form")
        browser.get(told.url)
        assert browser.current_url.endswith("/login")
