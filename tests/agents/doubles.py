"""Stand-ins of tests of the agent loop: a quota, prices, a retriever and processors; and what was told while something ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loomnb.agents import Actor
from loomnb.agents.diagnostics import subscribe
from loomnb.agents.frames import frame
from loomnb.agents.spi import ModelPrice, OutputVerdict, QuotaVerdict
from tests.agents.looping import Writes, said


def events_of(event: str, run: Any) -> list[dict[str, Any]]:
    """What was told while something ran."""
    told: list[dict[str, Any]] = []
    end = subscribe(event, lambda envelope: told.append(dict(envelope["payload"])))
    try:
        run()
    finally:
        end()
    return told


class Quota:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def check(self, actor: Actor, day: str) -> QuotaVerdict:
        return QuotaVerdict(used_tokens=self.used, limit_tokens=self.limit, within_limit=self.used < self.limit)

    def bump(self, actor: Actor, day: str, tokens: int) -> None:
        self.used += tokens


class Prices:
    def __init__(self) -> None:
        self.asked = 0

    def list_current_prices(self) -> list[ModelPrice]:
        self.asked += 1
        return [ModelPrice(model_id="m-1", input_price_per_1m=2.0, output_price_per_1m=4.0)]

    def upsert_model_price(self, price: ModelPrice) -> None:
        raise AssertionError


class Finder:
    def __init__(self, *texts: str) -> None:
        self.texts = texts or ("a fact",)
        self.asked: list[tuple[str, int]] = []

    async def retrieve(self, query: str, *, top_k: int) -> list[dict[str, Any]]:
        self.asked.append((query, top_k))
        return [{"text": text} for text in self.texts]


class Gate:
    """An output processor: text → verdict."""

    name = "gate"

    def __init__(self, judge: Any) -> None:
        self._judge = judge
        self.seen: list[str] = []

    def process(self, answer: Any, ctx: Any) -> OutputVerdict:
        self.seen.append(answer["text"])
        verdict: OutputVerdict = self._judge(answer)
        return verdict


def masks(word: str) -> Any:
    return Gate(lambda answer: OutputVerdict(action="replace", text=answer["text"].replace(word, "***")))


def refuses(word: str) -> Any:
    return Gate(lambda a: OutputVerdict(action="reject", reason="no") if word in a["text"] else OutputVerdict())


class Mask:
    """An input processor."""

    name = "mask"

    def process(self, prompt: Any, ctx: Any) -> Any:
        return replace(prompt, messages=[replace(m, content=m.content.replace("4242", "****")) for m in prompt.messages])


class Incremental:
    name = "incremental"

    def __init__(self, judge: Any, lookback: int | None = None) -> None:
        self._judge = judge
        self.incremental: Any = {} if lookback is None else {"lookbackChars": lookback}
        self.seen: list[str] = []

    def process(self, answer: Any, ctx: Any) -> OutputVerdict:
        self.seen.append(answer["text"])
        verdict: OutputVerdict = self._judge(answer["text"])
        return verdict


def streaming(*pieces: str, **more: Any) -> Any:
    async def script(request: Any, n: int) -> Any:
        for piece in pieces:
            await request.sink.write(frame("text", text=piece))
        return said("".join(pieces), usage={"inputTokens": 3}, **more)

    return Writes(script)


def texts(hooks: Any) -> list[str]:
    return [f["text"] for f in hooks.sink.frames("text")]
