"""Interceptors see every tool call of an agent, of whatever kind the tool is: contracts/workflows.md §2.13."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import InMemorySkills, NonDeterminismError, Skill
from loomnb.agents.mcp.toolset import McpTools, mcp_tools
from loomnb.agents.tool_quota import PROCESSING_TIME, QuotaState, use_tool_quotas
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import Asking, Starting, asked_tools
from tests.agents.looping import Suspended, deps, row_of, said, tool, turn
from tests.agents.mcp_servers import calculator, serving
from tests.agents.test_tool_quota import Book, PerCall
from tests.blueprints.test_code import blueprint

ran: list[str] = []
"""The tools that did their work, in this test."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@pytest.fixture(scope="module")
def served() -> Iterator[McpTools]:
    with serving(calculator().streamable_http_app()) as (url, _):
        yield asyncio.run(mcp_tools(f"{url}/mcp", prefix="calc_", allow_insecure_http=True, allow_private_hosts=True))


class Seen:
    """The calls an interceptor saw, and what they gave."""

    def __init__(self, *, does: Callable[[Any, Any], Any] | None = None) -> None:
        self.calls: list[tuple[str, Any, str]] = []
        self.gave: list[Any] = []
        self.took: list[float] = []
        seen = self

        class SeenInterceptor:
            async def intercept(self, context: Any, next: Any) -> Any:  # noqa: A002  # the contract's word
                seen.calls.append((context.tool.name, context.args, context.run_context.user_id))
                if does is not None:
                    return await does(context, next)
                envelope = await next()
                seen.gave.append(envelope.data)
                seen.took.append(context.metadata["durationMs"])
                return envelope

        loom.use_tool_interceptor(SeenInterceptor)


@loom.agent_tool(kind="action")
def doubled(n: int) -> int:
    """Doubles."""
    ran.append("doubled")
    return 2 * n


def a_function(n: int) -> int:
    """Doubles."""
    ran.append("a_function")
    return 2 * n


async def an_async_function(n: int) -> int:
    """Doubles."""
    ran.append("an_async_function")
    return 2 * n


def functional() -> Any:
    def execute(given: Any, ctx: Any) -> int:
        ran.append("functional")
        return 2 * given["n"]

    return tool("functional", execute)


def of_workflows() -> Any:
    @loom.tool(name="of_workflows")
    async def of_workflows(n: int) -> loom.ToolEnvelope:
        """Doubles."""
        ran.append("of_workflows")
        return loom.ToolEnvelope(data=2 * n)

    return of_workflows


def a_workflow() -> Any:
    @loom.workflow(name="a_workflow")
    class AWorkflow(loom.BaseWorkflow):
        """Doubles."""

        @loom.transition(to="end")
        def go(self, state: Any, ctx: Any) -> None:
            ran.append("a_workflow")
            self.set_result(2 * ctx.args["n"])

    return AWorkflow


KINDS = {
    "a_function": lambda: a_function,
    "an_async_function": lambda: an_async_function,
    "doubled": lambda: doubled,
    "functional": functional,
    "of_workflows": of_workflows,
    "a_workflow": a_workflow,
}


def asked(session: loom.Loom, name: str) -> Any:
    """What a model is told of its call of this tool with 21."""
    model = ScriptedModel([[(name, {"n": 21})], "Done."])
    agent = loom.Agent(model, [KINDS[name]()], name="asked", store=session)
    session.answers({"asked": {"doubled": True}})
    run = agent.run("Go")
    at_rest(run)
    assert run.status == "completed"
    (result,) = [one for message in run.messages for one in message.tool_results or ()]
    return result


@pytest.mark.parametrize("name", KINDS)
def test_a_call_of_each_kind_passes_once(session: loom.Loom, name: str) -> None:
    seen = Seen()

    assert asked(session, name)["output"] == 42
    assert [(called, dict(args)) for called, args, _ in seen.calls] == [(name, {"n": 21})]
    assert (seen.gave, ran) == ([42], [name])


@pytest.mark.parametrize("name", KINDS)
def test_a_quota_that_is_used_up_stops_each_kind(session: loom.Loom, name: str) -> None:
    use_tool_quotas(Book(processing_time_ms=QuotaState(used=5, limit=5)))

    assert "5 of 5 is used of the quota processing-time-ms" in asked(session, name)["error"]
    assert ran == []


def test_what_was_used_is_reported_of_the_agents_person(session: loom.Loom) -> None:
    book = Book()
    use_tool_quotas(book)

    asked(session, "functional")

    assert book.asked == [("local", PROCESSING_TIME)]
    assert [(user, kind) for user, kind, _ in book.reported] == [("local", PROCESSING_TIME)]


# -- what the registry does not run ------------------------------------------------------------------------


@pytest.mark.parametrize("detached", [False, True])
def test_a_call_that_asks_another_agent_passes(detached: bool) -> None:
    seen = Seen()
    hooks = Starting()
    name = "start_writer" if detached else "ask_writer"

    turn(deps([[(name, {"task": "Write."})], "Done."], registry=asked_tools("writer", detached=detached)), hooks)

    assert seen.calls == [(name, {"task": "Write."}, "ann")]
    assert [one.get("text") or one["status"] for one in seen.gave] == ["started" if detached else "Forty-two."]


def test_nobody_is_asked_when_the_quota_of_asking_is_used_up() -> None:
    use_tool_quotas(Book(calls=QuotaState(used=1, limit=1)), calculators={"ask_writer": PerCall()})
    hooks = Asking()
    made = deps([[("ask_writer", {"task": "Write."})], "Done."], registry=asked_tools("writer"))

    turn(made, hooks)

    assert hooks.asked == []
    assert "1 of 1 is used of the quota calls" in row_of(made, "ask_writer").output["text"]


def test_an_agent_that_may_not_be_asked_uses_nothing() -> None:
    seen = Seen()

    turn(deps([[("ask_writer", {"task": "Write."})], "Done."], registry=asked_tools("writer"), max_delegation_depth=0), Asking())

    assert seen.calls == []


def test_what_an_interceptor_says_instead_of_an_agent_is_its_answer() -> None:
    async def says(context: Any, next: Any) -> Any:  # noqa: A002  # the contract's word
        return loom.ToolEnvelope(data="Not today.")

    Seen(does=says)
    made = deps([[("ask_writer", {"task": "Write."})], "Done."], registry=asked_tools("writer"))

    turn(made, Asking())

    assert row_of(made, "ask_writer").output == {"text": "Not today."}


def test_reading_a_skill_passes() -> None:
    seen = Seen()
    skills = InMemorySkills([Skill(name="refunds", description="How to pay back.", body="Pay it back.")])

    turn(deps([[("skill", {"name": "refunds"})], "Done."], skills=skills))

    assert seen.calls == [("skill", {"name": "refunds"}, "ann")]


def test_a_call_of_an_mcp_server_passes(served: McpTools) -> None:
    seen = Seen()
    made = deps([[("calc_add", {"a": 2, "b": 3})], "Done."], *served)

    turn(made)

    assert seen.calls == [("calc_add", {"a": 2, "b": 3}, "ann")]
    assert row_of(made, "calc_add").output == {"sum": 5}


def test_a_call_of_an_mcp_server_is_stopped_by_a_quota(served: McpTools) -> None:
    use_tool_quotas(Book(calls=QuotaState(used=1, limit=1)), calculators={"calc_add": PerCall()})
    made = deps([[("calc_add", {"a": 2, "b": 3})], "Done."], *served)

    turn(made)

    assert "1 of 1 is used of the quota calls" in str(row_of(made, "calc_add").error)


def test_a_blueprint_that_is_a_tool_passes(session: loom.Loom) -> None:
    seen = Seen()

    @loom.code
    def step(access: Any) -> loom.StepResult:
        return loom.StepResult("done")

    flow = blueprint(step, "a_flow")
    run = loom.Agent(ScriptedModel([[("a_flow", {"intent": "it"})], "Done."]), [flow], name="asked", store=session).run("Go")
    at_rest(run)

    assert seen.calls == [("a_flow", {"intent": "it"}, "local")]
    assert seen.gave == ["done"]


# -- what an interceptor may do ------------------------------------------------------------------------------


def test_it_may_change_what_a_tool_gave() -> None:
    async def adds(context: Any, next: Any) -> Any:  # noqa: A002  # the contract's word
        return loom.ToolEnvelope(data=(await next()).data + 1)

    Seen(does=adds)
    made = deps([said("", ("t", {})), "Done."], tool("t", lambda given, ctx: 1))

    turn(made)

    assert row_of(made, "t").output == 2


def test_a_calculator_sees_the_whole_envelope_of_a_function(session: loom.Loom) -> None:
    def generates() -> loom.ToolEnvelope:
        """Generates."""
        return loom.ToolEnvelope(data="x", metadata={"usage": {"inputTokens": 10, "outputTokens": 0}})

    book = Book()
    use_tool_quotas(book, calculators={"generates": loom.LlmCost([])})
    run = loom.Agent(ScriptedModel([[("generates", {})], "Done."]), [generates], name="asked", store=session).run("Go")
    at_rest(run)

    assert ("local", "llm-cost", 3000) in book.reported


async def swallows(context: Any, next: Any) -> Any:  # noqa: A002  # the contract's word
    try:
        return await next()
    except Exception as exc:  # noqa: BLE001  # as careless as an interceptor may be
        return loom.ToolEnvelope(error=str(exc))


def test_it_may_catch_what_a_tool_raises() -> None:
    def breaks(given: Any, ctx: Any) -> None:
        raise ValueError("no paper")

    Seen(does=swallows)
    made = deps([said("", ("t", {})), "Done."], tool("t", breaks))

    turn(made)

    assert "no paper" in str(row_of(made, "t").error)


@pytest.mark.parametrize("signal", [Suspended("wait"), NonDeterminismError(1, "a", "b")], ids=lambda s: type(s).__name__)
def test_it_cannot_keep_a_signal_of_the_runner(signal: Exception) -> None:
    def raises(given: Any, ctx: Any) -> None:
        raise signal

    Seen(does=swallows)

    with pytest.raises(type(signal)):
        turn(deps([said("", ("t", {})), "Done."], tool("t", raises)))
