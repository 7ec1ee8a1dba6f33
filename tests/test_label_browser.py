"""`textsvm label` in a browser: the keyboard, a kill, two tabs, hostile texts, a million texts."""

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import hostile_pages
import pytest
from command import fails
from test_label_page import MESSAGES, ROOT, labels_in
from test_report_browser import browser  # noqa: F401 (a fixture)

from textsvm import read_corpus

pytest.importorskip("httptools")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")]

LINES = ("texts.txt", "--format", "lines", "-o", "l.jsonl")


@contextmanager
def serving(*arguments, cwd):
    """The address of a running `textsvm label`, and its process."""
    command = [sys.executable, "-m", "textsvm", "label", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("label at http://127.0.0.1:"), process.stderr.read()
        yield line.split()[-1], process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def visit(browser):  # noqa: F811
    """Open an address; complaints of the page, and requests to other origins, fail the test."""
    complaints, pages = [], []

    def open_page(address, width=1120, killed=False, **options):
        page = browser.new_page(viewport={"width": width, "height": 844}, **options)
        pages.append(page)
        origin = "http://127.0.0.1:" if killed else address.rsplit("/", 2)[0]  # a new start has another port
        lost = ("CONNECTION_RESET", "EMPTY_RESPONSE", "CONTENT_LENGTH_MISMATCH") if killed else ()
        expected = "409 (Conflict)", "ERR_CONNECTION_REFUSED", *lost
        page.on(
            "console",
            lambda message: (
                None
                if any(each in message.text for each in expected)
                else complaints.append(f"console: {message.text}")
            ),
        )
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda each: None if each.url.startswith(origin) else complaints.append(each.url))
        page.goto(address)
        settled(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def settled(page):
    """Wait until the page has its answer."""
    page.wait_for_selector("body:not([aria-busy])")
    return page


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
        settled(page)


def shown_text(page):
    return page.locator("#text").text_content()


@pytest.fixture(scope="module")
def truth():
    with open(MESSAGES, encoding="utf-8") as table:
        return {row["text"]: row["label"] for row in csv.DictReader(table)}


def label_with_keys(page, truth, n):
    """Label texts as their labels are; the labels by text."""
    said = {}
    for _ in range(n):
        text = shown_text(page)
        said[text] = truth[text]
        press(page, "1" if truth[text] == "spam" else "2")
    return said


def texts_in(path):
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    return {row["text"]: row["label"] for row in rows if row["chosen"] != "copy"}


def test_fifty_texts_with_the_keyboard_a_kill_and_a_new_start(tmp_path, visit, truth):
    arguments = MESSAGES, "-o", "labels.jsonl", "--labels", "spam,ham"
    with serving(*arguments, cwd=tmp_path) as (address, process):
        page = visit(address, killed=True)
        said = label_with_keys(page, truth, 25)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert texts_in(tmp_path / "labels.jsonl") == said
        press(page, "1")
        assert "does not answer" in page.locator("#note").inner_text()
    with serving(*arguments, cwd=tmp_path) as (address, process):
        page = visit(address, killed=True)
        answered = len(labels_in(tmp_path / "labels.jsonl"))  # with near-copies
        assert page.locator("#tiles dd").first.inner_text().split("\n")[0] == str(answered)
        said |= label_with_keys(page, truth, 25)
        assert texts_in(tmp_path / "labels.jsonl") == said
        assert len(said) >= 45  # some are asked again
        page.wait_for_timeout(1000)
        press(page, "s")
        while " · " in page.locator("#about").inner_text():  # of the test part, or asked again: without guess
            label_with_keys(page, truth, 1)
        page.locator("#legend").wait_for()
        assert page.locator("#labels button.best").count() == 1
        os.kill(process.pid, signal.SIGTERM)
        assert "train on them: textsvm train labels.jsonl" in process.communicate()[1]
        assert process.returncode == 0
    assert fails("label", *arguments[:-1], "spam", "--multilabel", cwd=tmp_path).count("without --multilabel")


def test_two_tabs(tmp_path, visit, truth):
    with serving(MESSAGES, "-o", "labels.jsonl", "--labels", "spam,ham", cwd=tmp_path) as (address, _):
        first, second = visit(address), visit(address)
        text = shown_text(first)
        assert shown_text(second) == text
        press(first, "1")
        press(second, "2")
        assert "another window" in second.locator("#note").inner_text()
        assert text not in (shown_text(first), shown_text(second))
        assert texts_in(tmp_path / "labels.jsonl") == {text: "spam"}
        press(second, "2")
        press(first, "u")  # would undo the answer of the other tab
        assert "newer answer" in first.locator("#note").inner_text()
        assert len(texts_in(tmp_path / "labels.jsonl")) == 2
        refused = fails("label", MESSAGES, "-o", "labels.jsonl", "--labels", "spam,ham", cwd=tmp_path)
        assert "another `textsvm label`" in refused


def test_two_tabs_with_two_names(tmp_path, browser):  # noqa: F811
    with serving(MESSAGES, "-o", "l.jsonl", "--labels", "a,b", "--shared", "0", cwd=tmp_path) as (address, _):
        context = browser.new_context(locale="de")
        tabs = {name: context.new_page() for name in ("anna", "ben")}
        for name, tab in tabs.items():
            tab.goto(address)
            settled(tab)
            if name == "ben":  # the browser proposes the name of the first tab
                assert tab.locator("#who").inner_text().startswith("anna")
                press(tab, "w")
            tab.locator("#person").wait_for()
            name_of(tab, name)
            tab.locator("#note", has_text=name).wait_for()
        for tab in tabs.values():  # a new load keeps the name of the tab
            tab.reload()
            settled(tab)
        press(tabs["anna"], "1")
        press(tabs["ben"], "2")
        for name, tab in tabs.items():
            assert tab.locator("#who").inner_text().startswith(name)
        third = context.new_page()
        third.goto(address)
        assert settled(third).locator("#who").inner_text().startswith("ben")  # `m` of anna does not rename
        copy = context.new_page()
        copy.goto(address)
        press(settled(copy), "1")
        press(tabs["ben"], "1")
        assert "in einem anderen Fenster beantwortet" in tabs["ben"].locator("#note").inner_text()
        context.close()
    rows = map(json.loads, (tmp_path / "l.jsonl").read_text("utf-8").splitlines())
    assert {(name, label) for row in rows for name, label in row["answers"].items()} >= {
        ("anna", "a"),
        ("ben", "b"),
    }


def test_all_keys_several_labels_and_the_list(tmp_path, visit):
    texts = [f"{animal} {place}" for animal in ("cat", "dog", "owl") for place in ("home", "garden", "wood")]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    with serving(*LINES, "--multilabel", cwd=tmp_path) as (address, _):
        page = visit(address, 390, color_scheme="dark", has_touch=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert "press n" in page.locator("#note").inner_text()
        for label in ("cat", "home"):
            press(page, "n")
            page.keyboard.type(label)
            press(page, "Enter")
        first = shown_text(page)
        press(page, "1", "2", "1", "1", "Enter")
        assert texts_in(tmp_path / "l.jsonl") == {first: ["cat", "home"]}
        second = shown_text(page)
        press(page, "0")
        press(page, "s")
        assert shown_text(page) not in (first, second)
        press(page, "/")
        page.keyboard.type(" ".join(reversed(first.split())))
        press(page, "Enter")
        assert page.locator("#results li").count() == 1
        press(page, "Tab", "Enter")
        assert (shown_text(page), page.locator('#labels [aria-pressed="true"]').count()) == (first, 2)
        press(page, "2", "Enter")
        assert texts_in(tmp_path / "l.jsonl") == {first: ["cat"]}
        assert page.locator("#history li").count() == 2
        page.locator("#history button").nth(1).tap()
        settled(page)
        assert shown_text(page) == second
        page.locator("#undo").tap()
        settled(page)
        assert (shown_text(page), texts_in(tmp_path / "l.jsonl")) == (first, {first: ["cat", "home"]})
        for button in page.locator("#card button:visible").all():
            assert button.bounding_box()["height"] >= 44
        assert page.locator("button:not(:visible)").count() < page.locator("button").count()
        assert page.get_by_role("status").count() >= 1


def test_toggles_and_names_of_labels(tmp_path, visit):
    (tmp_path / "texts.txt").write_text("".join(f"{9000 * letter}\n" for letter in "abcdefgh"), "utf-8")
    arguments = *LINES, "--multilabel", "--labels", "constructor,cat,dog"
    with serving(*arguments, cwd=tmp_path) as (address, _):
        page = visit(address)
        for kind in ("cat", "dog"):
            first = page.locator("#about").inner_text()
            page.locator(f'#labels [value="{kind}"]').click()
            page.locator("#whole").click()
            settled(page)
            assert page.locator('#labels [aria-pressed="true"]').count() == 1
            page.locator('#labels [value="dog"]').focus()
            press(page, "Enter")  # saves
            assert page.locator("#about").inner_text() != first
        assert sorted(labels_in(tmp_path / "l.jsonl").values()) == [["cat"], ["dog"]]
        assert "NaN" not in page.locator("#labels").inner_text()
        press(page, "n")
        page.keyboard.type("\U0001f600" * 100)
        press(page, "Enter")
        assert page.locator("#labels button").count() == 4


def test_undo_of_a_skip_and_removal_of_a_label(tmp_path, visit):
    (tmp_path / "texts.txt").write_text("".join(f"{word} {word}\n" for word in ("one", "two", "three")))
    with serving(*LINES, "--labels", "spam,spma", cwd=tmp_path) as (address, _):
        page = visit(address)
        press(page, "1")
        second = shown_text(page)
        press(page, "s")
        assert shown_text(page) != second
        press(page, "u")
        assert (shown_text(page), len(labels_in(tmp_path / "l.jsonl"))) == (second, 1)
        press(page, "n", "Tab", "Tab", "Tab", "Tab", "Tab", "Enter")
        assert page.locator("#labels b").all_inner_texts() == ["spam"]


def test_near_copies_and_a_key_to_separate_them(tmp_path, visit):
    texts = ["Win cash now, 1 day", "win CASH  now, 1 day", "lunch at noon", "see you soon"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    with serving(*LINES, "--labels", "spam,ham", cwd=tmp_path) as (address, _):
        page = visit(address)
        while "cash" not in shown_text(page).lower():
            press(page, "2")
        press(page, "1")
        assert "Near-copies with it: 1." in page.locator("#note").inner_text()
        assert list(labels_in(tmp_path / "l.jsonl").values()).count("spam") == 2
        press(page, "c")
        assert list(labels_in(tmp_path / "l.jsonl").values()).count("spam") == 1


def test_hostile_texts(tmp_path, visit):
    rows = [json.dumps({"id": text, "text": text}) for text in hostile_pages.ALL if text.strip()]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    arguments = "texts.jsonl", "-o", "l.jsonl", "--labels", f"{hostile_pages.ALL[0]},ham"
    with serving(*arguments, cwd=tmp_path) as (address, _):
        page = visit(address)
        tags = page.evaluate("[...new Set([...document.querySelectorAll('*')].map((e) => e.tagName))]")
        for i in range(40):
            press(page, str(i % 2 + 1))
        press(page, "/")
        page.keyboard.type("script")
        press(page, "Enter")
        press(page, "Tab", "Enter")
        after = page.evaluate("[...new Set([...document.querySelectorAll('*')].map((e) => e.tagName))]")
        assert set(after) - set(tags) <= {"LI", "SPAN", "svg", "path", "text"}
        assert page.evaluate("window.owned") is None
        page.close()  # before its server ends


def name_of(page, name):
    """Give a name in the dialog that is open."""
    page.keyboard.type(name)
    press(page, "Enter")


def test_letters_of_ones_own_in_german(tmp_path, visit):
    (tmp_path / "texts.txt").write_text("".join(f"{word} {word}\n" for word in ("one", "two", "three")))
    with serving(*LINES, "--labels", "spam,__proto__", cwd=tmp_path) as (address, _):
        page = visit(address, locale="de-CH")
        assert page.locator("html").get_attribute("lang") == "de"
        assert page.locator("#unsure").inner_text().startswith("Unsicher")
        press(page, "n", "Tab", "Tab", "Tab", "Tab")
        page.keyboard.type("x")
        press(page, "Tab", "Tab")
        page.keyboard.type("s")  # the key of an action
        press(page, "Tab", "Escape")
        assert page.locator("#labels kbd").all_inner_texts() == ["x", "2"]
        press(page, "x", "2")
        assert sorted(labels_in(tmp_path / "l.jsonl").values()) == ["__proto__", "spam"]
        assert "1 beurteilt" in page.locator("#labels").inner_text()
        assert page.locator("#note").inner_text() == "Gespeichert: __proto__."
        page.reload()
        settled(page)
        assert page.locator("#labels kbd").all_inner_texts() == ["x", "2"]


def test_two_people_from_a_name_to_a_decision(tmp_path, visit):
    texts = [f"{word} {word}" for word in ("one", "two", "three", "four", "five", "six")]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    arguments = *LINES, "--labels", "spam,ham", "--shared", "1"
    with serving(*arguments, cwd=tmp_path) as (address, _):
        anna, ben = visit(address, killed=True), visit(address, 390)
        for page, name in ((anna, "anna"), (ben, "<b>ben</b>")):
            assert page.locator("#naming_me").is_visible()
            name_of(page, name)
            assert page.locator("#who").inner_text().startswith(name)
        press(anna, "1")
        assert shown_text(anna) != shown_text(ben)
        press(ben, "2")
        first = shown_text(ben)
        assert "Another person labels this text" in ben.locator("#about").inner_text()
        press(ben, "2")
        press(anna, "r")
        line = anna.locator("#disagreements button")
        assert line.count() == 1
        line.click()
        settled(anna)
        assert shown_text(anna) == first
        assert "anna: spam · <b>ben</b>: ham" in anna.locator("#about").inner_text()
        press(anna, "2")
        rows = map(json.loads, (tmp_path / "l.jsonl").read_text("utf-8").splitlines())
        row = next(row for row in rows if row["text"] == first)
        assert (row["label"], row["majority"]) == ("ham", None)
        assert row["answers"] == {"anna": "spam", "<b>ben</b>": "ham"}
        press(anna, "e")
        anna.locator("#format").select_option(".json")
        with anna.expect_download() as download:
            anna.locator("#download").click()
        assert download.value.suggested_filename == "labels.json"
        tasks = json.loads(Path(download.value.path()).read_text("utf-8"))
        answers = [each for task in tasks for each in task["annotations"]]
        names = {each["completed_by"]["email"] for each in answers if "completed_by" in each}
        assert names == {"anna", "<b>ben</b>"}
        assert [each["result"][0]["value"]["choices"] for each in answers if "ground_truth" in each] == [
            ["ham"]
        ]
    with serving(*arguments, cwd=tmp_path) as (address, _):
        anna.goto(address)  # the browser remembers the name
        settled(anna)
        assert not anna.locator("#naming_me").is_visible()
        assert anna.locator("#who").inner_text().startswith("anna")
        anna.close()


def test_two_browsers_label_side_by_side_with_kills(tmp_path, visit):
    """No answer is lost, and none is attributed to the other person, with three kills at any time."""
    keys, chance = {"anna": ("1", "spam"), "ben": ("2", "ham")}, random.Random(0)
    arguments, pages = (MESSAGES, "-o", "l.jsonl", "--labels", "spam,ham", "--shared", "0.2"), {}
    acknowledged, pending = set(), set()
    for end in (60, 130, 200):
        with serving(*arguments, cwd=tmp_path) as (address, process):
            for name in keys:
                if name not in pages:
                    pages[name] = visit(address, killed=True)
                    name_of(pages[name], name)
                pages[name].goto(address)
                settled(pages[name])
            while process.poll() is None:
                shown = {name: shown_text(page) for name, page in pages.items()}
                assert len({*shown.values()}) == 2
                for name, page in pages.items():
                    page.keyboard.press(keys[name][0])
                if len(acknowledged) >= end - 2:
                    time.sleep(chance.uniform(0, 0.05))
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
                for name, page in pages.items():
                    saved = settled(page).locator("#note").inner_text().startswith("Saved")
                    (acknowledged if saved else pending).add((name, shown[name]))
    lines = (tmp_path / "l.jsonl.journal").read_text("utf-8").splitlines()
    answers = [event for event in map(json.loads, lines) if "id" in event]
    assert {(event["by"], event["label"]) for event in answers} == {("anna", "spam"), ("ben", "ham")}
    corpus = read_corpus(MESSAGES)
    texts = dict(zip(corpus.ids, corpus.texts, strict=True))
    journal = {(event["by"], texts[event["id"]]) for event in answers if "copy_of" not in event}
    assert acknowledged <= journal <= acknowledged | pending
    rows = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text("utf-8").splitlines()]
    assert {name for row in rows for name in row["answers"]} == {"anna", "ben"}
    assert 20 <= sum(len(row["answers"]) == 2 for row in rows) <= 60


def test_a_million_texts(tmp_path, visit):
    words = [f"word{i}" for i in range(3000)]
    chance = random.Random(0)
    with open(tmp_path / "texts.txt", "w", encoding="utf-8") as stream:
        for i in range(1_000_000):
            stream.write(" ".join(chance.choices(words, k=6)) + f" {'cash' if i % 2 else 'lunch'}\n")
    clock = time.monotonic()
    arguments = *LINES, "--labels", "spam,ham", "--port", "0"
    with serving(*arguments, cwd=tmp_path) as (address, process):
        started, page, times = time.monotonic() - clock, visit(address), []
        for _ in range(30):
            clock = time.monotonic()
            press(page, "1" if "cash" in shown_text(page) else "2")
            times.append(time.monotonic() - clock)
            page.wait_for_timeout(300)
        press(page, "/")
        page.keyboard.type("nowhere")
        press(page, "Enter")
        assert re.match(r"0 found in [\d,]+ of 1,000,000 texts", page.locator("#matches").inner_text())
        status = Path(f"/proc/{process.pid}/status").read_text() if sys.platform == "linux" else ""
        memory = int((re.search(r"VmHWM:\s+(\d+)", status) or [0, 0])[1]) >> 10
        print(f"started in {started:.0f} s, {memory} MiB, next text {sorted(times)[15]:.3f} s")
        assert page.evaluate("document.documentElement.outerHTML.length") < 200_000
        assert sorted(times)[15] < 1
        assert memory < 2500
