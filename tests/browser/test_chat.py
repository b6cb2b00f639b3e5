"""The chat panel in a real JupyterLab: what a person sees, says, decides and stops, and what is there after things went wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.agents import ASSISTANT, LONG

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator

    from tests.browser.lab import Notebook

CHAT = ASSISTANT + "\nchat = agent.chat()\nchat"
TURN = ".loom-turn[data-role='{}']"


def panel(nb: Notebook, cell: int = 0) -> Locator:
    """A cell's chat, alive."""
    found = nb.output(cell).locator(".loom-chat").last
    expect(found).to_have_attribute("data-live", "live", timeout=20_000)
    return found


def say(shown: Locator, text: str) -> None:
    """Write something and send it with Enter."""
    shown.get_by_label("Message", exact=True).click()
    shown.page.keyboard.type(text)
    shown.page.keyboard.press("Enter")


def folder(nb: Notebook) -> Path:
    return (nb.server.root / nb.path).parent


def asked(shown: Locator) -> Locator:
    """The approval that is open."""
    form = shown.locator("form.loom-ask-approval")
    expect(form).to_be_visible()
    return form


def test_an_answer_grows_with_its_thoughts_its_tools_and_its_cost(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    expect(shown.locator(".loom-empty")).to_have_text("Say something to Helper.")

    say(shown, "What is the weather like?")

    answer = shown.locator(TURN.format("assistant")).last
    expect(answer.locator("table td").first).to_have_text("Mon")
    expect(shown.locator(".loom-tool-text")).to_have_text("Asked for the weather in Lisbon")
    assert "weather\n" not in shown.inner_text()  # never its raw name
    expect(shown.locator(".loom-thought summary")).to_have_text(re.compile("^Thought for"))
    expect(answer.locator(".loom-used")).to_have_text("scripted · 712 tokens in · 113 out · $0.0016")
    expect(shown.locator(".loom-title")).to_have_text("What is the weather like?")
    shown.locator(".loom-tool summary").click()
    expect(shown.locator(".loom-tool-body")).to_contain_text("Degrees")
    nb.screenshot(tmp_path / "answer-light.png", cell=0)
    nb.theme("dark")
    nb.screenshot(tmp_path / "answer-dark.png", cell=0)
    nb.theme("light")

    shown.get_by_role("button", name="And next week?").click()
    expect(shown.locator(TURN.format("user"))).to_have_count(2)


def test_shift_enter_makes_a_new_line_and_runs_no_cell(notebook) -> None:
    nb = notebook([CHAT, "print('ran')"])
    nb.run_cell(0)
    shown = panel(nb)
    box = shown.get_by_label("Message", exact=True)
    box.click()
    nb.page.keyboard.type("one")
    nb.press("Shift+Enter")
    nb.page.keyboard.type("two")
    assert (nb.focused(), box.input_value()) == ("TEXTAREA Message", "one\ntwo")
    nb.press("Enter")

    expect(shown.locator(TURN.format("user"))).to_have_text(re.compile("one\\s+two"))
    assert nb.output(1).count() == 0 or "ran" not in nb.output(1).inner_text()


def test_an_approval_is_edited_refused_when_it_does_not_fit_and_carried_out_as_edited(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Mail it to Bob")
    form = asked(shown)
    expect(form).to_contain_text("Send this mail?")
    expect(shown.locator(".loom-chip")).to_have_text("waiting for you")
    nb.screenshot(tmp_path / "approval.png", cell=0)

    to = form.locator("[data-key='f:input.to']")
    to.fill("eve@example.org")
    form.get_by_label("Subject").fill("Sun")
    to.press("Enter")
    assert nb.focused() == "BUTTON Send mail"  # Enter leads to the choice, it does not make it
    nb.press("Enter")

    expect(shown.locator(TURN.format("assistant")).last).to_contain_text("Done: sent to eve@example.org.")
    assert (folder(nb) / "sent.txt").read_text() == "eve@example.org: Sun\n"
    expect(shown.locator(".loom-tool-text").last).to_have_text("Sent the mail to eve@example.org")
    expect(shown.locator(".loom-tool-more").last).to_have_text("with changed arguments")
    expect(shown.get_by_label("Message", exact=True)).to_be_focused()


def test_a_rejection_is_told_to_the_agent_and_seen_as_one(notebook) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Mail it to Bob")
    form = asked(shown)

    form.get_by_label("Reason, if you reject it").fill("not today")
    form.get_by_role("button", name="Reject").click()

    expect(shown.locator(TURN.format("assistant")).last).to_contain_text("I did not send it")
    expect(shown.locator(".loom-tool").last).to_have_attribute("data-status", "denied")
    expect(shown.locator(".loom-tool-more").last).to_have_text("not today")
    assert not (folder(nb) / "sent.txt").exists()


def test_a_remembered_approval_is_not_asked_again_in_the_conversation(notebook) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Mail it to Bob")
    form = asked(shown)
    form.get_by_label("Do not ask again").check()
    form.get_by_role("button", name="Send mail").click()
    expect(shown.locator(TURN.format("assistant")).last).to_contain_text("Done")

    say(shown, "Mail it once more")

    expect(shown.locator(".loom-tool-more").last).to_have_text("allowed before")
    expect(shown.locator(TURN.format("assistant")).last).to_contain_text("Done")
    assert (folder(nb) / "sent.txt").read_text().count("\n") == 2


def test_escape_stops_an_answer_in_its_middle_and_what_is_typed_ahead_waits(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Tell me something long")
    expect(shown.locator(".loom-turns")).to_contain_text("This takes")
    expect(shown.get_by_role("button", name="Stop")).to_be_visible()
    say(shown, "What is the weather like?")
    expect(shown.locator(".loom-queued")).to_contain_text("What is the weather like?")
    nb.screenshot(tmp_path / "streaming.png", cell=0)

    nb.press("Escape")

    expect(shown.locator(".loom-turn[data-lost] .loom-used")).to_contain_text("not kept")
    expect(shown.locator(".loom-queued")).to_contain_text("Not sent")
    expect(shown.get_by_role("button", name="Stop")).to_be_hidden()
    nb.screenshot(tmp_path / "stopped.png", cell=0)
    shown.get_by_role("button", name="Send now").click()
    expect(shown.locator("table td").first).to_have_text("Mon")


def test_what_is_typed_ahead_is_sent_when_the_answer_is_there(notebook) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Tell me something long")
    expect(shown.locator(".loom-turns")).to_contain_text("This takes")
    say(shown, "What is the weather like?")
    expect(shown.locator(".loom-queued")).to_be_visible()

    (folder(nb) / "go").touch()

    expect(shown.locator("table td").first).to_have_text("Mon")
    expect(shown.locator(".loom-queued")).to_be_hidden()
    expect(shown.locator(TURN.format("user"))).to_have_count(2)


def test_a_failure_says_what_to_do_and_is_taken_up_again(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Please fail")
    expect(shown.locator(".loom-error")).to_contain_text("the server of the model is not there")
    nb.screenshot(tmp_path / "failed.png", cell=0)

    (folder(nb) / "up").touch()
    shown.get_by_role("button", name="Try again").click()

    expect(shown.locator("table td").first).to_have_text("Mon")
    expect(shown.locator(".loom-error")).to_be_hidden()
    expect(shown.locator(TURN.format("user"))).to_have_count(1)


def test_a_message_is_edited_and_a_conversation_branches(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    say(shown, "Mail it to Bob")
    asked(shown).get_by_role("button", name="Reject").click()
    expect(shown.locator(TURN.format("assistant")).last).to_contain_text("did not send it")

    shown.get_by_role("button", name="Edit").click()
    shown.get_by_label("Say instead").fill("What is the weather like?")
    shown.get_by_label("Say instead").press("Enter")
    expect(shown.locator("table td").first).to_have_text("Mon")
    expect(shown.locator(TURN.format("user"))).to_have_text(re.compile("^What is the weather like"))

    shown.locator(TURN.format("assistant")).last.get_by_role("button", name="Branch").click()
    expect(shown.locator("table td").first).to_have_text("Mon")
    say(shown, "Mail it to Bob")
    asked(shown).get_by_role("button", name="Reject").click()
    expect(shown.locator(TURN.format("assistant")).last).to_contain_text("did not send it")
    shown.get_by_role("button", name="Conversations").click()
    expect(shown.locator(".loom-thread")).to_have_count(2)
    nb.screenshot(tmp_path / "conversations.png", cell=0)
    shown.get_by_label("Search conversations").fill("no such words")
    expect(shown.locator(".loom-thread")).to_have_count(0)
    shown.get_by_label("Search conversations").fill("")
    expect(shown.locator(".loom-thread")).to_have_count(2)
    shown.locator(".loom-thread:not([aria-current])").click()
    expect(shown.locator(TURN.format("user"))).to_have_count(1)


def test_a_reload_in_mid_stream_finds_the_answer_and_its_end(notebook) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    say(panel(nb), "Tell me something long")
    expect(panel(nb).locator(".loom-turns")).to_contain_text("This takes")
    nb.wait_idle()
    nb.save()

    nb.reload()
    shown = panel(nb)
    expect(shown.locator(".loom-turns")).to_contain_text("This takes")
    (folder(nb) / "go").touch()

    expect(shown.locator(".loom-turns")).to_contain_text(" ".join(["a long while"] * 60))
    expect(shown.get_by_role("button", name="Stop")).to_be_hidden()


def test_after_a_restart_the_conversation_comes_back_with_its_open_approval(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT, ASSISTANT + "\nagent.threads()[0]", "loom.pending()"])
    nb.run_cell(0)
    say(panel(nb), "Mail it to Bob")
    asked(panel(nb))

    nb.restart()
    expect(nb.output(0).locator(".loom-chat")).to_have_attribute("data-live", "gone", timeout=15_000)
    expect(nb.output(0).locator(".loom-line")).to_contain_text("agent.chat(")
    nb.screenshot(tmp_path / "gone.png", cell=0)
    nb.run_cell(1)
    again = panel(nb, 1)
    expect(again.locator(TURN.format("user"))).to_have_text(re.compile("^Mail it to Bob"))
    expect(asked(again)).to_contain_text("Send this mail?")

    nb.run_cell(2)
    form = nb.output(2).locator("form.loom-ask-approval")
    expect(form).to_be_visible(timeout=15_000)
    nb.screenshot(tmp_path / "pending.png", cell=2)
    form.get_by_label("Subject").fill("Again")
    form.get_by_role("button", name="Send mail").click()

    expect(again.locator(TURN.format("assistant")).last).to_contain_text("Done")
    assert (folder(nb) / "sent.txt").read_text() == "bob@example.org: Again\n"


def test_after_a_restart_the_cell_that_begins_a_conversation_leads_to_the_one_that_waits(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_cell(0)
    say(panel(nb), "Mail it to Bob")
    asked(panel(nb))

    nb.restart()
    nb.run_cell(0)

    way = panel(nb).get_by_role("button", name="Go to Mail it to Bob")
    expect(way).to_be_visible(timeout=15_000)
    panel(nb).screenshot(path=tmp_path / "elsewhere.png")
    way.press("Enter")
    expect(asked(panel(nb))).to_contain_text("Send this mail?")
    expect(way).to_be_hidden()


def test_when_the_store_is_closed_panels_keep_what_they_show_and_say_what_to_run(notebook, tmp_path: Path) -> None:
    asking = "sure = loom.confirm('Sure?', key='sure')\nsure"
    nb = notebook([CHAT, asking, "loom.close()", "loom.open('store.duckdb'); agent.chat(chat.thread_id)"])
    nb.run_cell(0)
    shown = panel(nb)
    say(shown, "What is the weather like?")
    expect(shown.locator("table td").first).to_have_text("Mon")
    say(shown, "Mail it to Bob")
    asked(shown)
    nb.run_cell(1)
    expect(nb.output(1).locator(".loom-panel")).to_have_attribute("data-live", "live", timeout=20_000)

    nb.run_cell(2)

    for one in (nb.output(0).locator(".loom-chat"), nb.output(1).locator(".loom-panel")):
        expect(one).to_have_attribute("data-live", "closed", timeout=15_000)
        expect(one.locator(".loom-line")).to_contain_text("run the cell that opens it again, then")
        expect(one.locator(".loom-chip").first).to_have_text("store closed")
    nb.page.wait_for_timeout(4000)  # longer than a hello and its patience
    expect(shown).to_have_attribute("data-live", "closed")
    expect(shown.locator("table td").first).to_have_text("Mon")
    expect(shown.get_by_label("Message", exact=True)).to_be_disabled()
    nb.screenshot(tmp_path / "closed.png", cell=0)
    nb.run_cell(3)
    expect(asked(panel(nb, 3))).to_contain_text("Send this mail?")
    # The server's log is that of all tests, and tells of sockets that pages closed: only what is ours counts.
    log = nb.server.log.read_text(errors="replace")
    assert not re.search(r'File "[^"]*/loomnb(_widgets)?/', log), log[-2000:]


def test_a_turn_shows_its_conversation_and_can_be_gone_on_with(notebook) -> None:
    nb = notebook([ASSISTANT + "\nrun = agent.run('What is the weather like?')\nrun", "print(await run)"])
    nb.run_all()
    nb.wait_text(1, "stays mild")
    shown = panel(nb)
    expect(shown.locator("table td").first).to_have_text("Mon")

    say(shown, "Mail it to Bob")

    asked(shown)


def test_a_thousand_messages_are_shown_from_their_end(notebook) -> None:
    nb = notebook([LONG])
    before = len(nb.frames)
    nb.run_all()
    shown = panel(nb)
    expect(shown.locator(".loom-turn").last).to_contain_text("Answer 499")
    expect(shown.locator(".loom-turn")).to_have_count(60)
    assert nb.traffic("in", before)[1] < 700_000
    shown.get_by_role("button", name="Show earlier messages (940)").click()
    expect(shown.locator(".loom-turn")).to_have_count(160)

    sent = len(nb.frames)
    say(shown, "What is the weather like?")
    expect(shown.locator("table td").first).to_have_text("Mon")
    assert nb.traffic("in", sent)[1] < 400_000


def test_every_control_has_a_name_and_files_have_a_limit(notebook, tmp_path: Path) -> None:
    nb = notebook([CHAT])
    nb.run_all()
    shown = panel(nb)
    (tmp_path / "notes.txt").write_text("sunny")
    (tmp_path / "big.bin").write_bytes(b"0" * 5_000_001)

    shown.locator("input[type=file]").set_input_files(tmp_path / "big.bin")
    expect(shown.get_by_role("alert").filter(has_text="too large")).to_be_visible()
    shown.locator("input[type=file]").set_input_files(tmp_path / "notes.txt")
    expect(shown.get_by_role("listitem").filter(has_text="notes.txt")).to_be_visible()
    for line in shown.aria_snapshot().splitlines():
        if found := re.match(r"\s*- (button|textbox|checkbox|combobox|form)\b(.*)", line):
            assert '"' in found[2], f"a {found[1]} without a name: {line}"
    say(shown, "What is the weather like?")

    expect(shown.locator(TURN.format("user")).get_by_role("listitem")).to_have_text("notes.txt")
    expect(shown.locator("table td").first).to_have_text("Mon")


def test_what_is_typed_while_an_answer_ends_stays_under_the_fingers(notebook) -> None:
    nb = notebook([CHAT, "1"])
    nb.run_cell(0)
    shown = panel(nb)
    say(shown, "Tell me something long")
    expect(shown.locator(".loom-turns")).to_contain_text("This takes")
    shown.evaluate("node => void (node.dataset.mark = 'first')")

    nb.page.keyboard.type("half a ")
    (folder(nb) / "go").touch()
    expect(shown.get_by_role("button", name="Stop")).to_be_hidden()
    nb.page.wait_for_timeout(1000)
    nb.page.keyboard.type("sentence")

    assert shown.get_by_label("Message", exact=True).input_value() == "half a sentence"
    assert shown.get_attribute("data-mark") == "first"  # not drawn anew
    nb.cell(1).locator(".cm-content").click()
    expect(nb.output(0).locator(".loom-chat[data-mark]")).to_have_count(0, timeout=10_000)  # now it is, for who opens the file
    assert panel(nb).get_by_label("Message", exact=True).input_value() == "half a sentence"
    html = nb._in_page("return JSON.stringify(panel.content.widgets[0].model.outputs.toJSON())")
    assert "a long while a long while" in html


def saved(nb: Notebook) -> str:
    """What stands in the notebook's file of the chat."""
    return (nb.server.root / nb.path).read_text()


def test_who_leaves_the_panel_to_save_saves_what_was_said(notebook) -> None:
    nb = notebook([CHAT, "1"])
    nb.run_cell(0)
    shown = panel(nb)
    say(shown, "What is the weather like?")
    expect(shown.locator("table td").first).to_have_text("Mon")
    nb.page.wait_for_timeout(1000)

    nb.page.get_by_role("menuitem", name="File", exact=True).click()
    nb.page.wait_for_timeout(700)  # no person is quicker than that
    nb.save()

    assert "stays mild" in saved(nb).split('"cell_type": "code"')[1].split('"source"')[0]


def test_who_saves_while_in_the_panel_saves_what_was_said_and_goes_on_typing(notebook) -> None:
    nb = notebook([CHAT, "1"])
    nb.run_cell(0)
    shown = panel(nb)
    say(shown, "What is the weather like?")
    expect(shown.locator("table td").first).to_have_text("Mon")
    nb.page.wait_for_timeout(1000)
    assert "stays mild" not in saved(nb).split('"source"')[0]

    nb.press("Control+s")

    nb.wait_until(lambda: "stays mild" in saved(nb).split('"source"')[0], lambda: "not saved")
    expect(panel(nb).get_by_label("Message", exact=True)).to_be_focused()
    nb.page.keyboard.type("and then?")
    expect(panel(nb).get_by_label("Message", exact=True)).to_have_value("and then?")


def test_who_saves_in_the_middle_of_a_sentence_keeps_it_under_the_fingers(notebook) -> None:
    nb = notebook([CHAT, "1"])
    nb.run_cell(0)
    shown = panel(nb)
    say(shown, "What is the weather like?")
    expect(shown.locator("table td").first).to_have_text("Mon")
    nb.page.wait_for_timeout(1000)
    shown.evaluate("node => void (node.dataset.mark = 'first')")

    nb.page.keyboard.type("half a ")
    nb.press("Control+s")
    nb.page.keyboard.type("sentence")
    nb.page.wait_for_timeout(1500)

    assert shown.get_attribute("data-mark") == "first"
    assert shown.get_by_label("Message", exact=True).input_value() == "half a sentence"
