"""What the views of a conversation are told, and what they may say: no widget and no browser, only messages."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from loomnb_widgets.chat_feed import ChatFeed

import loomnb as loom
from loomnb.agents import Actor, ChatMessage, agent_tool
from loomnb.runtime import NoFace
from loomnb.studio.agents import Agent
from loomnb.testing import Said, ScriptedModel
from tests.helpers import PATIENCE


@agent_tool(presentation={"label": "Look up {what}", "running": "Looking up {what}…", "done": "Looked up {what}"})
def look_up(what: str) -> dict[str, str]:
    """Look something up."""
    return {"found": what}


@agent_tool(kind="action", presentation={"label": "Send", "confirm": {"title": "Send to {to}?", "verb": "Send it"}})
def send(to: str, times: int = 1) -> str:
    """Send something."""
    return f"sent to {to} {times}x"


@agent_tool(kind="action", presentation={"label": "Look up {what}"})
def look_up_private(what: str) -> str:
    """Look something up that is private."""
    return what


class View:
    """A view of a conversation, as the panel's script keeps it."""

    def __init__(self, chat: loom.studio.Chat) -> None:  # type: ignore[name-defined]
        self.items: dict[str, Any] = {}
        self.order: list[str] = []
        self.head: dict[str, Any] = {}
        self.replies: dict[int, dict[str, Any]] = {}
        self.heard: list[dict[str, Any]] = []
        self.nested: list[dict[str, Any]] = []
        """What runs within said."""
        self.blocks: list[str] = []
        """The number of each block of text that was sent."""
        self.news = threading.Condition()
        self.stamp = self.n = 0
        self.feed = ChatFeed(chat, self._hear)
        self.feed.open()
        self.say("hello", have={"stamp": 0, "head": 0})

    def _hear(self, m: dict[str, Any]) -> None:
        with self.news:
            self.heard.append(m)
            if "run" in m:
                self.nested.append(m)
            elif m["type"] != "state":
                self.replies[m["n"]] = m
            elif m["since"] <= self.stamp:
                self._state(m)
            self.news.notify_all()

    def _state(self, m: dict[str, Any]) -> None:
        for item in m.get("items", ()):
            olds = {p["key"]: p for p in self.items.get(item["uid"], {}).get("parts", ())}
            for at, part in enumerate(item["parts"]):
                old = olds.get(part["key"], {})
                if "kind" not in part:
                    item["parts"][at] = old
                elif "blocks" in part:
                    self.blocks += part["blocks"]
                    part["blocks"] = {**old.get("blocks", {}), **part["blocks"]}
            self.items[item["uid"]] = item
        self.order = m.get("order", self.order)
        self.stamp = max(self.stamp, m["stamp"])
        self.head = m.get("head", self.head)

    def say(self, kind: str, **more: Any) -> int:
        self.n += 1
        self.feed.receive({"type": kind, "n": self.n, **more})
        return self.n

    def until(self, holds: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        with self.news:
            while not (value := holds()):
                assert self.news.wait(end - time.monotonic()), (self.head, self.words())
        return value

    def reply(self, n: int) -> dict[str, Any]:
        return self.until(lambda: self.replies.get(n))

    def words(self) -> list[str]:
        """Everything said, as its HTML or text."""
        return [self.words_of(self.items[uid]) for uid in self.order]

    @staticmethod
    def words_of(item: dict[str, Any]) -> str:
        if item["role"] == "user":
            return str(item["text"])
        texts = [p for p in item["parts"] if p.get("kind") == "text"]
        return "".join(p["blocks"][str(n)] for p in texts for n in range(p["n"]))

    def parts(self, kind: str) -> list[dict[str, Any]]:
        return [p for uid in self.order for p in self.items[uid].get("parts", ()) if p.get("kind") == kind]

    def rest(self) -> None:
        self.until(lambda: self.order and self._is_at_rest(self.items[self.order[-1]]))

    def _is_at_rest(self, last: dict[str, Any]) -> bool:
        return last["role"] == "assistant" and not last.get("open") and not self.head["status"]

    def send(self, text: str, **more: Any) -> None:
        """Say something, and wait until it is there."""
        before = sum(self.items[uid]["role"] == "user" for uid in self.order)
        assert self.reply(self.say("send", text=text, **more))["type"] == "accepted"
        self.until(lambda: sum(self.items[uid]["role"] == "user" for uid in self.order) > before)


@pytest.fixture
def views(session: loom.Loom) -> Iterator[Callable[..., View]]:
    opened: list[View] = []

    def make(turns: Any, tools: Any = (look_up, send), thread: str | None = None, **options: Any) -> View:
        agent = Agent(ScriptedModel(turns, pause=options.pop("pause", None)), list(tools), "Help.", name="feeder", **options)
        opened.append(View(agent.chat(thread)))
        return opened[-1]

    yield make
    for view in opened:
        view.feed.close()


def test_an_answer_comes_as_safe_html_with_its_tools_in_their_own_words(views) -> None:
    view = views([Said(text="Wait.", tools=[("look_up", {"what": "x"})], reasoning="hm"), "It is **x**.<script>1</script>"])

    view.send("What is x?")
    view.rest()

    assert view.words() == ["What is x?", "<p>Wait.</p>", "<p>It is <strong>x</strong>.</p>"]
    (tool,) = view.parts("tool")
    assert (tool["status"], tool["text"]) == ("done", "Looked up x")
    assert view.parts("reasoning")[0]["blocks"] == {"0": "<p>hm</p>"}
    assert view.head["title"] == "What is x?"


def test_a_conversation_that_has_not_begun_leads_to_those_that_wait(views) -> None:
    asking = views([Said(tools=[("send", {"to": "ann"})]), "Sent."])
    asking.send("Write to Ann.")
    asking.until(lambda: asking.head["asks"])
    waits = asking.head["thread_id"]

    fresh = views(["Hello."])
    assert fresh.until(lambda: fresh.head.get("elsewhere")) == [{"threadId": waits, "title": "Write to Ann."}]
    assert asking.head["elsewhere"] == []

    fresh.reply(fresh.say("switch", thread=waits))
    fresh.until(lambda: fresh.head["asks"])
    assert fresh.head["elsewhere"] == []


def test_a_call_that_nobody_decided_before_the_stop_is_told_as_stopped(views) -> None:
    view = views([Said(tools=[("send", {"to": "ann"})]), "Sent."])
    view.send("Write to Ann.")
    view.until(lambda: view.head["asks"])

    view.say("stop")

    view.until(lambda: [part["status"] for part in view.parts("tool")] == ["stopped"] and not view.head["status"])


def test_a_growing_answer_is_sent_block_by_block_and_its_item_stays(views) -> None:
    gate = threading.Event()

    async def pause(turn: int, frame: Any) -> None:
        if "last" in frame.get("text", ""):
            await asyncio.to_thread(gate.wait, PATIENCE)

    view = views(["first block\n\nsecond block\n\nlast one"], pause=pause)
    view.send("Go")
    view.until(lambda: len(view.order) == 2 and "second" in view.words()[-1])
    uid, before = view.order[-1], len(view.blocks)

    gate.set()
    view.rest()

    assert view.words()[-1] == "<p>first block</p><p>second block</p><p>last one</p>"
    assert view.order[-1] == uid
    assert not any(sent == "0" for sent in view.blocks[before:])
    other = View(view.feed.chat)
    other.until(lambda: len(other.order) == 2)
    other.feed.close()
    assert "".join(other.words()).replace("\n", "") == "".join(view.words())


def test_an_approval_is_answered_with_other_arguments_and_only_changed_ones_count(views) -> None:
    view = views([[("send", {"to": "bob"})], "done", [("send", {"to": "eve"})], "done"])
    view.send("Send it")
    (ask,) = view.until(lambda: view.head.get("asks"))
    assert (ask["kind"], ask["label"], ask["submit"], ask["reject"]) == ("approval", "Send to bob?", "Send it", "Reject")
    assert [(f["name"], f["default"]) for f in ask["fields"]] == [("to", "bob"), ("times", 1)]
    assert view.parts("tool")[0]["status"] == "waiting"

    refused = view.reply(view.say("answer", ask=ask["id"], values={"approved": True, "input": {"to": "bob", "times": "many"}}))
    assert refused["fields"] == {"input.times": "not a whole number"}
    view.reply(view.say("answer", ask=ask["id"], values={"approved": True, "input": {"to": "ann", "times": "2"}}))
    view.rest()
    assert (view.parts("tool")[0]["edited"], "ann 2x" in view.parts("tool")[0]["output_html"]) == (True, True)

    view.send("Again")
    (ask,) = view.until(lambda: view.head.get("asks"))
    view.reply(
        view.say("answer", ask=ask["id"], values={"approved": True, "remember": True, "input": {"to": "eve", "times": "1"}})
    )
    view.rest()
    assert "edited" not in view.parts("tool")[1]


def test_a_rejection_gives_its_reason(views) -> None:
    view = views([[("send", {"to": "bob"})], "fine"])
    view.send("Send it")
    (ask,) = view.until(lambda: view.head.get("asks"))

    view.reply(view.say("answer", ask=ask["id"], values={"approved": False, "reason": "no", "input": {"to": ""}}))
    view.rest()

    (tool,) = view.parts("tool")
    assert (tool["status"], tool["reason"]) == ("denied", "no")
    late = view.reply(view.say("answer", ask=ask["id"], values={"approved": True}))
    assert late["type"] == "refused"


def test_questions_of_the_model_are_a_form_with_their_defaults(views) -> None:
    questions = [
        {
            "id": "size",
            "question": "Which size?",
            "options": [{"value": "s", "label": "Small"}, {"value": "l"}],
            "defaults": ["s"],
        },
        {"id": "n", "question": "How many?", "input": {"type": "number", "min": 1}},
        {"id": "tags", "question": "Which?", "options": [{"value": "a"}, {"value": "b"}], "multiple": True, "defaults": ["a"]},
    ]
    view = views([[("ask", {"questions": questions})], "thanks"], ask=True)
    view.send("Order")
    (ask,) = view.until(lambda: view.head.get("asks"))
    assert [(f["kind"], f["default"]) for f in ask["fields"]] == [("choice", "s"), ("number", None), ("array", ["a"])]

    view.reply(view.say("answer", ask=ask["id"], values={"size": "l", "n": "3", "tags": ["a", "b"]}))
    view.rest()

    (call,) = [r for m in view.feed.chat.messages for r in m.tool_results or ()]
    assert call["output"]["answers"] == {"size": ["l"], "n": ["3"], "tags": ["a", "b"]}


def test_a_message_typed_ahead_waits_and_a_second_one_is_refused(views) -> None:
    view = views([[("send", {"to": "bob"})], "one", "two"])
    view.send("First")
    (ask,) = view.until(lambda: view.head.get("asks"))
    assert view.reply(view.say("send", text="Second"))["queued"] is True
    view.until(lambda: view.head["queued"])
    assert view.reply(view.say("send", text="Third"))["type"] == "refused"

    view.say("answer", ask=ask["id"], values={"approved": True})

    view.until(lambda: view.words()[-1:] == ["<p>two</p>"])
    assert [w for w in view.words() if not w.startswith("<")] == ["First", "", "Second"]


def test_a_stopped_answer_is_shown_as_lost_and_is_not_kept(views) -> None:
    async def pause(turn: int, frame: Any) -> None:
        if "never" in frame.get("text", ""):
            await asyncio.Event().wait()

    view = views(["so far never more"], pause=pause)
    view.send("Go")
    view.until(lambda: "so far" in view.words()[-1:][0] if view.words() else False)

    view.say("stop")

    view.until(lambda: any(item.get("lost") for item in view.items.values()))
    assert [m.role for m in view.feed.chat.messages] == ["user"]


@pytest.mark.parametrize("said", ["", "  \n\n"])
def test_a_turn_that_is_stopped_before_it_says_anything_leaves_a_line_and_no_empty_answer(views, said: str) -> None:
    async def pause(turn: int, frame: Any) -> None:
        if "never" in frame.get("text", ""):
            await asyncio.Event().wait()

    view = views([f"{said}never"], pause=pause)
    view.send("Go")
    view.until(lambda: view.head["can_stop"])
    assert [view.items[uid]["role"] for uid in view.order] == ["user"]

    view.say("stop")

    (note,) = view.until(lambda: view.parts("note"))
    assert note["text"] == "Stopped before anything was said."
    assert view.words() == ["Go", ""]
    assert (view.head["can_retry"], view.head["retry_text"]) == (True, "Answer")


def test_a_turn_that_fails_before_it_says_anything_leaves_no_empty_answer(views) -> None:
    view = views(lambda request, turn: ConnectionError("nobody there"))
    view.send("Go")
    view.until(lambda: view.head.get("error"))

    assert [view.items[uid]["role"] for uid in view.order] == ["user"]


def test_an_answer_without_words_says_so(views) -> None:
    view = views([" "])
    view.send("Go")

    (note,) = view.until(lambda: view.parts("note"))
    assert note["text"] == "Nothing was said."


def test_a_failure_is_told_and_taken_up_again(views) -> None:
    said = iter([ConnectionError("nobody there"), "back"])
    view = views(lambda request, turn: next(said))
    view.send("Go")
    view.until(lambda: view.head.get("error"))
    assert (view.head["error"]["message"], view.head["can_retry"]) == ("nobody there", True)

    view.say("retry")

    view.until(lambda: view.words() == ["Go", "<p>back</p>"])
    view.rest()
    assert view.head["error"] is None


def test_a_server_that_asks_to_wait_is_told(views) -> None:
    gate = threading.Event()

    class Slow:
        async def run_turn(self, request: Any) -> Any:
            await request.sink.write('{"kind": "waiting", "seconds": 12, "reason": "too many requests"}\n')
            await asyncio.to_thread(gate.wait, PATIENCE)
            return await ScriptedModel(["there"]).run_turn(request)

    view = views(["unused"])
    view.feed.chat.agent.model = Slow()
    view.send("Go")

    waiting = view.until(lambda: view.head.get("waiting"))
    gate.set()
    view.rest()

    assert (waiting["seconds"], waiting["reason"]) == (12, "too many requests")
    assert view.head["waiting"] is None


def test_components_are_drawn_with_their_fallback(views) -> None:
    pushes = [
        {"component": "Callout", "props": {"title": "Careful", "text": "<b>hot</b>"}},
        {"component": "app:map", "props": {}, "fallbackText": "a map"},
    ]

    @agent_tool(present=lambda output, ctx: pushes)
    def show() -> str:
        """Show."""
        return "shown"

    view = views([[("show", {})], "there"], tools=[show])
    view.send("Show")
    view.rest()

    drawn = [part["html"] for part in view.parts("ui")]
    assert "&lt;b&gt;hot&lt;/b&gt;" in drawn[0]
    assert "a map" in drawn[1]


def test_only_the_end_of_a_long_conversation_is_sent_and_more_when_asked_for(views) -> None:
    view = views(["unused"])
    chat = view.feed.chat
    chat.store.now(chat.store.create_thread(actor=Actor(id="local"), id=chat.thread_id, agent_name="feeder"))

    async def fill() -> None:
        for n in range(1000):
            await chat.store.append_message(chat.thread_id, ChatMessage(role="user", content=f"number {n}"))

    chat.store.now(fill())
    chat.tell()
    view.until(lambda: len(view.order) == 60)
    assert view.words()[0] == "number 940"
    assert view.head["earlier"] == 940

    view.say("earlier")

    view.until(lambda: len(view.order) == 160)
    assert sum(len(m.get("items", ())) for m in view.heard) < 300  # what was sent once is not sent again


def test_a_view_that_missed_everything_is_told_it_by_its_next_hello(views) -> None:
    view = views(["one", "two"])
    view.send("First")
    view.until(lambda: view.words()[-1:] == ["<p>one</p>"])
    view.rest()
    late: list[dict[str, Any]] = []
    view.feed._say = late.append

    view.feed.receive({"type": "hello", "n": 99, "have": {"stamp": 0, "head": 0}})

    (message,) = late
    assert (message["ack"], len(message["items"]), "head" in message) == (99, 2, True)
    view.feed.receive({"type": "hello", "n": 100, "have": {"stamp": message["stamp"], "head": message["head_rev"]}})
    assert not {"items", "order", "head"} & late[-1].keys()


def test_nothing_is_said_before_the_feed_is_opened(views) -> None:
    gate = threading.Event()

    async def pause(turn: int, frame: Any) -> None:
        await asyncio.to_thread(gate.wait, PATIENCE)

    view = views(["one"], pause=pause)
    view.send("First")
    said: list[dict[str, Any]] = []
    pushed: list[Any] = []
    early = ChatFeed(view.feed.chat, said.append, pushed.append)  # as a panel makes it, whose own making is not over

    gate.set()
    view.rest()
    early.changed()
    view.feed.chat.tell()

    assert (said, pushed) == ([], [])
    early.open()
    end = time.monotonic() + PATIENCE
    while not said and time.monotonic() < end:
        time.sleep(0.01)
    early.close()
    assert said[0]["since"] == 0


def test_conversations_are_listed_branched_renamed_and_gone_over_to(views) -> None:
    view = views(["one", "two", "three"])
    view.send("First")
    view.until(lambda: view.words()[-1:] == ["<p>one</p>"])
    view.rest()
    first = view.feed.chat.thread_id
    answer = next(view.items[uid]["id"] for uid in view.order[::-1])

    view.reply(view.say("fork", message=answer))
    view.until(lambda: view.head["thread_id"] != first)
    view.reply(view.say("rename", title="The branch"))
    listed = view.reply(view.say("threads"))["threads"]
    assert {one["title"] for one in listed} == {"First", "The branch"}
    assert [one["title"] for one in view.reply(view.say("threads", search="branch"))["threads"]] == ["The branch"]
    view.reply(view.say("switch", thread=first))
    view.until(lambda: view.head["thread_id"] == first)
    view.reply(view.say("delete"))
    view.until(lambda: view.head["count"] == 0)
    assert len(view.reply(view.say("threads"))["threads"]) == 1


def test_a_branch_that_ends_with_what_was_said_can_be_answered(views) -> None:
    view = views(["one", "two", "three"])
    view.send("First")
    view.rest()
    assert not view.head["can_retry"]
    first = view.feed.chat.thread_id

    view.reply(view.say("fork", message=view.items[view.order[0]]["id"]))
    view.until(lambda: view.head["thread_id"] != first)
    assert (view.words(), view.head["can_retry"], view.head["retry_text"]) == (["First"], True, "Answer")
    view.reply(view.say("retry"))
    view.rest()

    assert (view.words(), view.head["can_retry"]) == (["First", "<p>one</p>"], False)


LONG_WORDS = "What would be a good way to say this very long first message of a person?"


@pytest.mark.parametrize(
    ("said", "renamed", "title"), [("First", "", "Second"), (LONG_WORDS, "", "Second"), ("First", "Mine", "Mine")]
)
def test_the_title_follows_an_edited_first_message_unless_a_person_gave_it(views, said: str, renamed: str, title: str) -> None:
    view = views(lambda request, turn: "said")
    view.send(said)
    view.rest()
    view.until(lambda: view.head["title"][:5] == said[:5])
    if renamed:
        view.reply(view.say("rename", title=renamed))

    view.reply(view.say("edit", message=view.items[view.order[0]]["id"], text="Second"))
    view.until(lambda: view.words() == ["Second", "<p>said</p>"])
    view.rest()

    assert view.feed.chat.title == title


def test_the_title_stays_where_a_later_message_is_edited(views) -> None:
    view = views(lambda request, turn: "said")
    view.send("First")
    view.rest()
    view.send("First")
    view.rest()

    view.reply(view.say("edit", message=view.items[view.order[2]]["id"], text="Second"))
    view.until(lambda: view.words()[2:3] == ["Second"])
    view.rest()

    assert view.feed.chat.title == "First"


def test_the_list_counts_what_still_stands_in_a_conversation(views) -> None:
    view = views(lambda request, turn: "said")
    view.send("First")
    view.rest()

    view.reply(view.say("edit", message=view.items[view.order[0]]["id"], text="Second"))
    view.until(lambda: view.words() == ["Second", "<p>said</p>"])
    view.rest()

    (listed,) = view.reply(view.say("threads"))["threads"]
    assert listed["messages"] == 2


def test_the_list_counts_what_a_person_sees_and_marks_what_waits_for_one(views) -> None:
    def script(request: Any, turn: int) -> Any:
        last = request.messages[-1]
        if last["role"] != "user":
            return "found"
        return Said(tools=[("send", {"to": "bob"}) if "Send" in last["content"] else ("look_up", {"what": "x"})])

    view = views(script)
    agent = view.feed.chat.agent
    assert repr(agent.threads()) == "No conversations yet."
    view.send("Look it up")
    view.rest()
    view.reply(view.say("new"))
    view.until(lambda: not view.order)
    view.send("Send it")
    view.until(lambda: view.head.get("asks"))

    listed = view.reply(view.say("threads"))["threads"]

    assert [(one["title"], one["messages"], one["waiting"]) for one in listed] == [("Send it", 1, True), ("Look it up", 2, False)]
    assert repr(agent.threads()) == "0. Send it (1 message, waits for you)\n1. Look it up (2 messages)"
    assert repr(agent.threads("zzz")) == "No conversation fits “zzz”."


def test_a_file_is_sent_along_and_one_too_large_is_refused(views) -> None:
    view = views(["nice"])
    big = {"name": "b", "mediaType": "text/plain", "data": "A" * 7_000_000}
    assert view.reply(view.say("send", text="Look", files=[big]))["type"] == "refused"

    view.send("Look", files=[{"name": "a.txt", "mediaType": "text/plain", "data": "aGk="}])
    view.rest()

    assert view.items[view.order[0]]["files"] == [{"name": "a.txt", "media": "text/plain"}]


def test_a_turn_of_an_unknown_agent_can_be_read_and_not_gone_on_with(session: loom.Loom) -> None:
    agent = Agent(ScriptedModel(["hello"]), [], name="gone")
    run = agent.run("Hi")
    asyncio.run(run.settled())
    object.__setattr__(agent.definition, "agent", None)

    view = View(run.chat)
    view.until(lambda: len(view.order) == 2)
    view.feed.close()

    assert view.head["can_say"] is False
    assert "run the cell" in view.head["why_not"]


@loom.workflow(name="feed_survey")
class Survey(loom.BaseWorkflow[Any]):
    """Ask somebody."""

    @loom.transition(to="asking")
    def ask(self) -> None: ...

    @loom.transition(from_="asking", to="end", wait=True)
    def answered(self) -> None:
        self.set_result("yes")


def test_a_run_that_a_tool_started_stands_in_its_card_and_is_answered_there(views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoFace, "nobody_can_answer", lambda self, run: "")  # as in a notebook
    view = views([[("feed_survey", {})], "they said yes"], tools=[Survey])
    view.send("Ask them")
    link = view.until(lambda: next((tool["link"] for tool in view.parts("tool") if tool.get("link")), None))

    view.say("hello", run=link["run_id"], have={})
    (ask,) = view.until(lambda: next((m["head"]["asks"] for m in view.nested if m.get("head", {}).get("asks")), None))
    view.say("answer", run=link["run_id"], ask=ask["id"], values={})

    view.until(lambda: view.feed.chat.run is None)
    assert view.feed.chat.messages[-1].content == "they said yes"


def test_what_is_not_asked_again_is_the_tool_and_not_its_arguments(views) -> None:
    view = views([[("look_up_private", {"what": "x"})], "done"], tools=[look_up_private])
    view.send("Look")

    (ask,) = view.until(lambda: view.head.get("asks"))

    assert (ask["label"], ask["tool"]) == ("Run “Look up x”?", "Look up private")


def test_when_the_store_is_closed_what_was_said_is_still_told_and_nothing_raises(views, session: loom.Loom) -> None:
    async def pause(turn: int, frame: Any) -> None:
        if "never" in frame.get("text", ""):
            await asyncio.Event().wait()

    view = views(["one", "so far never more"], pause=pause)
    view.send("First")
    view.rest()
    view.send("Second")
    view.until(lambda: "so far" in view.words()[-1])

    session.close()
    view.feed.chat.tell()
    view.until(lambda: any("closed" in m for m in view.heard))
    late: list[dict[str, Any]] = []
    view.feed._say = late.append
    view.feed.receive({"type": "hello", "n": 99, "have": {"stamp": 0, "head": 0}})

    (message,) = late
    assert message["closed"].startswith("The store is closed: run the cell that opens it again, then agent.chat(")
    assert [item.get("lost", False) for item in message["items"]] == [False, False, False, True]
    assert not any(item.get("open") for item in message["items"])
    view.feed._act(view.feed._actions["send"], {"n": 100, "text": "Third"})
    assert [m["message"] for m in late if m["type"] == "refused"] == ["The store was closed."]
