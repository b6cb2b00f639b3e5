"""A conversation in core widgets, as a front end without anywidget shows it: no kernel here, the widgets' own messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as W  # noqa: N812  # the name its own documentation uses for short
from loomnb_widgets.bridge import Lane
from loomnb_widgets.core_chat import CoreChat
from loomnb_widgets.forms import CoreForm

import loomnb as loom
from loomnb.agents import agent_tool
from loomnb.studio.agents import Agent
from loomnb.testing import ScriptedModel
from tests.helpers import PATIENCE


@agent_tool(kind="action")
def send(to: str, times: int = 1) -> str:
    """Send something."""
    return f"sent to {to} {times}x"


def agent_of(*turns: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(list(turns)), [send], name="core", **options)


def within(box: Any) -> list[Any]:
    return [box, *(one for child in getattr(box, "children", ()) for one in within(child))]


def button(box: Any, label: str) -> Any:
    return next(w for w in within(box) if isinstance(w, W.Button) and w.description == label)


def click(one: Any) -> None:
    one._handle_custom_msg({"event": "click"}, [])


def holds(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (value := what()):
        assert time.monotonic() < end
        time.sleep(0.01)  # a front end asks by itself: nothing here tells when a worker is done
    return value


def test_a_message_is_sent_and_an_approval_given_with_other_arguments(session: loom.Loom) -> None:
    chat = agent_of([("send", {"to": "bob"})], "All done.").chat()
    core = CoreChat(chat, Lane())
    text = next(w for w in within(core.box) if isinstance(w, W.Textarea))
    text.value = "Send it"

    click(button(core.box, "Send"))
    holds(lambda: chat.run and chat.run.pending)
    core.draw()
    to = next(w for w in within(core.box) if isinstance(w, W.Text) and w.description == "To")
    to.value = "eve"
    click(button(core.box, "Approve"))
    holds(lambda: chat.run is None and len(chat.messages) == 3)
    core.draw()

    assert "All done." in core._story.value
    assert "sent to eve 1x" in core._story.value


def test_a_run_of_an_agent_is_rejected_in_the_core_form(session: loom.Loom) -> None:
    run = agent_of([("send", {"to": "bob"})], "Fine.").run("Send it")
    asyncio.run(run.settled())
    core = CoreForm(run.record, run.runtime, Lane(), run)

    click(button(core.box, "Reject"))

    holds(lambda: run.status == "completed")
    assert run.messages[1].tool_results[0]["denied"] is True


def test_questions_are_answered_with_their_defaults_in_the_core_form(session: loom.Loom) -> None:
    questions = [{"id": "size", "question": "Which?", "options": [{"value": "s"}, {"value": "l"}], "defaults": ["s"]}]
    run = agent_of([("ask", {"questions": questions})], "Thanks.", ask=True).run("Order")
    asyncio.run(run.settled())
    core = CoreForm(run.record, run.runtime, Lane(), run)

    click(button(core.box, "Answer"))

    holds(lambda: run.status == "completed")
    assert run.messages[1].tool_results[0]["output"]["answers"] == {"size": ["s"]}
