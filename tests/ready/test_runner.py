"""WorkflowRunner: runs started, resumed and stopped by a program, in the seed's words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.testing import at_rest
from tests.helpers import status_is

State = Mapping[str, Any]
Ctx = loom.RunContext[dict[str, Any]]
ADA = loom.WorkflowRunnerOptions(user_id="ada", app_name="notes")


@pytest.fixture
def runner(session: loom.Loom) -> loom.WorkflowRunner:
    return loom.WorkflowRunner(session)


class Args(BaseModel):
    n: int = 1


@loom.workflow(name="runner_add", schema=Args)
class AddWorkflow(loom.BaseWorkflow[Args]):
    @loom.transition(to="end")
    async def go(self, state: State, ctx: loom.RunContext[Args]) -> None:
        self.document_store.save(loom.PlainDocument(text=str(ctx.args.n)))
        self.set_result({"n": ctx.args.n + 1})


@loom.workflow(name="runner_wait")
class WaitWorkflow(loom.BaseWorkflow[dict[str, Any]]):
    @loom.transition(to="asking")
    async def go(self) -> None:
        self.set_result("so far")

    @loom.transition(from_="asking", to="end", wait=True, schema=Args)
    async def answered(self, state: State, given: loom.TransitionInput[Args, None]) -> None:
        self.set_result(given.data.n)


@loom.workflow(name="runner_fail")
class FailWorkflow(loom.BaseWorkflow[dict[str, Any]]):
    @loom.transition(to="trying")
    async def go(self) -> None:
        self.document_store.save(loom.PlainDocument(text="kept"))

    @loom.transition(from_="trying", to="end", retry_attempts=3, retry_delay=60_000)
    async def attempt(self) -> None:
        self.document_store.save(loom.PlainDocument(text="dropped"))
        if not MENDED.is_set():
            raise ValueError("no luck")


MENDED = threading.Event()


@pytest.fixture(autouse=True)
def _known() -> None:
    from loomnb.workflows import know

    MENDED.clear()
    for cls in (AddWorkflow, WaitWorkflow, FailWorkflow):
        know(cls)


def count(session: loom.Loom) -> int:
    ((n,),) = session.sql("select count(*) from journal").fetchall()
    return int(n)


# -- starting -----------------------------------------------------------------------------------------


def test_run_starts_and_tells_where_to_find_it(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    started = runner.run(AddWorkflow, Args(n=4))

    assert session.run(started.workflow_id).wait(10) == {"n": 5}
    ((store_id,),) = session.sql("select id from store").fetchall()
    assert started.workspace_id == store_id
    assert started.to_json() == {
        "workflowId": started.workflow_id,
        "workspaceId": started.workspace_id,
        "workerId": started.worker_id,
    }
    assert started.worker_id


def test_results_may_be_awaited(runner: loom.WorkflowRunner) -> None:
    async def story() -> loom.RunResult:
        return await runner.run(AddWorkflow)

    assert asyncio.run(story()).workflow_id


def test_bad_args_reach_the_caller_and_nothing_is_stored(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    for start in (runner.run, runner.run_sync):
        with pytest.raises(loom.ArgsInvalid):
            start(AddWorkflow, {"n": "many"})

    assert count(session) == 0


@pytest.mark.parametrize("labels", [[""], [1], "ab", ["a", ""], [None]])
def test_labels_are_words(runner: loom.WorkflowRunner, labels: Any) -> None:
    with pytest.raises(loom.ArgsInvalid):
        runner.run(AddWorkflow, None, loom.WorkflowRunnerOptions(labels=labels))


def test_the_runner_uses_the_default_store(session: loom.Loom) -> None:
    started = loom.WorkflowRunner().run(AddWorkflow)

    assert session.run(started.workflow_id).wait(10) == {"n": 2}


# -- run_sync -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workflow", "status", "result"),
    [(AddWorkflow, "completed", {"n": 2}), (WaitWorkflow, "waiting", "so far"), (FailWorkflow, "waiting", None)],
)
def test_run_sync_gives_the_end_of_the_first_pass(
    runner: loom.WorkflowRunner, session: loom.Loom, workflow: Any, status: str, result: Any
) -> None:
    done = runner.run_sync(workflow)

    assert isinstance(done, loom.SyncRunResult)
    assert (done.status, done.result) == (status, result)
    assert isinstance(done.status, loom.WorkflowState)
    session.run(done.workflow_id).cancel()


def test_run_sync_refuses_to_block_the_loop_it_waits_for(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    @loom.workflow
    class OuterWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            runner.run_sync(AddWorkflow)

    with pytest.raises(loom.RunFailed, match="block the very loop"):
        session.start(OuterWorkflow).wait(10)


def test_run_sync_works_in_a_plain_transition(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    @loom.workflow
    class OuterWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        def go(self) -> None:
            self.set_result(runner.run_sync(AddWorkflow).result)

    assert session.start(OuterWorkflow).wait(10) == {"n": 2}


STATELESS = loom.WorkflowRunnerSyncOptions(stateless=True)


def test_a_stateless_run_gives_result_and_documents_and_stores_nothing(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    done = runner.run_sync(AddWorkflow, {"n": 4}, STATELESS)

    assert isinstance(done, loom.StatelessRunResult)
    assert (done.status, done.result, done.error) == ("completed", {"n": 5}, None)
    assert [d.content for d in done.documents] == [{"text": "4"}]
    assert count(session) == 0


@pytest.mark.case("workflows:E16", "workflows:E19")
def test_a_stateless_run_that_fails_is_failed_and_drops_what_the_move_saved(
    session: loom.Loom, runner: loom.WorkflowRunner
) -> None:
    done = runner.run_sync(FailWorkflow, None, STATELESS)

    assert isinstance(done, loom.StatelessRunResult)
    assert (done.status, done.error) == ("failed", "no luck")
    assert [d.content["text"] for d in done.documents] == ["kept"]
    assert count(session) == 0


@pytest.mark.case("workflows:I10")
def test_a_stateless_run_that_waits_raises(runner: loom.WorkflowRunner) -> None:
    with pytest.raises(loom.Refused, match="'answered'"):
        runner.run_sync(WaitWorkflow, None, STATELESS)


def test_a_stateless_run_starts_no_sub_workflow(runner: loom.WorkflowRunner) -> None:
    @loom.workflow
    class OuterWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            AddWorkflow().run()

    done = runner.run_sync(OuterWorkflow, None, STATELESS)

    assert isinstance(done, loom.StatelessRunResult)
    assert done.status == "failed"
    assert "sub-workflow" in (done.error or "")


# -- going on -----------------------------------------------------------------------------------------


def waiting(session: loom.Loom, runner: loom.WorkflowRunner, options: Any = None) -> loom.Run:
    run = session.run(runner.run(WaitWorkflow, None, options).workflow_id)
    at_rest(run)
    return run


def test_run_by_id_answers_a_wait_transition(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    run = waiting(session, runner)

    done = runner.run_by_id(run.id, "local", {"transition": {"id": "answered", "workflowId": run.id, "payload": {"n": 3}}})

    assert (done.workflow_id, done.status) == (run.id, "pending")
    assert run.wait(10) == 3


def test_run_by_id_without_a_transition_retries_what_failed(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    run = session.run(runner.run(FailWorkflow).workflow_id)
    status_is(run, "retrying")
    MENDED.set()

    runner.run_by_id(run.id)

    run.wait(10)
    assert run.status == "completed"


def test_nothing_to_retry_is_refused(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    run = waiting(session, runner)
    before = count(session)

    with pytest.raises(loom.Conflict):
        runner.run_by_id(run.id)
    run.answer({"n": 1})
    run.wait(10)
    with pytest.raises(loom.Conflict):
        runner.run_by_id(run.id)
    assert (run.result, count(session) > before) == (1, True)


@pytest.mark.parametrize(
    "envelope",
    [
        {"transition": "answered"},
        {"transition": {"payload": {}}},
        {"transition": {"id": "answered", "status": "canceled"}},
        {"transition": {"id": "answered", "hasError": True}},
        {"transition": {"id": "answered", "meta": {}}},
        {"payload": {"n": 1}},
        "answered",
    ],
)
def test_another_envelope_is_refused_and_the_run_untouched(
    session: loom.Loom, runner: loom.WorkflowRunner, envelope: Any
) -> None:
    run = waiting(session, runner)
    before = count(session)

    with pytest.raises(loom.ArgsInvalid):
        runner.run_by_id(run.id, "local", envelope)

    assert (run.status, count(session)) == ("waiting", before)


@pytest.mark.parametrize(
    ("transition", "error"),
    [
        ({"id": "nowhere"}, loom.AnswerRefused),
        ({"id": "go"}, loom.AnswerRefused),
        ({"id": "answered", "payload": {"n": "x"}}, loom.AnswerInvalid),
    ],
)
def test_what_cannot_be_answered_is_refused(
    session: loom.Loom, runner: loom.WorkflowRunner, transition: Any, error: type[Exception]
) -> None:
    run = waiting(session, runner)

    with pytest.raises(error):
        runner.run_by_id(run.id, "local", {"transition": transition})
    assert (run.status, len(run.pending)) == ("waiting", 1)


def test_a_childs_question_is_answered_by_way_of_its_root(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    items = [{"workflow": "runner_wait"}]
    root = session.run(runner.run(loom.FanOutWorkflow, {"items": items}).workflow_id)
    at_rest(root)
    (child,) = root.children
    at_rest(child)
    other = waiting(session, runner)

    with pytest.raises(loom.Conflict):
        runner.run_by_id(root.id, "local", {"transition": {"id": "answered", "workflowId": other.id, "payload": {}}})
    runner.run_by_id(root.id, "local", {"transition": {"id": "answered", "workflowId": child.id, "payload": {"n": 9}}})

    assert root.wait(10)["results"][0]["data"] == 9


# -- execute and cancel -------------------------------------------------------------------------------


@pytest.mark.parametrize("workflow", [AddWorkflow, "runner_add"])
def test_execute_starts_by_class_or_name_and_its_labels_win(
    session: loom.Loom, runner: loom.WorkflowRunner, workflow: Any
) -> None:
    options = loom.WorkflowRunnerOptions(labels=["option"])

    done = runner.execute(workflow, {"args": {"n": 1}, "labels": ["payload"]}, options)

    assert (done.status, done.to_json()["status"]) == ("pending", "pending")
    assert session.run(done.workflow_id).labels == ("payload",)
    assert session.run(runner.execute(workflow, {}, options).workflow_id).labels == ("option",)


def test_execute_with_an_id_goes_on(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    run = waiting(session, runner)

    with pytest.raises(loom.Conflict, match="runner_wait"):
        runner.execute(AddWorkflow, {"workflowId": run.id})
    runner.execute(WaitWorkflow, {"workflowId": run.id, "transition": {"id": "answered", "payload": {"n": 2}}})

    assert run.wait(10) == 2


@pytest.mark.parametrize(
    "payload", [{"workflowName": "x"}, {"args": {}, "status": "x"}, {"workflowId": "x", "args": {}}, [1], []]
)
def test_execute_refuses_another_payload(session: loom.Loom, runner: loom.WorkflowRunner, payload: Any) -> None:
    with pytest.raises(loom.ArgsInvalid):
        runner.execute(AddWorkflow, payload)
    assert count(session) == 0


@pytest.mark.case("workflows:I11")
def test_another_users_run_is_not_found(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    run = waiting(session, runner, ADA)
    before = count(session)

    for call in (
        lambda: runner.run_by_id(run.id, "bob", {"transition": {"id": "answered", "payload": {}}}),
        lambda: runner.cancel(run.id, "bob"),
        lambda: runner.execute(WaitWorkflow, {"workflowId": run.id}),
        lambda: runner.cancel("run-nowhere"),
    ):
        with pytest.raises(loom.NotFound):
            call()
    assert count(session) == before
    runner.cancel(run.id, "ada")
    assert run.status == "canceled"


# -- whose a run is -----------------------------------------------------------------------------------


def test_an_app_and_user_have_one_workspace_which_is_kept(here: Any) -> None:
    with loom.open(here / "w.duckdb") as first:
        one = loom.WorkflowRunner(first).run(WaitWorkflow, None, ADA)
        at_rest(first.run(one.workflow_id))

    with loom.open(here / "w.duckdb") as second:
        runner = loom.WorkflowRunner(second)
        two = runner.run(WaitWorkflow, None, ADA)
        other = runner.run(WaitWorkflow, None, loom.WorkflowRunnerOptions(user_id="bob", app_name="notes"))
        own = runner.run(WaitWorkflow)
        assert one.workspace_id == two.workspace_id
        assert len({one.workspace_id, other.workspace_id, own.workspace_id}) == 3
        record = second.run(one.workflow_id).record
        assert (record.user_id, record.app_name, record.workspace_id) == ("ada", "notes", one.workspace_id)
        rows = second.sql("select user_id, app_name, runs from workspaces order by 1").fetchall()
        assert rows == [("ada", "notes", 2), ("bob", "notes", 1), ("local", "notebook", 1)]
        numbers = second.sql("select user_id, run_number from runs order by number").fetchall()
        assert numbers == [("ada", 1), ("ada", 2), ("bob", 1), ("local", 1)]


def test_a_named_workspace_must_be_the_users(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    one = runner.run(AddWorkflow, None, ADA)

    again = runner.run(AddWorkflow, None, loom.WorkflowRunnerOptions(user_id="ada", workspace_id=one.workspace_id))

    assert again.workspace_id == one.workspace_id
    assert session.run(again.workflow_id).record.app_name == "notes"
    for options in ({"user_id": "bob", "workspace_id": one.workspace_id}, {"workspace_id": "ws-none"}):
        with pytest.raises(loom.NotFound, match="workspace"):
            runner.run(AddWorkflow, None, loom.WorkflowRunnerOptions(**options))


def test_a_child_belongs_to_whom_its_parent_does(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    seen = []

    @loom.workflow
    class InnerWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: State, ctx: Ctx) -> None:
            seen.append((ctx.user_id, ctx.workspace_id))

    started = runner.run(loom.FanOutWorkflow, {"items": [{"workflow": InnerWorkflow}]}, ADA)
    session.run(started.workflow_id).wait(10)

    assert seen == [("ada", started.workspace_id)]


# -- one lock a run -----------------------------------------------------------------------------------


@pytest.mark.case("workflows:I04", "workflows:I05")
def test_moves_of_one_run_never_overlap_and_those_of_two_do(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    inside: dict[str, int] = {}
    both = asyncio.Event()

    @loom.workflow
    class StepsWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="second")
        async def first(self, state: State, ctx: Ctx) -> None:
            await self._step(ctx.workflow_id)

        @loom.transition(from_="second", to="end")
        async def second(self, state: State, ctx: Ctx) -> None:
            await self._step(ctx.workflow_id)

        async def _step(self, run_id: str) -> None:
            inside[run_id] = inside.get(run_id, 0) + 1
            assert inside[run_id] == 1
            if sum(inside.values()) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 10)
            inside[run_id] -= 1

    runs = [session.run(runner.run(StepsWorkflow).workflow_id) for _ in range(2)]

    for run in runs:
        run.wait(20)


@pytest.mark.case("workflows:I07")
def test_a_move_that_raises_lets_the_next_go_on(session: loom.Loom, runner: loom.WorkflowRunner) -> None:
    run = session.run(runner.run(FailWorkflow).workflow_id)
    status_is(run, "retrying")
    assert runner.run_sync(AddWorkflow).status == "completed"
    MENDED.set()

    runner.run_by_id(run.id)

    run.wait(10)


def test_workflow_args_reads_the_args_of_a_class() -> None:
    assert loom.WorkflowArgs[AddWorkflow] is Args
    with pytest.raises(loom.DefinitionError):
        _ = loom.WorkflowArgs[int]


def test_every_status_has_a_word_of_the_contract() -> None:
    from loomnb.runtime import WORKFLOW_STATES

    assert set(WORKFLOW_STATES) == set(loom.Status)
    assert WORKFLOW_STATES[loom.Status.RETRYING] == "waiting"
    assert WORKFLOW_STATES[loom.Status.INTERRUPTED] == "failed"
