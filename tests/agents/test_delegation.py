"""Agents that ask other agents and wait for the answer: contracts/agents.md §1.4. In memory, then on the journal."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import (
    AgentDefinition,
    AgentRegistry,
    ControlFlowSignal,
    Persona,
    ToolRegistry,
    delegation_tool,
    delegation_tools,
    tool_name_of,
)
from loomnb.errors import DefinitionError
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import Asking, asked_tools, for_ever, heard
from tests.agents.journaling import kernel
from tests.agents.looping import Hooks, Suspended, deps, row_of, rows_of, said, turn
from tests.helpers import plain_id

ASKS = [[("ask_writer", {"task": "Write."})], "So it is."]


# -- the tools ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "detached", "tool"),
    [
        ("writer", False, "ask_writer"),
        ("writer", True, "start_writer"),
        ("code review-2", False, "ask_code_review_2"),
        ("a -- b", True, "start_a_b"),
    ],
    ids=plain_id,
)
def test_the_tool_is_named_after_the_agent_with_an_underscore_for_what_is_no_letter_or_digit(
    agent: str, detached: bool, tool: str
) -> None:
    assert tool_name_of(agent, detached=detached) == tool


def test_the_tools_of_an_agent_registry_are_those_it_may_hand_over_to() -> None:
    agents = AgentRegistry()
    agents.register(AgentDefinition(name="boss", delegates_to=("writer", "checker")))
    agents.register(AgentDefinition(name="writer", description="Writes."))
    agents.register(AgentDefinition(name="checker"))

    tools = [spec for spec, _ in delegation_tools(agents, "boss", detached=["checker"])]

    assert [(s.name, s.kind, s.target_agent, s.detached) for s in tools] == [
        ("ask_writer", "agent", "writer", False),
        ("start_checker", "agent", "checker", True),
    ]
    assert "Writes." in tools[0].description


def test_somebody_who_is_not_there_cannot_be_handed_over_to() -> None:
    with pytest.raises(DefinitionError, match="no agent 'ghost'"):
        delegation_tools([AgentDefinition(name="boss", delegates_to=("ghost",))], "boss")


def test_two_agents_of_one_tool_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match="ask_a_b"):
        delegation_tools([AgentDefinition(name="a b"), AgentDefinition(name="a-b")])


def test_the_model_is_told_what_the_agent_is_for_and_not_offered_one_that_is_gone() -> None:
    registry = ToolRegistry()
    registry.register(*delegation_tool("writer", lambda: "Writes poems."))
    registry.register(*delegation_tool("ghost", lambda: None))
    model = ScriptedModel(["Hi."])

    turn(deps(model, registry=registry))

    ((told,),) = [request.tools for request in model.requests]
    assert told.name == "ask_writer"
    assert "Writes poems." in told.description


# -- a call ---------------------------------------------------------------------------------------------


def test_the_answer_is_the_result_and_is_recorded_as_a_read_that_was_executed() -> None:
    hooks = Asking()
    made = deps(ASKS, registry=asked_tools("writer"))

    result = turn(made, hooks)

    row = row_of(made, "ask_writer")
    assert result.text == "So it is."
    assert hooks.asked == [("writer", "Write.")]
    assert (row.status, row.tool_type, row.output) == ("executed", "read", {"text": "Forty-two."})


def test_an_input_without_a_task_is_the_task_as_json() -> None:
    hooks = Asking()

    turn(deps([[("ask_writer", {"about": "rain"})], "Done."], registry=asked_tools("writer")), hooks)

    assert hooks.asked == [("writer", '{"about":"rain"}')]


@pytest.mark.case("agents:I08")
def test_what_is_settled_of_the_call_is_its_kind_and_its_target() -> None:
    hooks = Asking()

    turn(deps(ASKS, registry=asked_tools("writer")), hooks)

    claims = [value for name, value in hooks.records if name.startswith("persist:toolcall:")]
    assert claims == ['{"kind": "agent", "targetAgent": "writer"}']


def test_a_replay_asks_nobody_again() -> None:
    hooks = Asking()
    made = deps(ASKS, registry=asked_tools("writer"))
    first = turn(made, hooks)
    again = hooks.again()

    second = turn(made, again)

    assert (second.text, again.asked) == (first.text, [])


def test_who_is_asked_is_what_was_recorded_and_not_what_is_configured_by_now() -> None:
    hooks = Asking(suspends={"tool:call-0-ask_writer"})
    made = deps(ASKS, registry=asked_tools("writer"))
    with pytest.raises(Suspended):
        turn(made, hooks)
    registry = ToolRegistry()
    spec, handler = delegation_tool("other", lambda: "Other.")
    registry.register(type(spec)(name="ask_writer", kind="agent", target_agent="other"), handler)
    again = hooks.again()

    turn(deps(ASKS, registry=registry, store=made.store), again)

    assert again.asked == [("writer", "Write.")]


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [("writer",), ("writer", "x")], ids=plain_id)
def test_an_agent_that_takes_part_already_is_not_asked_and_the_chain_is_told(path: tuple[str, ...]) -> None:
    hooks = Asking()
    made = deps(ASKS, registry=asked_tools("writer"))

    turn(made, hooks, agent_name="boss", delegation_path=path)

    row = row_of(made, "ask_writer")
    assert (row.status, hooks.asked) == ("executed", [])
    assert " → ".join([*path, "boss", "writer"]) in row.output["text"]


def test_an_agent_does_not_ask_itself() -> None:
    hooks = Asking()

    turn(deps(ASKS, registry=asked_tools("writer")), hooks, agent_name="writer")

    assert hooks.asked == []


@pytest.mark.parametrize(("most", "asked"), [(1, 0), (2, 1)], ids=plain_id)
def test_how_often_an_agent_may_appear_is_counted_over_the_whole_chain(most: int, asked: int) -> None:
    hooks = Asking()
    made = deps(ASKS, registry=asked_tools("writer"), max_agent_appearances=most)

    turn(made, hooks, agent_name="boss", delegation_path=("writer",))

    assert len(hooks.asked) == asked


@pytest.mark.parametrize(("depth", "asked"), [(4, 1), (5, 0)], ids=plain_id)
def test_agents_ask_agents_only_so_deep(depth: int, asked: int) -> None:
    hooks = Asking()
    made = deps(ASKS, registry=asked_tools("writer"))

    turn(made, hooks, delegation_depth=depth)

    assert len(hooks.asked) == asked
    assert asked or "depth" in row_of(made, "ask_writer").output["text"]


def test_of_several_reasons_the_persona_is_told_first_then_the_chain_then_the_depth() -> None:
    told: list[str] = []
    for more in ({"persona": "narrow"}, {}):
        made = deps(ASKS, registry=asked_tools("writer"), personas=[Persona(id="narrow", allowed_tools=[])])
        turn(made, Asking(), agent_name="writer", delegation_depth=9, **more)
        told.append(row_of(made, "ask_writer").output["text"])

    assert "persona 'narrow'" in told[0]
    assert "writer → writer" in told[1]


def test_a_runner_that_runs_no_agents_says_so() -> None:
    made = deps(ASKS, registry=asked_tools("writer"))

    turn(made, Hooks())

    assert "nothing runs other agents" in row_of(made, "ask_writer").output["text"]


def test_an_agent_that_the_actor_may_not_ask_is_not_asked_though_the_model_knows_its_name() -> None:
    registry = ToolRegistry()
    registry.register(*delegation_tool("writer", lambda: "Writes.", roles=["chief"]))
    hooks = Asking()
    made = deps(ASKS, registry=registry)

    turn(made, hooks)

    assert hooks.asked == []
    assert "cannot be asked here" in row_of(made, "ask_writer").output["text"]


def test_an_agent_that_is_not_on_the_list_of_tools_is_not_asked() -> None:
    hooks = Asking()
    made = deps(ASKS, registry=asked_tools("writer"), tool_allow_list=["other"])

    turn(made, hooks)

    assert hooks.asked == []


def test_an_agent_that_fails_is_told_of_and_the_turn_goes_on() -> None:
    made = deps(ASKS, registry=asked_tools("writer"))

    result = turn(made, Asking(answer=RuntimeError("no paper")))

    row = row_of(made, "ask_writer")
    assert (result.text, row.status) == ("So it is.", "executed")
    assert "no paper" in row.output["text"]


def test_a_signal_of_the_runner_passes_through() -> None:
    with pytest.raises(ControlFlowSignal):
        turn(deps(ASKS, registry=asked_tools("writer")), Asking(answer=ControlFlowSignal()))


def test_agents_are_asked_one_after_the_other() -> None:
    hooks = Asking()
    calls = said("", ("ask_writer", {"task": "1"}), ("ask_editor", {"task": "2"}))
    made = deps([calls, "Done."], registry=asked_tools("writer", "editor"))

    turn(made, hooks)

    assert hooks.asked == [("writer", "1"), ("editor", "2")]
    assert [row.status for row in rows_of(made)] == ["executed", "executed"]


@pytest.mark.case("agents:I09")
def test_those_who_watch_hear_who_asked_whom() -> None:
    with heard("delegated") as events:
        turn(deps(ASKS, registry=asked_tools("writer")), Asking(), agent_name="boss")

    assert events == [{"runId": "run-1", "fromAgent": "boss", "toAgent": "writer"}]


def test_nobody_hears_of_one_that_was_not_asked() -> None:
    with heard("delegated") as events:
        turn(deps(ASKS, registry=asked_tools("writer")), Asking(), agent_name="writer")

    assert events == []


# -- on the journal ------------------------------------------------------------------------------------------


def agent(session: loom.Loom, name: str, says: Any, **more: Any) -> loom.Agent:
    return loom.Agent(ScriptedModel(says), name=name, store=session, **more)


def answer(run: loom.Run) -> Any:
    async def main() -> Any:
        return await asyncio.wait_for(_of(run), 20)

    return asyncio.run(main())


async def _of(run: loom.Run) -> Any:
    return await run


def sql(session: loom.Loom, text: str) -> list[Any]:
    return session.sql(text).fetchall()


def test_an_agent_asks_another_in_a_run_of_its_own_below_it(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        writer = agent(session, "writer", ["A poem."])
        run = agent(session, "boss", ASKS, agents=[writer]).run("Go")

        assert answer(run).text == "So it is."
        assert sql(session, "select output->>'text', status from tool_calls") == [("A poem.", "executed")]
        (child,) = run.children
        assert (child.workflow, child.status, child.parent_id) == ("writer", "completed", run.id)
        assert child.key == f"{run.id}:call-0-ask_writer"
        assert sql(session, f"select agent_name from agent_runs where parent_run_id = '{run.id}'") == [("writer",)]


def test_what_agents_say_to_one_another_is_not_among_the_conversations(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        writer = agent(session, "writer", ["A poem."])
        boss = agent(session, "boss", ASKS, agents=[writer])
        answer(boss.run("Go"))

        assert (len(boss.threads()), len(writer.threads())) == (1, 0)


def test_an_approval_of_the_asked_agent_is_asked_in_its_own_run(tmp_path: Path) -> None:
    sent: list[str] = []

    @loom.agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        sent.append(to)
        return "sent"

    with kernel(tmp_path / "s.duckdb") as session:
        begun = threading.Event()
        writer = agent(session, "writer", sends(begun), tools=[send])
        run = agent(session, "boss", ASKS, agents=[writer]).run("Go")
        assert begun.wait(20)
        child = _child(session)
        at_rest(child)

        assert [ask.name for ask in session.run(child.id).pending] == ["send"]
        assert len(session.pending()) == 1
        child.answer("send", True)
        answer(run)
        assert sent == ["bob"]
        assert sql(session, "select output->>'text' from tool_calls where tool_name = 'ask_writer'") == [("Sent it.",)]


def test_who_waits_for_an_agent_is_told_that_nobody_can_answer_the_one_it_asked(tmp_path: Path) -> None:
    @loom.agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        return to

    with kernel(tmp_path / "s.duckdb") as session:
        writer = agent(session, "writer", [[("send", {"to": "bob"})], "Sent it."], tools=[send])
        run = agent(session, "boss", ASKS, agents=[writer]).run("Go")

        with pytest.raises(loom.NoFrontEnd, match="Writer asks"):
            answer(run)
        assert run.status == "pending"


def _child(session: loom.Loom, workflow: str = "writer") -> loom.Run:
    """The run of an agent that was asked."""
    ((run_id,),) = sql(session, f"select run_id from runs where workflow = '{workflow}'")
    return session.run(run_id)


def sends(begun: threading.Event) -> Any:
    """A script that sends a mail; `begun` is set when it is asked first."""

    def script(request: Any, number: int) -> Any:
        begun.set()
        return [[("send", {"to": "bob"})], "Sent it."][number]

    return script


def test_a_stopped_run_stops_whom_it_asked(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        begun = threading.Event()

        async def never(request: Any, number: int) -> str:
            begun.set()
            await for_ever()
            return ""

        writer = agent(session, "writer", never)
        run = agent(session, "boss", ASKS, agents=[writer]).run("Go")
        assert begun.wait(20)
        run.cancel()
        child = _child(session)
        at_rest(child)

        assert (run.status, child.status) == ("canceled", "canceled")


def test_an_asked_agent_that_was_stopped_is_told_of_and_the_asking_one_goes_on(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        begun = threading.Event()

        async def never(request: Any, number: int) -> str:
            begun.set()
            await for_ever()
            return ""

        writer = agent(session, "writer", never)
        run = agent(session, "boss", ASKS, agents=[writer]).run("Go")
        assert begun.wait(20)
        _child(session).cancel()

        assert answer(run).text == "So it is."
        ((told,),) = sql(session, "select output->>'text' from tool_calls")
        assert "stopped by a person" in told


def test_an_asked_agent_that_fails_is_told_of(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        writer = agent(session, "writer", [ValueError("no ink")])
        run = agent(session, "boss", ASKS, agents=[writer]).run("Go")

        assert answer(run).text == "So it is."
        ((told,),) = sql(session, "select output->>'text' from tool_calls")
        assert "no ink" in told


def test_agents_that_may_ask_each_other_come_to_an_end(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        ping = agent(session, "ping", [[("ask_pong", {"task": "Pong?"})], "Ping."], agents=["pong"])
        agent(session, "pong", [[("ask_ping", {"task": "Ping?"})], "Pong."], agents=[ping])

        assert answer(ping.run("Go")).text == "Ping."
        told = dict(sql(session, "select tool_name, output->>'text' from tool_calls"))
        assert told["ask_pong"] == "Pong."
        assert "ping → pong → ping" in told["ask_ping"]


def test_a_kernel_that_ends_while_the_asked_agent_works_is_not_noticed_in_the_answer(tmp_path: Path) -> None:
    calls = {"boss": 0, "writer": 0}
    begun, path = threading.Event(), tmp_path / "s.duckdb"

    def cells(session: loom.Loom, *, hangs: bool) -> None:
        async def writes(request: Any, number: int) -> str:
            calls["writer"] += 1
            begun.set()
            if hangs:
                await for_ever()
            return "A poem."

        def bosses(request: Any, number: int) -> Any:
            calls["boss"] += 1
            return ASKS[number]

        agent(session, "boss", bosses, agents=[agent(session, "writer", writes)])

    with kernel(path) as session:
        cells(session, hangs=True)
        boss = loom.Agent(ScriptedModel(lambda request, number: _count(calls, ASKS[number])), name="boss", store=session,
                          agents=["writer"])  # fmt: skip
        run_id = boss.run("Go").id
        assert begun.wait(20)
    with kernel(path) as session:
        cells(session, hangs=False)
        run = session.run(run_id)

        assert answer(run).text == "So it is."
        assert sql(session, "select workflow, count(*) from runs group by 1 order by 1") == [("boss", 1), ("writer", 1)]
        assert calls == {"boss": 2, "writer": 2}  # the writer's was in flight
        assert sql(session, "select output->>'text' from tool_calls") == [("A poem.",)]


def test_an_asked_agent_waits_for_its_approval_in_the_next_kernel_and_the_asking_one_for_it(tmp_path: Path) -> None:
    sent: list[str] = []
    path, begun = tmp_path / "s.duckdb", threading.Event()

    def cells(session: loom.Loom) -> loom.Agent:
        @loom.agent_tool(kind="action")
        def send(to: str) -> str:
            """Sends."""
            sent.append(to)
            return "sent"

        writer = agent(session, "writer", sends(begun), tools=[send])
        return agent(session, "boss", ASKS, agents=[writer])

    with kernel(path) as session:
        run_id = cells(session).run("Go").id
        assert begun.wait(20)
        at_rest(_child(session))
    with kernel(path) as session:
        cells(session)
        _child(session).answer("send", True)

        assert answer(session.run(run_id)).text == "So it is."
        assert sent == ["bob"]
        told = "select output->>'text' from tool_calls where tool_name = 'ask_writer'"
        assert sql(session, told) == [("Sent it.",)]


def _count(calls: dict[str, int], what: Any) -> Any:
    calls["boss"] += 1
    return what


def test_an_answer_that_came_before_the_kernel_ended_is_not_made_again(tmp_path: Path) -> None:
    calls = {"writer": 0}
    path, asked = tmp_path / "s.duckdb", threading.Event()

    def cells(session: loom.Loom, *, hangs: bool) -> loom.Agent:
        def writes(request: Any, number: int) -> str:
            calls["writer"] += 1
            return "A poem."

        async def bosses(request: Any, number: int) -> Any:
            if number and hangs:
                asked.set()
                await for_ever()
            return ASKS[number]

        return agent(session, "boss", bosses, agents=[agent(session, "writer", writes)])

    with kernel(path) as session:
        run_id = cells(session, hangs=True).run("Go").id
        assert asked.wait(20)
    with kernel(path) as session:
        cells(session, hangs=False)

        assert answer(session.run(run_id)).text == "So it is."
        assert calls == {"writer": 1}


# -- what cannot work -------------------------------------------------------------------------------------------


def test_two_agents_of_one_name_are_refused(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        first = agent(session, "writer", ["A."])

        with pytest.raises(DefinitionError, match="two agents 'writer'"):
            agent(session, "boss", ASKS, agents=[first, first])


def test_an_agent_of_another_store_is_refused(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session, loom.Loom(str(tmp_path / "o.duckdb"), headless=True) as other:
        writer = agent(other, "writer", ["A."])

        with pytest.raises(DefinitionError, match="different stores"):
            agent(session, "boss", ASKS, agents=[writer])


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    given: Any = [len]
    with kernel(tmp_path / "s.duckdb") as session, pytest.raises(DefinitionError, match="is no agent"):
        agent(session, "boss", ASKS, agents=given)


def test_a_tool_of_the_name_of_an_agents_is_refused(tmp_path: Path) -> None:
    def ask_writer(task: str) -> str:
        """Asks."""
        return task

    with kernel(tmp_path / "s.duckdb") as session:
        writer = agent(session, "writer", ["A."])

        with pytest.raises(DefinitionError, match="two tools called 'ask_writer'"):
            agent(session, "boss", ASKS, tools=[ask_writer], agents=[writer])


def test_an_agent_that_no_cell_has_made_yet_is_not_offered(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        model = ScriptedModel(["Hi.", "Hi."])
        boss = loom.Agent(model, name="boss", store=session, agents=["writer"])
        answer(boss.run("Go"))
        agent(session, "writer", ["A."])
        answer(boss.run("Go"))

        assert [[tool.name for tool in request.tools] for request in model.requests] == [[], ["ask_writer"]]
