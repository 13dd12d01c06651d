"""The organiser's page and what surrounds the work, in a real browser: news, actions, quiz, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.conftest import Serve, Tab
from tests.browser.serving import Served

from aliquot.collect.actions import act
from aliquot.collect.protocols import Crowd, Example, Question, Quiz, Tutorial, load_protocol


def judge(served: Served, name: str, score: int, units: int = 1) -> None:
    """Judge some units without a browser."""
    campaign = served.campaign
    who = campaign.pages.annotator(served.tokens()[name])
    answer = campaign.pages.next_unit(who)
    for _ in range(units):
        unit = answer["unit"]
        changes = [
            {"id": o["cell"], "cell": o["cell"], "answer": {"score": score}, "active_ms": 4000, "idle_ms": 0}
            for row in unit["rows"]
            for o in row["outputs"]
            if o["cell"]
        ]
        campaign.pages.save(who, unit["assignment"], changes)
        answer = campaign.pages.submit(who, unit["assignment"])


@pytest.fixture
def organiser(browser: Any) -> Any:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    yield page
    assert page.said == []
    context.close()


def test_new_judgments_appear_by_themselves_and_actions_are_logged(serve: Serve, organiser: Any):
    served = serve("da")
    organiser.goto(served.organiser)
    organiser.wait_for_selector("text=Nothing is judged yet")
    judge(served, "kim", 70)
    organiser.wait_for_selector("text=1 of 2")  # told by the server, without a reload by hand
    assert organiser.locator("script:not([src])").count() == 0
    assert Axe().run(organiser).violations_count == 0
    card = organiser.locator("article", has_text="kim")
    card.locator("summary").click()
    form = card.locator("form", has_text="Exclude")
    form.locator("input[name=reason]").fill("<b>careless</b>")
    form.get_by_role("button", name="Exclude").click()
    organiser.wait_for_selector(".done")
    assert "kim is excluded" in organiser.inner_text(".done")
    assert "<b>careless</b>" in organiser.inner_text("section:has(#h-log)")
    assert set(served.campaign.judgments().table["marked"]) == {"excluded"}


def test_news_do_not_take_a_form_away(serve: Serve, organiser: Any):
    """News come while a reason is typed, and the press of the button ends the typing: the action must go through."""
    served = serve("da")
    judge(served, "kim", 70)
    organiser.goto(served.organiser)
    card = organiser.locator("article", has_text="kim")
    card.locator("summary").click()
    form = card.locator("form", has_text="Exclude")
    form.locator("input[name=reason]").fill("slow")
    act(served.campaign, "message", "", "hello")
    organiser.wait_for_timeout(4000)  # the server tells of it, and the page waits
    button = form.get_by_role("button", name="Exclude")
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    organiser.mouse.move(box["x"] + 5, box["y"] + 5)
    organiser.mouse.down()
    organiser.wait_for_timeout(200)
    organiser.mouse.up()
    organiser.wait_for_selector(".done")
    organiser.wait_for_timeout(3000)  # news of the action itself
    assert "kim is excluded" in organiser.inner_text(".done")


def test_a_wrong_link_and_a_forged_form_do_nothing(serve: Serve, organiser: Any):
    served = serve("da")
    answer = organiser.request.post(f"{served.organiser}/act", form={"action": "close", "csrf": "guessed"})
    assert answer.status == 400
    assert served.campaign.state() == "open"
    assert organiser.request.get(f"{served.url}/o/wrong").status == 404
    assert organiser.request.get(f"{served.organiser}/overview.json").json()["state"] == "open"


def test_quiz_example_message_and_code(serve: Serve, open_tab: Callable[..., Tab]):
    protocol = msgspec.structs.replace(
        load_protocol("da"),
        crowd=Crowd(completed="DONE7"),
        quiz=Quiz(questions=(Question("What is rated?", ("source", "output"), "output"),)),
        tutorial=Tutorial(examples=(Example(output="Good day", feedback="Perfect.", low=90),)),
    )
    served = serve(protocol)
    act(served.campaign, "message", value="We finish on Friday.")
    link = served.campaign.links(served.url).crowd["link"].replace("WORKER_ID", "w1")
    tab = open_tab(link)
    page = tab.page
    assert "We finish on Friday." in page.inner_text("#messages")
    assert Axe().run(page).violations_count == 0
    page.get_by_label("source").check()
    page.get_by_role("button", name="Submit").click()
    page.wait_for_selector("text=1 answers are wrong")
    page.get_by_label("output").check()
    page.get_by_role("button", name="Submit").click()
    page.wait_for_selector("text=Example 1 of 1")
    page.locator("input[type=number]").fill("40")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_selector("text=Perfect.")
    assert Axe().run(page).violations_count == 0
    page.get_by_role("button", name="Go on").click()
    page.wait_for_selector(".unit")
    while page.locator(".unit").count():
        cells = page.locator(".unit input[type=range]").count()
        for at in range(cells):
            page.locator(".unit input[type=range]").nth(at).press("ArrowRight")
        tab.left_by(lambda: page.keyboard.press("Control+Enter"))
        page.wait_for_selector(".unit, .words h2")
    assert page.inner_text(".code") == "DONE7"


def test_link_work_and_judgments_have_their_own_buttons(serve: Serve, organiser: Any):
    served = serve("da")
    judge(served, "kim", 70)
    organiser.goto(served.organiser)
    card = organiser.get_by_role("article", name="kim")

    def press(label: str, reason: str) -> None:
        if not card.locator("details").evaluate("part => part.open"):
            card.locator("summary").click()
        card.get_by_role("textbox", name="Reason: kim").fill(reason)
        card.get_by_role("button", name=label, exact=True).click()
        organiser.wait_for_selector(f"section:has(#h-log) td:text-is('{reason}')")

    def state() -> list[str]:
        return list(card.locator(".state").all_inner_texts())

    for label, reason in (("Pause", "r1"), ("Exclude", "r2"), ("Withdraw link", "r3")):
        press(label, reason)
    assert state() == ["excluded", "paused", "link withdrawn"]
    assert "judgments do not count" in card.inner_text()
    card.locator("summary").click()
    assert [" ".join(row.split()) for row in card.locator(".facts li > span").all_inner_texts()] == [
        "Link withdrawn",
        "Work paused",
        "Judgments do not count",
    ]
    assert Axe().run(organiser).violations_count == 0
    field = card.get_by_role("textbox", name="Reason: kim")
    field.fill("typed")
    field.press("Enter")  # none of the buttons is meant
    organiser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert field.input_value() == "typed"
    press("Include", "r4")
    press("New link", "r5")
    assert state() == ["paused"]
    press("Resume", "r6")
    assert state() == ["active"]
    alias = served.campaign.forget("kim")
    organiser.goto(served.organiser)
    card = organiser.get_by_role("article", name=alias)
    assert state() == ["forgotten"]
    card.locator("summary").click()
    assert card.get_by_role("button").all_inner_texts() == ["Judge again"]


def test_a_worker_comes_again_in_the_same_browser_only(serve: Serve, browser: Any):
    """In MTurk's frame, where storage is the frame's own, and by the new link that the organiser makes."""
    served = serve("da")
    links = served.campaign.links(served.url).crowd
    shared = f"{links['mturk']}?workerId=W1&assignmentId=A1&turkSubmitTo=https://www.mturk.com"

    frame = '<iframe width="900" height="600" src="{}"></iframe>'

    def visit(context: Any, link: str, expected: str, framed: bool = False) -> None:
        page = context.new_page()
        body = frame.format(link.replace("&", "&amp;"))
        page.route("https://worker.mturk.com/*", lambda route: route.fulfill(content_type="text/html", body=body))
        page.goto("https://worker.mturk.com/task" if framed else link)
        (page.frame_locator("iframe") if framed else page).locator(expected).wait_for()
        page.close()

    worker, other = browser.new_context(), browser.new_context()
    for _ in range(2):
        visit(worker, shared, ".unit", framed=True)
    visit(other, shared, "text=begun in another browser", framed=True)
    visit(worker, shared, "text=begun in another browser")  # another top-level site, another storage
    act(served.campaign, "renew", "mturk:W1")
    visit(worker, shared, "text=begun in another browser", framed=True)
    visit(worker, served.campaign.links(served.url).annotators["mturk:W1"], ".unit")
    visit(worker, shared, ".unit")
    assert not worker.cookies()
    worker.close()
    other.close()
