"""What a conversation's view shows, item by item: messages of the store, and the turn that is being made from its frames.

Pure: no widget, no loop. Every piece has a stamp that counts up when it changes, so that a view asks for what it has not seen,
and a long answer that grows is sent block by block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.agents import ChatMessage, MessageState, ToolCallRow
from loomnb.jsonvalue import dumps, freeze, thaw
from loomnb.present import component_html, markdown_blocks, markdown_html, narrated, value_html
from loomnb.studio import call_status

__all__ = ["Item", "Part", "Transcript", "Turn", "used_text"]

_VALUE_SHOWN = 6_000
_SPACE = re.compile(r"\s+")
Presentation = Callable[[str], Mapping[str, Any] | None]


@dataclass(slots=True)
class Part:
    """A piece of an item: `view` is sent whole, of `blocks` what changed."""

    key: str
    view: dict[str, Any]
    blocks: list[str] = field(default_factory=list[str])
    stamp: int = 0
    block_stamps: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Item:
    """A message as it is drawn."""

    uid: str
    view: dict[str, Any]
    parts: list[Part]
    stamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The last turn.

    Attributes:
        run_id: its run.
        is_open: whether it is not over.
        state: what its stream says so far; None: nothing.
        is_lost: whether it ended before all it said was stored: that is shown, and is no part of the conversation.
        silence: what stands in the place of its answer if it ended without one.
        link: call → a card that leads to a run which the call started.
    """

    run_id: str = ""
    is_open: bool = False
    state: MessageState | None = None
    is_lost: bool = False
    silence: str = ""
    link: Callable[[str], dict[str, Any] | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a tool, as far as it came."""

    id: str
    name: str
    given: Any
    status: str
    output: Any
    error: Any
    reason: str


class _Growing:
    """Markdown that grows: only its last block is made anew."""

    def __init__(self) -> None:
        self._text = ""
        self._done: list[str] = []
        self._from = 0

    def blocks(self, text: str) -> list[str]:
        """The HTML of its blocks."""
        if not text.startswith(self._text):
            self._done, self._from = [], 0
        self._text = text
        made = markdown_blocks(text[self._from :])
        if len(made) > 1:
            self._done += [html for _, html in made[:-1]]
            self._from += made[-1][0]
        return [*self._done, *(html for _, html in made[-1:])]


class Transcript:
    """The items of a conversation, from the last `most` messages on.

    Args:
        presentation: a tool's words for people.
    """

    def __init__(self, presentation: Presentation, most: int) -> None:
        self.presentation = presentation
        self.most = most
        self.stamp = 0
        self.earlier = 0
        """Messages before the first that is shown."""
        self._items: dict[str, Item] = {}
        self._order: list[str] = []
        self._order_stamp = 0
        self._growing: dict[str, _Growing] = {}
        self._uids: dict[str, str] = {}  # message → the item that showed it while it grew
        self._made: dict[str, tuple[Any, list[Part]]] = {}

    # -- making -----------------------------------------------------------------------------------

    def update(self, messages: Sequence[ChatMessage], rows: Mapping[str, ToolCallRow], turn: Turn) -> None:
        """Look at what there is now."""
        steps = self._steps(messages, turn)
        shown = messages[-self.most :]
        self.earlier = len(messages) - len(shown)
        items = [self._stored(m, rows, turn) for m in shown if m.role != "system"]
        items += [item for uid, parts in steps if _says_something(item := self._live(uid, parts, turn, rows))]
        if turn.silence and items and items[-1].view["role"] == "user" and items[-1].view["turn"] == turn.run_id:
            items.append(_note(f"{turn.run_id}:silence", turn.run_id, turn.silence))
        for at, item in enumerate(items):
            after = items[at + 1] if at + 1 < len(items) else None
            is_said = item.view["role"] == "user"
            item.view["ends"] = (
                is_said or after is None or after.view["role"] == "user" or after.view["turn"] != item.view["turn"]
            )
        _add_usage(items, shown)
        self._settle(items)

    def _steps(self, messages: Sequence[ChatMessage], turn: Turn) -> list[tuple[str, list[Any]]]:
        """The steps of the turn that are not stored yet, each with its parts; those that are stored keep their item."""
        state = turn.state
        if state is None:
            return []
        steps: dict[int, list[Any]] = {}
        for part in state.parts:
            steps.setdefault(part.step, []).append(part)
        stored = [m for m in messages if m.run_id == turn.run_id and m.role == "assistant"]
        left: list[tuple[str, list[Any]]] = []
        for number, parts in steps.items():
            uid = f"{turn.run_id}:{number}"
            found = next((m for m in stored if _is_same(m, parts)), None)
            if found is not None:
                stored.remove(found)
                if found.id:
                    self._uids.setdefault(found.id, uid)
            elif number > len(state.steps) and (
                turn.is_open or turn.is_lost
            ):  # one that finished was stored, if there was anything to store
                left.append((uid, parts))
        return left

    def _stored(self, message: ChatMessage, rows: Mapping[str, ToolCallRow], turn: Turn) -> Item:
        uid = self._uids.get(message.id or "", message.id or "")
        view: dict[str, Any] = {"role": message.role, "id": message.id, "turn": message.run_id or uid}
        if message.role == "user":
            files = [{"name": str(a.get("name", "")), "media": a.get("mediaType", "")} for a in message.attachments or ()]
            return Item(uid, {**view, "text": message.content, "files": files}, [])
        view |= {"feedback": message.feedback} if message.feedback else {}
        is_open = turn.is_open and message.run_id == turn.run_id
        view |= {"open": True} if is_open else {}
        calls = message.tool_calls or ()
        cards = {c["id"]: turn.state.tools.get(c["id"]) for c in calls} if is_open and turn.state is not None else {}
        links = {c["id"]: turn.link(c["id"]) for c in calls}
        known = (message, [rows.get(c["id"]) for c in calls], cards, links, is_open)
        made = self._made.get(uid)
        if made is None or made[0] != known:
            olds = {part.key: part.blocks for part in (made[1] if made is not None else ())}
            parts = list(self._stored_parts(uid, message, rows, (known, olds)))
            made = self._made[uid] = (known, parts)
        return Item(uid, view, made[1])

    def _stored_parts(self, uid: str, message: ChatMessage, rows: Mapping[str, ToolCallRow], known: Any) -> Iterator[Part]:
        (_, _, cards, links, is_open), olds = known
        if message.reasoning:
            view = {"kind": "reasoning", "ms": message.reasoning_ms, "live": False}
            yield Part("reasoning", view, self._whole(f"{uid}/reasoning", message.reasoning, olds.get("reasoning")))
        if message.content.strip():
            yield Part("text", {"kind": "text"}, self._whole(f"{uid}/text", message.content, olds.get("text")))
        results = {result["id"]: result for result in message.tool_results or ()}
        for call in message.tool_calls or ():
            row, card, result = rows.get(call["id"]), cards.get(call["id"]), results.get(call["id"])
            status = call_status(result, row, is_moving=is_open)
            given = row.input if row is not None else call["input"]
            output = result.get("output") if result is not None else row.output if row is not None else None
            error = (result or {}).get("error") if result is not None else row.error if row is not None else None
            if status in ("running", "waiting") and card is not None and card.status not in ("preparing", "running", "waiting"):
                status, output, error = card.status, card.output, card.error
            reason = _reason(output, row) if status in ("denied", "expired") else ""
            more = {"link": links.get(call["id"]), "remembered": bool(row is not None and row.decided_via == "remembered")}
            more["edited"] = bool(result and result.get("editedInput") is not None)
            yield self._tool(_Call(call["id"], call["name"], given, status, output, error, reason), more)
        for shown in message.ui or ():
            yield _component(shown)
        if not (message.reasoning or message.content.strip() or message.tool_calls or message.ui or is_open):
            yield Part("note", {"kind": "note", "text": "Nothing was said."})

    def _live(self, uid: str, parts: Sequence[Any], turn: Turn, rows: Mapping[str, ToolCallRow]) -> Item:
        state = turn.state
        assert state is not None
        made: list[Part] = []
        texts = 0
        for at, part in enumerate(parts):
            is_last = turn.is_open and at == len(parts) - 1
            if part.kind in ("text", "reasoning"):
                key = "text" if part.kind == "text" and not texts else part.kind if part.kind == "reasoning" else f"text-{at}"
                if any(one.key == key for one in made):
                    key = f"{part.kind}-{at}"
                texts += part.kind == "text"
                view: dict[str, Any] = {"kind": part.kind}
                view |= {"ms": None, "live": is_last} if part.kind == "reasoning" else {}
                growing = self._growing.setdefault(f"{uid}/{key}", _Growing())
                made.append(Part(key, view, growing.blocks(part.content)))
            elif part.kind == "tool":
                card = state.tools[part.content]
                if card.parent_id is None:
                    made.append(self._card(card, state, turn))
            elif part.content in state.ui:
                made.append(_component(state.ui[part.content]))
        view = {"role": "assistant", "id": None, "turn": turn.run_id, "live": turn.is_open, "open": turn.is_open}
        if turn.is_lost and not turn.is_open:
            view["lost"] = True
        return Item(uid, view, made)

    def _card(self, card: Any, state: MessageState, turn: Turn) -> Part:
        status = card.status if turn.is_open or card.status not in ("preparing", "running", "waiting") else "stopped"
        within = [self._card(one, state, turn).view for one in state.tools.values() if one.parent_id == card.id]
        more = {"link": turn.link(card.id), "within": within}
        return self._tool(_Call(card.id, card.name, card.input, status, card.output, card.error, card.reason or ""), more)

    def _tool(self, call: _Call, more: Mapping[str, Any]) -> Part:
        words, status = self.presentation(call.name) or {}, call.status
        view: dict[str, Any] = {
            "kind": "tool",
            "status": status,
            "text": narrated(call.name, words, call.given, status),
            "tone": words.get("tone", "neutral"),
            "input_html": "" if call.given in (None, {}, "") else _value(call.given),
            "output_html": "" if call.output is None or status != "done" else _value(call.output),
            "error": str(call.error) if call.error and status == "failed" else "",
            "reason": call.reason,
            **{key: value for key, value in more.items() if value},
        }
        return Part(f"tool-{call.id}", view)

    def _whole(self, key: str, text: str, drawn: list[str] | None) -> list[str]:
        """A text that is done: what grew stays as it is drawn, if that is what the whole comes to."""
        html = markdown_html(text)
        growing = self._growing.pop(key, None)
        blocks = growing.blocks(text) if growing is not None else drawn
        same = blocks is not None and _SPACE.sub("", "".join(blocks)) == _SPACE.sub("", html)
        return blocks if blocks is not None and same else [html]

    # -- stamps -----------------------------------------------------------------------------------

    def _settle(self, items: Sequence[Item]) -> None:
        """Stamp what changed."""
        now = self.stamp + 1
        changed = False
        for item in items:
            before = self._items.get(item.uid)
            is_same = before is not None and before.view == item.view
            is_same = is_same and before is not None and [p.key for p in before.parts] == [p.key for p in item.parts]
            olds = {part.key: part for part in before.parts} if before is not None else {}
            parts = [_stamped(part, olds.get(part.key), now) for part in item.parts]
            is_same = is_same and all(part.stamp < now for part in parts)
            item.parts, item.stamp = parts, before.stamp if before is not None and is_same else now
            changed |= not is_same
        order = [item.uid for item in items]
        if order != self._order:
            self._order, self._order_stamp, changed = order, now, True
        self._items = {item.uid: item for item in items}
        if changed:
            self.stamp = now
        for gone in self._made.keys() - self._items.keys():
            del self._made[gone]

    def since(self, stamp: int) -> dict[str, Any]:
        """What a view lacks that has seen everything up to a stamp."""
        out: dict[str, Any] = {}
        if self._order_stamp > stamp:
            out["order"] = list(self._order)
        items = [_item_json(self._items[uid], stamp) for uid in self._order if self._items[uid].stamp > stamp]
        if items:
            out["items"] = items
        return out

    def forget(self) -> None:
        """Begin anew, with another conversation."""
        self._items, self._order, self._made, self._growing, self._uids = {}, [], {}, {}, {}
        self.stamp += 1
        self._order_stamp = self.stamp


def _stamped(part: Part, old: Part | None, now: int) -> Part:
    if old is None:
        return Part(part.key, part.view, part.blocks, now, [now] * len(part.blocks))
    if old.view == part.view and old.blocks == part.blocks:
        return old
    stamps = [
        old.block_stamps[at] if at < len(old.blocks) and old.blocks[at] == html else now for at, html in enumerate(part.blocks)
    ]
    return Part(part.key, part.view, part.blocks, now, stamps)


def _says_something(item: Item) -> bool:
    """Whether there is anything of it to be seen."""
    return any(part.view["kind"] not in ("text", "reasoning") or any(part.blocks) for part in item.parts)


def _note(uid: str, turn: str, text: str) -> Item:
    """A line that stands where an answer would."""
    return Item(uid, {"role": "assistant", "id": None, "turn": turn}, [Part("note", {"kind": "note", "text": text})])


def _item_json(item: Item, stamp: int) -> dict[str, Any]:
    return {"uid": item.uid, "stamp": item.stamp, **item.view, "parts": [_part_json(part, stamp) for part in item.parts]}


def _part_json(part: Part, stamp: int) -> dict[str, Any]:
    if part.stamp <= stamp:
        return {"key": part.key}
    out = {"key": part.key, **part.view}
    if part.view["kind"] in ("text", "reasoning"):
        changed = {str(at): html for at, html in enumerate(part.blocks) if part.block_stamps[at] > stamp}
        out |= {"n": len(part.blocks), "blocks": changed}
    return out


def _is_same(message: ChatMessage, parts: Sequence[Any]) -> bool:
    """Whether a stored message is what a step of the stream came to."""
    calls = {part.content for part in parts if part.kind == "tool"}
    ids = {call["id"] for call in message.tool_calls or ()}
    if calls or ids:
        return bool(calls & ids)
    text = "".join(part.content for part in parts if part.kind == "text").strip()
    return message.content.strip().startswith(text) if text else not message.content.strip()  # its last words may be on their way


def _reason(output: Any, row: ToolCallRow | None) -> str:
    if row is not None and row.reason:
        return row.reason
    told = output.get("reason") if isinstance(output, Mapping) else None
    return str(told) if told and told not in ("rejected by user", "approval expired") else ""


def _component(shown: Mapping[str, Any]) -> Part:
    html = component_html(str(shown["component"]), thaw(shown["props"]), shown.get("fallbackText"))
    return Part(f"ui-{shown['id']}", {"kind": "ui", "html": html, "partial": bool(shown.get("partial"))})


def _value(value: Any) -> str:
    html = value_html(thaw(freeze(value)))
    if len(html) <= _VALUE_SHOWN:
        return html
    text = value if isinstance(value, str) else dumps(freeze(value))
    return value_html(f"{text[: _VALUE_SHOWN // 2]} … ({len(text):,} characters in all)")


def _add_usage(items: Sequence[Item], messages: Sequence[ChatMessage]) -> None:
    """Under the last message of each turn, what the turn used and cost."""
    turns: dict[str, list[ChatMessage]] = {}
    for message in messages:
        if message.role == "assistant" and message.run_id:
            turns.setdefault(message.run_id, []).append(message)
    for item in items:
        of_turn = turns.get(item.view.get("turn", ""), [])
        if item.view["role"] == "assistant" and item.view["ends"] and not item.view.get("open") and of_turn:
            costs = [m.cost_usd for m in of_turn]
            used = {name: _sum(of_turn, name) for name in ("inputTokens", "outputTokens")}
            cost = None if any(c is None for c in costs) else sum(c for c in costs if c is not None)
            item.view["used"] = used_text(used["inputTokens"], used["outputTokens"], cost, of_turn[-1].model_id)


def _sum(messages: Sequence[ChatMessage], name: str) -> int | None:
    known = [m.usage[name] for m in messages if m.usage and name in m.usage]
    return sum(known) if known else None


def used_text(tokens_in: int | None, tokens_out: int | None, cost: float | None, model: str | None = None) -> str:
    """What was used, on one line; what is unknown is left out."""
    parts = [model or ""]
    parts += [f"{tokens_in:,} tokens in"] if tokens_in is not None else []
    parts += [f"{tokens_out:,} out"] if tokens_out is not None else []
    parts += [f"${cost:,.4f}" if cost < 1 else f"${cost:,.2f}"] if cost is not None else []
    return " · ".join(part for part in parts if part)
