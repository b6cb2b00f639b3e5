"""Which tools are offered, what a call goes through, and what happens to the approved input on its way."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from loomnb.agents.control_flow import ControlFlowSignal
from loomnb.agents.functional import FunctionalTool, agent_tool, create_functional_tool
from loomnb.agents.registry import NOT_GIVEN, OfferedTools, ToolRegistry
from loomnb.agents.roles import ClosedRolesPolicy, DefaultRolesPolicy
from loomnb.agents.spi import Actor, Preflight, ToolContext, ToolScope, ToolSpec
from loomnb.agents.tool_errors import (
    ToolDisabledError,
    ToolForbiddenError,
    ToolInputDriftError,
    ToolInputInvalidError,
    ToolNotFoundError,
    ToolPreflightDeniedError,
    ToolTimeoutError,
)
from loomnb.agents.ui_collector import UiCollector
from loomnb.errors import DefinitionError, Refused

OPEN = DefaultRolesPolicy()
ANN = Actor(id="ann", roles=("sales",))


class Order(BaseModel):
    """What is ordered."""

    item: str
    amount: int = 1


def context(**more: Any) -> ToolContext:
    return ToolContext(actor=ANN, thread_id="t1", run_id="r1", agent_name="shop", tool_call_id="c1", **more)


def registry_of(*tools: FunctionalTool) -> ToolRegistry:
    registry = ToolRegistry()
    for tool in tools:
        registry.register(tool.spec, tool.handler)
    return registry


def named(name: str, **parts: Any) -> FunctionalTool:
    return create_functional_tool(**{"name": name, "execute": lambda value, ctx: name, **parts})


def offered(registry: ToolRegistry, actor: Actor = ANN, policy: Any = OPEN, **more: Any) -> OfferedTools:
    return asyncio.run(registry.definitions_for(actor, policy, **more))


def names(registry: ToolRegistry, **more: Any) -> list[str]:
    return [tool.name for tool in offered(registry, **more)]


def invoke(registry: ToolRegistry, name: str, value: Any, ctx: ToolContext | None = None, policy: Any = OPEN, **more: Any) -> Any:
    return asyncio.run(registry.invoke(name, value, ctx or context(), policy, **more))


def prepared(registry: ToolRegistry, name: str, value: Any, **more: Any) -> Any:
    return asyncio.run(registry.prepare_validated(name, value, context(), OPEN, **more))


def raises(kind: type[Exception], call: Callable[[], Any]) -> Any:
    with pytest.raises(kind) as caught:
        call()
    return caught.value


# -- what is offered ---------------------------------------------------------------------------------


@pytest.mark.case("agents:U01")
def test_a_definition_is_name_description_and_schema_and_nothing_else() -> None:
    tool = named("order", description="Orders.", input=Order, presentation={"label": "Order"})

    (told,) = offered(registry_of(tool))

    assert (told.name, told.description) == ("order", "Orders.")
    assert told.input_schema["required"] == ["item"]
    assert not any(hasattr(told, name) for name in ("handler", "execute", "presentation", "spec"))


@pytest.mark.case("agents:U01")
def test_an_allow_list_filters_in_the_order_of_registration() -> None:
    registry = registry_of(named("b"), named("a"), named("c"))

    assert names(registry) == ["b", "a", "c"]
    assert names(registry, allow_list=["c", "b", "nobody"]) == ["b", "c"]
    assert names(registry, allow_list=[]) == []


@pytest.mark.case("agents:U01")
def test_roles_filter_what_is_offered() -> None:
    registry = registry_of(named("sell", roles=["sales"]), named("pay", roles=["finance"]), named("look"))

    assert names(registry) == ["sell", "look"]
    assert names(registry, policy=ClosedRolesPolicy()) == ["sell"]


def test_an_offer_knows_the_kind_of_each_tool_and_takes_an_unknown_one_for_read() -> None:
    tools = offered(registry_of(named("send", kind="action"), named("look")))

    assert [tools.kind_of(name) for name in ("send", "look", "nobody")] == ["action", "read", "read"]


@pytest.mark.parametrize("off", [False, lambda: False])
def test_what_is_switched_off_is_neither_offered_nor_run(off: Any) -> None:
    registry = registry_of(named("send", enabled=off))

    assert names(registry) == []
    assert raises(ToolDisabledError, lambda: invoke(registry, "send", {})).tool_name == "send"


def test_a_handler_can_switch_its_tool_off_and_refuse_an_actor() -> None:
    async def nobody(_actor: Actor) -> bool:
        return False

    registry = registry_of(named("off", is_enabled=lambda: False), named("private", can_use=nobody))

    assert names(registry) == []
    raises(ToolDisabledError, lambda: invoke(registry, "off", {}))
    raises(ToolForbiddenError, lambda: invoke(registry, "private", {}))


def test_the_specs_somebody_sees_are_those_they_may_use() -> None:
    registry = registry_of(named("sell", roles=["sales"]), named("pay", roles=["finance"]), named("off", enabled=False))

    visible = asyncio.run(registry.visible_specs(ANN, OPEN))

    assert [spec.name for spec in visible] == ["sell"]
    assert [spec.name for spec in registry.all_specs()] == ["sell", "pay", "off"]


def test_a_name_registered_again_replaces_the_tool_in_its_place() -> None:
    registry = registry_of(named("a"), named("b"))
    again = named("a", description="New.")

    registry.register(again.spec, again.handler)

    assert [(tool.name, tool.description) for tool in offered(registry)] == [("a", "New."), ("b", "")]


def test_a_tool_can_be_taken_away_once() -> None:
    registry = registry_of(named("a"))

    assert [registry.unregister("a"), registry.unregister("a"), registry.has("a"), registry.spec("a")] == [
        True,
        False,
        False,
        None,
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "two words"}, "two words"),
        ({"kind": "wish"}, "wish"),
        ({"kind": "skill"}, "skill"),
        ({"roles": "admin"}, "roles"),
        ({"input_schema": {"type": "nothing"}}, "input schema is broken at"),
        ({"input_schema": threading.Lock()}, "judge"),
    ],
    ids=["name", "kind", "loops-own-kind", "roles", "json-schema", "object"],
)
def test_a_tool_that_cannot_work_is_refused_when_it_is_registered(change: Mapping[str, Any], said: str) -> None:
    tool = named("fine")

    with pytest.raises(DefinitionError, match=said):
        ToolRegistry().register(replace(tool.spec, **change), tool.handler)


@pytest.mark.case("agents:U16")
def test_describe_changes_what_a_model_is_told_here() -> None:
    def describe(scope: ToolScope) -> Mapping[str, Any]:
        return {"description": f"For {scope.actor.id}.", "inputSchema": {"type": "object", "properties": {"x": {}}}}

    (told,) = offered(registry_of(named("look", description="Always.", describe=describe)))

    assert (told.description, list(told.input_schema["properties"])) == ("For ann.", ["x"])


@pytest.mark.case("agents:U16")
def test_what_says_it_is_unavailable_is_neither_offered_nor_run() -> None:
    asked: list[tuple[str, str | None, str | None]] = []

    def describe(scope: ToolScope) -> Mapping[str, Any]:
        asked.append((scope.actor.id, scope.thread_id, scope.agent_name))
        return {"available": scope.thread_id != "t1"}

    registry = registry_of(named("look", describe=describe))

    assert names(registry, scope=ToolScope(actor=ANN, thread_id="t1", agent_name="shop")) == []
    assert raises(ToolNotFoundError, lambda: invoke(registry, "look", {})).tool_name == "look"
    assert asked == [("ann", "t1", "shop")] * 2


# -- a call --------------------------------------------------------------------------------------------


@pytest.mark.case("agents:U02")
def test_a_handler_gets_what_the_schema_made_of_the_input() -> None:
    registry = registry_of(named("order", input=Order, execute=lambda order, ctx: (type(order), order.amount, ctx.run_id)))

    assert invoke(registry, "order", {"item": "pen"}) == (Order, 1, "r1")


@pytest.mark.case("agents:U02")
def test_a_wrong_role_is_forbidden_before_the_input_is_looked_at() -> None:
    registry = registry_of(named("pay", roles=["finance"], input=Order))

    assert raises(ToolForbiddenError, lambda: invoke(registry, "pay", "nonsense")).code == "TOOL_FORBIDDEN"


def test_a_name_outside_the_allowed_ones_is_forbidden() -> None:
    registry = registry_of(named("a"), named("b"))

    assert invoke(registry, "a", {}, allowed_tools=["a"]) == "a"
    raises(ToolForbiddenError, lambda: invoke(registry, "b", {}, allowed_tools=["a"]))
    raises(ToolForbiddenError, lambda: invoke(registry, "a", {}, allowed_tools=[]))
    raises(ToolNotFoundError, lambda: invoke(registry, "c", {}, allowed_tools=["c"]))


class Own:
    """A schema of one's own, async as well."""

    async def parse(self, value: Any) -> Any:
        if not isinstance(value, dict) or "item" not in value:
            raise ValueError("no item")
        return Order(**value)


@pytest.mark.case("agents:U02")
@pytest.mark.parametrize(
    "schema",
    [Order, TypeAdapter(Order), {"type": "object", "required": ["item"], "properties": {"item": {"type": "string"}}}, Own()],
    ids=["model", "adapter", "json-schema", "own"],
)
def test_any_kind_of_schema_judges(schema: Any) -> None:
    registry = registry_of(named("order", input=schema, execute=lambda value, ctx: value))

    value = invoke(registry, "order", {"item": "pen"})
    wrong = raises(ToolInputInvalidError, lambda: invoke(registry, "order", {"amount": 2}))

    assert (value["item"] if isinstance(value, dict) else value.item) == "pen"
    assert wrong.issues


@pytest.mark.case("agents:U02")
@pytest.mark.parametrize(
    "schema",
    [Order, {"type": "object", "required": ["item"], "properties": {"item": {"type": "string"}, "amount": {"type": "integer"}}}],
    ids=["model", "json-schema"],
)
@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({}, ["item"]),
        ({"item": 3, "amount": "many"}, ["amount", "item"]),
        ('{"item": "pen"}', [""]),
        ({"order": {"item": "pen"}}, ["item"]),
    ],
    ids=["missing", "wrong", "stringified", "wrapped"],
)
def test_the_message_of_an_invalid_input_names_the_tool_and_each_place(schema: Any, value: Any, places: list[str]) -> None:
    registry = registry_of(named("order", input=schema))

    wrong = raises(ToolInputInvalidError, lambda: invoke(registry, "order", value))

    assert sorted(".".join(issue["path"]) for issue in wrong.issues) == places
    assert "'order'" in wrong.message
    assert all(f"  {place or '(root)'}: " in wrong.message for place in places)


def test_a_json_schema_that_points_into_the_net_is_never_fetched() -> None:
    with pytest.raises(DefinitionError, match="not followed"):
        registry_of(named("far", input={"$ref": "http://localhost:1/schema.json"}))


def test_a_json_schema_that_points_into_itself_judges() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}
    registry = registry_of(named("near", input=schema, execute=lambda value, ctx: value))

    assert invoke(registry, "near", {"a": 1}) == {"a": 1}
    assert raises(ToolInputInvalidError, lambda: invoke(registry, "near", {"a": "x"})).issues[0]["path"] == ["a"]
    assert offered(registry)[0].input_schema["properties"]["a"] == {"$ref": "#/definitions/n"}


def test_a_sync_tool_runs_on_a_thread_and_an_async_one_on_the_loop() -> None:
    async def there(value: Any, ctx: ToolContext) -> int:
        return threading.get_ident()

    registry = registry_of(named("sync", execute=lambda value, ctx: threading.get_ident()), named("async", execute=there))

    assert invoke(registry, "sync", {}) != threading.get_ident()
    assert invoke(registry, "async", {}) == threading.get_ident()


# -- preflight -------------------------------------------------------------------------------------------


class Sending:
    """A tool that says what it would do, as one object."""

    name = "send"
    kind = "action"
    input = Order

    def __init__(self, **said: Any) -> None:
        self.said = Preflight(**said)
        self.seen: list[Any] = []
        self.executed = 0

    def preflight(self, order: Order, ctx: ToolContext, phase: str) -> Preflight:
        self.seen.append((order, phase))
        return self.said

    def execute(self, order: Order, ctx: ToolContext) -> str:
        self.executed += 1
        return "sent"

    def present(self, output: Any, ctx: ToolContext) -> Any:
        return {"component": "Text", "props": {"text": f"{output} by {type(self).__name__}"}, "fallbackText": str(output)}


@pytest.mark.case("agents:U03")
def test_prepare_asks_the_tool_and_executes_nothing() -> None:
    tool = Sending(confirmation={"title": "Send it?"})
    registry = registry_of(create_functional_tool(tool))

    said = asyncio.run(registry.prepare("send", {"item": "pen"}, context(), OPEN))

    assert said.confirmation == {"title": "Send it?"}
    assert tool.seen == [(Order(item="pen"), "prepare")]
    assert tool.executed == 0


@pytest.mark.case("agents:U03")
def test_a_tool_that_says_nothing_is_ready() -> None:
    registry = registry_of(named("send", kind="action"))

    assert prepared(registry, "send", {}).preflight == Preflight()


@pytest.mark.case("agents:U04")
def test_a_completed_preflight_is_the_result() -> None:
    tool = Sending(status="completed", output={"was": "sent before"})

    assert invoke(registry_of(create_functional_tool(tool)), "send", {"item": "pen"}) == {"was": "sent before"}
    assert (tool.seen[0][1], tool.executed) == ("execute", 0)


@pytest.mark.case("agents:U04")
def test_a_denied_preflight_raises_its_reason() -> None:
    tool = Sending(status="denied", reason="The shop is closed.")

    denied = raises(ToolPreflightDeniedError, lambda: invoke(registry_of(create_functional_tool(tool)), "send", {"item": "pen"}))

    assert (str(denied), denied.reason, tool.executed) == ("The shop is closed.", "The shop is closed.", 0)


@pytest.mark.case("agents:U05")
def test_a_call_that_is_refused_never_reaches_the_preflight() -> None:
    tool = Sending()
    registry = registry_of(create_functional_tool(tool, roles=["sales"]))
    other = replace(context(), actor=Actor(id="bob"))

    raises(ToolInputInvalidError, lambda: invoke(registry, "send", {}))
    raises(ToolForbiddenError, lambda: invoke(registry, "send", {"item": "pen"}, other))

    assert tool.seen == []


@pytest.mark.case("agents:U05")
def test_a_read_has_no_preflight() -> None:
    tool = Sending(status="denied", reason="no")
    registry = registry_of(create_functional_tool(tool, kind="read"))

    assert prepared(registry, "send", {"item": "pen"}).preflight == Preflight()
    assert invoke(registry, "send", {"item": "pen"}) == "sent"
    assert tool.seen == []


@pytest.mark.parametrize("said", ["yes", {"status": "perhaps"}], ids=["text", "unknown"])
def test_a_preflight_that_says_something_else_is_an_error_and_nothing_runs(said: Any) -> None:
    ran: list[int] = []
    registry = registry_of(named("send", kind="action", preflight=lambda *_: said, execute=lambda *_: ran.append(1)))

    with pytest.raises(DefinitionError, match="preflight of 'send'"):
        invoke(registry, "send", {})

    assert ran == []


# -- how it shows ------------------------------------------------------------------------------------------


def shown_by(tool: FunctionalTool, value: Any = None, **more: Any) -> tuple[Any, list[dict[str, Any]]]:
    ui = UiCollector("c1")
    output = invoke(registry_of(tool), tool.spec.name, value, context(emit_ui=ui.emit, **more))
    return output, ui.collected


@pytest.mark.case("agents:U06")
def test_a_result_is_shown_by_the_tools_own_hook_and_returned_untouched() -> None:
    output, shown = shown_by(create_functional_tool(Sending()), {"item": "pen"})

    assert output == "sent"
    assert shown == [
        {
            "id": "c1:ui:0",
            "component": "Text",
            "props": {"text": "sent by Sending"},
            "version": 1,
            "fallbackText": "sent",
            "toolCallId": "c1",
        }
    ]


@pytest.mark.case("agents:U06")
def test_what_a_present_hook_does_to_the_output_does_not_reach_the_model() -> None:
    def present(output: dict[str, Any], ctx: ToolContext) -> None:
        output.clear()

    assert shown_by(named("look", execute=lambda *_: {"a": [1]}, present=present)) == ({"a": [1]}, [])


@pytest.mark.case("agents:U07")
def test_a_completed_preflight_is_shown_too() -> None:
    _, shown = shown_by(create_functional_tool(Sending(status="completed", output="done before")), {"item": "pen"})

    assert shown[0]["props"] == {"text": "done before by Sending"}


@pytest.mark.case("agents:U07")
def test_a_completed_prepare_can_be_shown_later() -> None:
    registry = registry_of(create_functional_tool(Sending()), named("plain"))
    ui = UiCollector("c1")

    asyncio.run(registry.present_result("send", "early", context(emit_ui=ui.emit)))
    asyncio.run(registry.present_result("plain", "early", context(emit_ui=ui.emit)))
    asyncio.run(registry.present_result("nobody", "early", context(emit_ui=ui.emit)))

    assert [row["props"]["text"] for row in ui.collected] == ["early by Sending"]
    assert [registry.has_presentation(name) for name in ("send", "plain", "nobody")] == [True, False, False]


@pytest.mark.case("agents:U07")
@pytest.mark.parametrize("why", ["denied", "forbidden", "failed"])
def test_what_did_not_succeed_is_not_shown(why: str) -> None:
    presented: list[Any] = []

    def broken(order: Any, ctx: ToolContext) -> Any:
        raise RuntimeError("broken")

    tool = create_functional_tool(
        name="send",
        kind="action",
        preflight=lambda *_: {"status": "denied", "reason": "no"} if why == "denied" else None,
        roles=["nobody"] if why == "forbidden" else [],
        execute=broken,
        present=lambda *args: presented.append(args),
    )

    with pytest.raises((ToolPreflightDeniedError, ToolForbiddenError, RuntimeError)):
        invoke(registry_of(tool), "send", {})

    assert presented == []


GOOD = {"component": "Text", "props": {"text": "fine"}}


@pytest.mark.case("agents:U09")
@pytest.mark.parametrize(
    "bad",
    [
        {"component": "no name", "props": {}},
        {"component": "Text", "props": [1]},
        {"component": "Text", "props": {"when": date(2026, 1, 2)}},
        {"component": "Text", "props": {}, "version": 0},
        {"component": "Text", "props": {}, "fallbackText": 3},
        "Text",
    ],
    ids=["name", "list", "date", "version", "fallback", "text"],
)
def test_one_presentation_that_is_wrong_keeps_all_from_being_shown(bad: Any) -> None:
    told: list[tuple[str, Mapping[str, str]]] = []

    output, shown = shown_by(
        named("look", present=lambda *_: [GOOD, bad]),
        on_presentation_error=lambda error, where: told.append((type(error).__name__, where)),
    )

    assert (output, shown) == ("look", [])
    assert told == [("Refused", {"toolName": "look"})]


@pytest.mark.case("agents:U09")
def test_a_reporter_that_breaks_does_not_fail_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    with caplog.at_level(logging.WARNING):
        output, shown = shown_by(named("look", present=broken), on_presentation_error=broken)

    assert (output, shown) == ("look", [])
    assert "look" in caplog.text


def test_a_presentation_that_fails_unheard_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        shown_by(named("look", present=lambda *_: "nonsense"))

    assert "The result of 'look' could not be shown" in caplog.text


def test_an_input_to_try_with_is_a_kindness() -> None:
    def broken(scope: ToolScope) -> Any:
        raise RuntimeError("broken")

    registry = registry_of(named("a", preview_input=lambda scope: {"for": scope.actor.id}), named("b", preview_input=broken))
    scope = ToolScope(actor=ANN)

    assert [asyncio.run(registry.preview_input(name, scope)) for name in ("a", "b", "c")] == [{"for": "ann"}, None, None]


# -- what was approved is what runs ----------------------------------------------------------------------


class Doubled(BaseModel):
    """A default and a transform that must not be applied twice."""

    amount: Annotated[int, AfterValidator(lambda n: n * 2)]
    unit: str = Field(default="pieces")


@dataclass
class Trusted:
    """A tool of an action, whose schema and preflight a test changes."""

    schema: Any = Doubled
    hook: Any = None

    def __post_init__(self) -> None:
        self.ran: list[Any] = []
        self.registry = ToolRegistry()
        self.build(self.schema)

    def build(self, schema: Any) -> None:
        parts: dict[str, Any] = {"preflight": self.hook} if self.hook is not None else {}
        tool = create_functional_tool(
            name="send", kind="action", input=schema, execute=lambda value, ctx: self.ran.append(copy.deepcopy(value)), **parts
        )
        self.registry.register(tool.spec, tool.handler)

    def prepare(self, value: Any) -> Any:
        return prepared(self.registry, "send", value, snapshot_input=True)

    def invoke(self, value: Any, approved: Any) -> Any:
        return invoke(self.registry, "send", value, approved_input=approved)


@pytest.mark.case("agents:U11")
def test_what_was_approved_is_parsed_once_more_from_the_raw_input_and_runs() -> None:
    tool = Trusted()

    approved = tool.prepare({"amount": 2}).input
    tool.invoke({"amount": 2}, approved)

    assert approved == {"amount": 4, "unit": "pieces"}
    assert tool.ran == [Doubled.model_construct(amount=4, unit="pieces")]


@pytest.mark.case("agents:U11")
def test_a_default_that_changed_since_is_drift_before_anything_happens() -> None:
    asked: list[str] = []
    tool = Trusted(hook=lambda value, ctx, phase: asked.append(phase))
    approved = tool.prepare({"amount": 2}).input

    class Changed(Doubled):
        unit: str = "boxes"

    tool.build(Changed)
    drift = raises(ToolInputDriftError, lambda: tool.invoke({"amount": 2}, approved))

    assert (asked, tool.ran, drift.tool_name) == (["prepare"], [], "send")


@pytest.mark.case("agents:U12")
def test_the_order_of_keys_does_not_count() -> None:
    tool = Trusted(Any)

    tool.invoke({"b": {"d": 1, "c": [2]}, "a": 3}, {"a": 3.0, "b": {"c": [2], "d": 1}})

    assert len(tool.ran) == 1


@pytest.mark.case("agents:U12")
@pytest.mark.parametrize("approved", [None, {"amount": 5}, {"amount": True}, object()], ids=["none", "other", "bool", "no-json"])
def test_anything_else_that_was_approved_is_drift(approved: Any) -> None:
    tool = Trusted(Any)

    raises(ToolInputDriftError, lambda: tool.invoke({"amount": 1}, approved))

    assert tool.ran == []


@pytest.mark.case("agents:U12")
def test_without_an_approved_input_nothing_is_compared() -> None:
    tool = Trusted(Any)

    tool.invoke({"amount": 1}, NOT_GIVEN)

    assert tool.ran == [{"amount": 1}]


@pytest.mark.case("agents:U13")
def test_a_caller_cannot_change_what_was_prepared() -> None:
    raw = {"lines": [{"item": "pen"}]}
    tool = Trusted(Any)

    approved = tool.prepare(raw).input
    raw["lines"][0]["item"] = "car"

    assert approved == {"lines": [{"item": "pen"}]}
    assert tool.registry.spec("send") is not None


async def _changing_later(value: Any, ctx: ToolContext, phase: str) -> Preflight:
    await asyncio.sleep(0)
    value["lines"][0]["item"] = "car"
    return Preflight()


def _changing(value: Any, ctx: ToolContext, phase: str) -> Preflight:
    value["lines"].append({})
    return Preflight()


def _changing_and_done(value: Any, ctx: ToolContext, phase: str) -> Preflight:
    value["more"] = 1
    return Preflight(status="completed", output="done")


@pytest.mark.case("agents:U13")
@pytest.mark.parametrize("hook", [_changing, _changing_later, _changing_and_done], ids=["nested", "async", "completed"])
def test_a_preflight_that_changes_its_input_is_drift(hook: Any) -> None:
    raw = {"lines": [{"item": "pen"}]}
    tool = Trusted(Any, hook)

    raises(ToolInputDriftError, lambda: tool.prepare(raw))
    raises(ToolInputDriftError, lambda: tool.invoke(raw, {"lines": [{"item": "pen"}]}))

    assert (tool.ran, raw) == ([], {"lines": [{"item": "pen"}]})


@pytest.mark.case("agents:U13")
def test_what_a_preflight_keeps_is_not_what_is_executed() -> None:
    kept: list[Any] = []
    executed: list[Any] = []

    def execute(value: Any, ctx: ToolContext) -> None:
        kept[0]["lines"].clear()
        executed.append(value)

    tool = named("send", kind="action", input=Any, preflight=lambda value, ctx, phase: kept.append(value), execute=execute)

    invoke(registry_of(tool), "send", {"lines": [1]}, approved_input={"lines": [1]})

    assert executed == [{"lines": [1]}]


class Dated(TypedDict):
    when: date


class DateOfText:
    """A schema of one's own that gives what is no JSON."""

    def parse(self, value: Any) -> Any:
        return {"when": date.fromisoformat(value["when"])}


@pytest.mark.case("agents:U14")
@pytest.mark.parametrize("schema", [Dated, DateOfText()], ids=["pydantic", "own"])
def test_without_trusted_options_a_date_stays_a_date(schema: Any) -> None:
    tool = Trusted(schema)

    parsed = prepared(tool.registry, "send", {"when": "2026-01-02"}).input
    tool.invoke({"when": "2026-01-02"}, NOT_GIVEN)

    assert parsed == {"when": date(2026, 1, 2)}
    assert tool.ran == [{"when": date(2026, 1, 2)}]


def test_a_parsed_input_that_is_no_json_cannot_be_approved() -> None:
    tool = Trusted(DateOfText())

    raises(ToolInputDriftError, lambda: tool.prepare({"when": "2026-01-02"}))
    raises(ToolInputDriftError, lambda: tool.invoke({"when": "2026-01-02"}, {"when": "2026-01-02"}))

    assert tool.ran == []


def test_a_date_that_pydantic_can_say_is_approved_as_its_text() -> None:
    tool = Trusted(Dated)

    approved = tool.prepare({"when": "2026-01-02"}).input
    tool.invoke({"when": "2026-01-02"}, approved)

    assert approved == {"when": "2026-01-02"}
    assert tool.ran == [{"when": date(2026, 1, 2)}]


class Tagged(BaseModel):
    tags: set[str] = set()


@pytest.mark.case("agents:U11")
def test_a_set_is_the_same_set_in_whatever_order_it_comes() -> None:
    tags = [f"tag{i}" for i in range(50)]
    tool = Trusted(Tagged, hook=lambda *_: None)

    def tagged(tagged: Tagged) -> None: ...

    approved = tool.prepare({"tags": tags}).input
    tool.invoke({"tags": tags[::-1]}, approved)
    of_function = prepared(
        registry_of(agent_tool(tagged, kind="action")), "tagged", {"tagged": {"tags": tags}}, snapshot_input=True
    ).input

    assert approved == of_function["tagged"] == {"tags": sorted(tags)}
    assert len(tool.ran) == 1


@pytest.mark.parametrize("approved", [{"x": None}, {"x": 0.0}], ids=["null", "zero"])
def test_a_number_json_has_not_is_never_what_was_approved(approved: Any) -> None:
    class Float(BaseModel):
        x: float

    tool = Trusted(Float)

    raises(ToolInputDriftError, lambda: tool.invoke({"x": float("nan")}, approved))
    raises(ToolInputDriftError, lambda: tool.prepare({"x": float("inf")}))

    assert tool.ran == []


# -- signals -------------------------------------------------------------------------------------------------


class Suspended(ControlFlowSignal):
    pass


def suspending(*_: Any) -> Any:
    raise Suspended


class SuspendingSchema:
    parse = staticmethod(suspending)


@pytest.mark.parametrize(
    "parts",
    [
        {"execute": suspending},
        {"present": suspending},
        {"kind": "action", "preflight": suspending},
        {"input": SuspendingSchema()},
        {"describe": suspending},
    ],
    ids=["execute", "present", "preflight", "schema", "describe"],
)
def test_a_signal_of_the_runner_comes_through_untouched(parts: dict[str, Any]) -> None:
    raises(Suspended, lambda: invoke(registry_of(named("look", **parts)), "look", {}))


# -- what is collected ---------------------------------------------------------------------------------------


@pytest.mark.case("agents:J01")
def test_pushes_are_numbered_for_each_call_and_the_same_id_replaces_in_place() -> None:
    ui = UiCollector("c9")

    ids = [ui.emit("Text", {"n": 1})["id"], ui.emit("Text", {"n": 2}, id="mine")["id"], ui.emit("Text", {"n": 3})["id"]]
    ui.emit("Text", {"n": 4}, id="c9:ui:0", version=2)

    assert ids == ["c9:ui:0", "mine", "c9:ui:1"]
    assert [(row["id"], row["props"]["n"]) for row in ui.collected] == [("c9:ui:0", 4), ("mine", 2), ("c9:ui:1", 3)]
    assert ui.collected[0]["version"] == 2


def test_props_are_kept_as_they_were_when_they_were_pushed() -> None:
    ui = UiCollector("c9")
    props: dict[str, Any] = {"rows": [1]}

    ui.emit("Text", props)
    props["rows"].append(2)
    ui.collected[0]["props"]["rows"].append(3)

    assert ui.collected[0]["props"] == {"rows": [1]}


@pytest.mark.parametrize("props", [[1], None, {"a": float("nan")}, {1: 2}], ids=["list", "none", "nan", "key"])
def test_props_that_are_no_json_object_are_refused(props: Any) -> None:
    ui = UiCollector("c9")

    raises(Refused, lambda: ui.emit("Text", props))

    assert ui.collected == []


def test_a_try_again_begins_with_nothing_shown() -> None:
    ui = UiCollector("c9")
    ui.emit("Text", {})

    ui.reset()

    assert (ui.collected, ui.emit("Text", {})["id"]) == ([], "c9:ui:0")


# -- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ToolNotFoundError("x"),
        ToolForbiddenError("x"),
        ToolDisabledError("x"),
        ToolInputInvalidError("x", [{"path": ["a", 0], "message": "wrong"}]),
        ToolPreflightDeniedError("x", "closed"),
        ToolInputDriftError("x", "changed"),
        ToolTimeoutError("x", 1500),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_being_pickled(error: Any) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
    assert again.tool_name == "x"


def test_a_timeout_names_the_tool_and_the_time() -> None:
    assert "'slow'" in str(ToolTimeoutError("slow", 1500))
    assert "1500 ms" in str(ToolTimeoutError("slow", 1500))


def test_a_spec_alone_is_enough_with_any_object_that_executes() -> None:
    class Handler:
        async def execute(self, input: Any, ctx: ToolContext) -> Any:  # noqa: A002
            return input

    registry = ToolRegistry()
    registry.register(ToolSpec(name="echo"), Handler())

    assert invoke(registry, "echo", {"a": 1}) == {"a": 1}
    assert offered(registry)[0].input_schema == {"type": "object", "properties": {}}
