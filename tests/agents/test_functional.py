"""Tools made of functions, of objects, and of the tools of workflows."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from loomnb.agents.functional import FunctionalTool, agent_tool, create_functional_tool, define_tool, tool_of
from loomnb.agents.registry import ToolRegistry
from loomnb.agents.roles import DefaultRolesPolicy
from loomnb.agents.spi import Actor, Preflight, ToolContext
from loomnb.agents.tool_errors import ToolInputInvalidError
from loomnb.agents.ui_collector import UiCollector
from loomnb.errors import DefinitionError, ToolFailed, ToolPending
from loomnb.runtime import RunContext
from loomnb.tools import BaseTool, QueueResult, ServerTool, ToolCallOptions, ToolEnvelope, overrides, tool

ANN = Actor(id="ann")


def call(thing: Any, value: Any, **more: Any) -> Any:
    spec, handler = tool_of(thing)
    registry = ToolRegistry()
    registry.register(spec, handler)
    ctx = ToolContext(actor=ANN, run_id="r1", tool_call_id="c1", idempotency_key="r1:c1", **more)
    return asyncio.run(registry.invoke(spec.name, value, ctx, DefaultRolesPolicy()))


def told(thing: Any) -> Mapping[str, Any]:
    spec, handler = tool_of(thing)
    registry = ToolRegistry()
    registry.register(spec, handler)
    (one,) = asyncio.run(registry.definitions_for(ANN, DefaultRolesPolicy()))
    return one.input_schema


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return a + b


# -- functions -----------------------------------------------------------------------------------------


def test_a_plain_function_is_a_read_tool() -> None:
    spec, _ = tool_of(add)

    assert (spec.name, spec.description, spec.kind) == ("add", "Add two numbers.", "read")
    assert told(add)["required"] == ["a"]
    assert told(add)["properties"]["a"]["description"] == "the first."
    assert call(add, {"a": 2}) == 3


def test_a_decorated_function_says_more_and_stays_a_function() -> None:
    @agent_tool(kind="action", roles=["staff"], terminal=True, presentation={"label": "Mail"})
    def send_mail(to: str, text: str) -> str:
        "Send a mail."
        return f"{to}: {text}"

    spec = send_mail.spec

    assert (spec.name, spec.description, spec.kind, spec.terminal) == ("send_mail", "Send a mail.", "action", True)
    assert (spec.roles, spec.presentation) == (["staff"], {"label": "Mail"})
    assert send_mail("ann", "hello") == "ann: hello"
    assert tool_of(send_mail) == (spec, send_mail.handler)


def test_a_decorator_without_parentheses_and_one_with_a_name() -> None:
    @agent_tool
    def look() -> str:
        "Look."
        return "seen"

    @agent_tool(name="other", description="Told.")
    def this() -> str:
        return "seen"

    assert (look.spec.name, look.spec.kind) == ("look", "read")
    assert (this.spec.name, this.spec.description, call(this, {})) == ("other", "Told.", "seen")


def test_a_function_can_have_the_context_of_the_call() -> None:
    def by_name(a: int, ctx) -> str:  # type: ignore[no-untyped-def]
        return f"{a} {ctx.actor.id}"

    async def by_type(a: int, call: ToolContext | None = None) -> str:
        return f"{a} {call.idempotency_key if call else ''}"

    assert [list(told(one)["properties"]) for one in (by_name, by_type)] == [["a"], ["a"]]
    assert call(by_name, {"a": 1}) == "1 ann"
    assert call(by_type, {"a": 1}) == "1 r1:c1"


def test_a_function_can_show_something_beside_its_result() -> None:
    def look(ctx: ToolContext) -> int:
        ctx.emit_ui("Text", {"text": "seen"})
        return 1

    ui = UiCollector("c1")

    assert call(look, {}, emit_ui=ui.emit) == 1
    assert [row["id"] for row in ui.collected] == ["c1:ui:0"]


def test_a_sync_function_sees_the_callers_context_variables() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("ann")

    def look() -> str:
        return who.get()

    assert call(look, {}) == "ann"


def test_hooks_of_a_function_get_its_arguments() -> None:
    seen: list[Any] = []

    def before(arguments: Mapping[str, Any], ctx: ToolContext, phase: str) -> Preflight:
        seen.append((arguments, phase))
        return Preflight()

    @agent_tool(kind="action", preflight=before)
    def send(to: str, times: int = 1) -> str:
        return to * times

    assert call(send, {"to": "a"}) == "a"
    assert seen == [({"to": "a", "times": 1}, "execute")]


def test_arguments_that_do_not_fit_are_said_by_place() -> None:
    with pytest.raises(ToolInputInvalidError) as caught:
        call(add, {"a": "x", "c": 1})

    assert sorted(issue["path"] for issue in caught.value.issues) == [["a"], ["c"]]


class Place(BaseModel):
    city: str


def test_a_function_gets_models_and_not_dicts() -> None:
    def go(to: Place, how: Literal["train", "car"] = "train") -> str:
        return f"{how} to {to.city}"

    assert call(go, {"to": {"city": "Bern"}}) == "train to Bern"
    assert told(go)["properties"]["to"]["allOf" if "allOf" in told(go)["properties"]["to"] else "$ref"]
    assert "Place" in told(go)["definitions"]


def test_a_method_is_a_tool_of_its_object() -> None:
    class Shop:
        def __init__(self) -> None:
            self.stock = 3

        def left(self, item: str) -> str:
            "How many are left."
            return f"{self.stock} {item}"

    assert call(Shop().left, {"item": "pens"}) == "3 pens"


def test_an_envelope_is_opened() -> None:
    def fine() -> ToolEnvelope[Any, Any]:
        return ToolEnvelope(data=1)

    def broken() -> ToolEnvelope[Any, Any]:
        return ToolEnvelope(error="no paper")

    assert call(fine, {}) == 1
    with pytest.raises(ToolFailed, match="no paper"):
        call(broken, {})


def many() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("thing", "said"),
    [(lambda a: a, "annotation"), (lambda: 1, "name"), (many, "yields"), (3, "cannot be a tool"), (print, "cannot be a tool")],
    ids=["unannotated", "nameless", "generator", "number", "builtin"],
)
def test_what_cannot_be_a_tool_says_why(thing: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        tool_of(thing)


# -- one object ----------------------------------------------------------------------------------------------


@dataclass
class Counting:
    name: str = "count"
    description: str = "Counts."
    input: Any = field(default_factory=lambda: {"type": "object", "properties": {"by": {"type": "integer"}}})
    total: int = 0

    def execute(self, value: Mapping[str, Any], ctx: ToolContext) -> int:
        self.total += value.get("by", 1)
        return self.total

    def can_use(self, actor: Actor) -> bool:
        return self.total < 5


def test_hooks_of_an_object_stay_its_own() -> None:
    author = Counting()
    made = define_tool(author, kind="action")

    assert (made.spec.name, made.spec.kind, made.spec.description) == ("count", "action", "Counts.")
    assert [call(made, {"by": 2}), call(made, {})] == [2, 3]
    assert author.total == 3
    assert not hasattr(made.handler, "preflight")


def test_a_mapping_is_an_object_too_and_a_tool_is_a_read_unless_it_says_so() -> None:
    made = create_functional_tool({"name": "echo", "execute": lambda value, ctx: value})

    assert (made.spec.kind, call(made, {"a": 1})) == ("read", {"a": 1})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"name": "x"}, "does nothing"),
        ({"name": "x", "execute": add, "schema": {}}, "'schema'"),
        ({"name": "x y", "execute": add}, "x y"),
        ({"name": "x", "execute": add, "input": {"type": 3}}, "input schema is broken"),
    ],
    ids=["execute", "unknown", "name", "input"],
)
def test_an_object_that_cannot_be_a_tool_says_why(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        create_functional_tool(**parts)


def test_a_pair_of_spec_and_handler_is_a_tool() -> None:
    made = create_functional_tool(name="echo", execute=lambda value, ctx: value)

    assert call((made.spec, made.handler), 1) == 1


# -- tools of workflows -----------------------------------------------------------------------------------


class Words(BaseModel):
    text: str


def test_a_tool_class_of_workflows_is_a_tool_of_agents() -> None:
    @tool(name="agents_count_words")
    class CountWords(BaseTool[Words]):
        """Counts words."""

        def handle(self, args: Words, ctx: RunContext[Any]) -> ToolEnvelope[Any, Any]:
            return ToolEnvelope(data=[len(args.text.split()), ctx.user_id, ctx.idempotency_key])

    spec, _ = tool_of(CountWords)

    assert (spec.name, spec.description, spec.kind) == ("agents_count_words", "Counts words.", "read")
    assert call(CountWords, {"text": "a b c"}) == [3, "ann", "r1:c1"]
    assert call(CountWords(), {"text": "a"}) == [1, "ann", "r1:c1"]
    assert tool_of(agent_tool(CountWords, kind="action"))[0].kind == "action"


def test_a_function_tool_of_workflows_is_a_tool_of_agents_and_can_be_replaced() -> None:
    @tool(name="agents_double")
    def double(n: int) -> int:
        """Doubles."""
        return n * 2

    with overrides({double: lambda n: n * 100}):
        replaced = call(double, {"n": 2})

    assert (call(double, {"n": 2}), replaced) == (4, 200)
    assert told(double)["required"] == ["n"]


def test_the_configuration_of_a_tool_has_its_defaults() -> None:
    class Config(BaseModel):
        factor: int = 7

    @tool(name="agents_times", config_schema=Config)
    class Times(BaseTool[Words, Config]):
        """Times."""

        def handle(self, args: Words, ctx: Any, options: ToolCallOptions[Config]) -> ToolEnvelope[Any, Any]:
            assert options.config is not None
            return ToolEnvelope(data=args.text * options.config.factor)

    assert call(Times, {"text": "a"}) == "aaaaaaa"


@pytest.mark.parametrize(
    ("envelope", "kind"),
    [(ToolEnvelope(error="no paper"), ToolFailed), (ToolEnvelope(pending=QueueResult("w1")), ToolPending)],
    ids=["error", "pending"],
)
def test_a_tool_of_workflows_that_gives_no_data_fails(envelope: ToolEnvelope[Any, Any], kind: type[Exception]) -> None:
    @tool(name="agents_fails")
    class Fails(BaseTool[Words]):
        """Fails."""

        def handle(self, args: Words) -> ToolEnvelope[Any, Any]:
            return envelope

    with pytest.raises(kind):
        call(Fails, {"text": "a"})


def test_a_tool_that_the_provider_runs_is_no_tool_of_an_agent() -> None:
    @tool(name="agents_server")
    class Server(ServerTool[Any]):
        """Server."""

        def to_server_tool_config(self, config: Any) -> Any:
            return {}

    with pytest.raises(DefinitionError, match="provider"):
        tool_of(Server)


def test_what_is_a_tool_already_takes_no_options_twice() -> None:
    made = create_functional_tool(name="echo", execute=lambda value, ctx: value)

    assert isinstance(made, FunctionalTool)
    with pytest.raises(DefinitionError, match="already"):
        agent_tool(made, kind="action")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"kind": "acton"}, {"roles": "admin"}, {"terminal": "yes"}, {"presentation": "Adds"}])
def test_an_option_that_is_none_is_refused_where_the_tool_is_made(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(DefinitionError, match=name):
        agent_tool(**option)(add)
