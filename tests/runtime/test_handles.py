"""What a person holds of a run: keys, forks, history, waiting for it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from tests.helpers import StillSource, at_rest


def steps(name: str = "steps") -> Any:
    @loom.workflow(name=name)
    class Steps(loom.BaseWorkflow):
        @loom.transition(to="one")
        def first(self, state: Any, ctx: Any) -> None:
            self.assign_state(seen=["first"], by=ctx.args.get("by"))
            self.set_result({"n": 1})

        @loom.transition(from_="one", to="ask")
        def second(self, state: Any) -> None:
            self.assign_state(seen=[*state["seen"], "second"])

        @loom.transition(from_="ask", to="end", wait=True)
        def last(self, state: Any, input: Any) -> None:  # noqa: A002
            self.assign_state(seen=[*state["seen"], input.data])
            self.set_result({"n": 3})

    return Steps


def waiting(session: loom.Loom, **options: Any) -> loom.Run:
    run = session.start(steps(), {"by": "me"}, **options)
    at_rest(run)
    return run


# -- keys ---------------------------------------------------------------------------------------------


def test_a_key_finds_its_run_again(session: loom.Loom) -> None:
    assert waiting(session, key="k").id == waiting(session, key="k").id


def test_a_key_finds_its_run_after_a_restart(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        first = waiting(session, key="k").id
    with loom.open(here / "s.duckdb") as session:
        assert waiting(session, key="k").id == first
        assert session.sql("select count(*) from runs").fetchall() == [(1,)]


def test_a_key_finds_its_run_when_it_is_over(session: loom.Loom) -> None:
    run = waiting(session, key="k")
    run.answer("last", 1)
    at_rest(run)

    again = waiting(session, key="k")
    assert (again.id, again.status) == (run.id, "completed")


def test_a_key_finds_the_last_run_of_it_after_a_restart(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        waiting(session, key="k")
        last = waiting(session, key="k", fresh=True).id
        waiting(session, key="other")
    with loom.open(here / "s.duckdb") as session:
        assert waiting(session, key="k").id == last
        newest = waiting(session, key="k", fresh=True).id
        assert waiting(session, key="k").id == newest


def test_a_new_key_does_not_look_through_the_journal_again(session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(session, key="first")
    read: list[str] = []
    original = session._database.read
    monkeypatch.setattr(session._database, "read", lambda sql, *args: read.append(sql) or original(sql, *args))
    for i in range(5):
        session.start(steps(), {"by": "me"}, key=f"k{i}")

    assert read == []


def test_other_args_under_a_key_are_refused(session: loom.Loom) -> None:
    run = waiting(session, key="k")

    with pytest.raises(loom.Conflict, match="fresh=True"):
        session.start(steps(), {"by": "you"}, key="k")
    assert run.status == "waiting"


def test_fresh_starts_a_new_run_that_the_key_then_finds(session: loom.Loom) -> None:
    first = waiting(session, key="k")
    second = session.start(steps(), {"by": "you"}, key="k", fresh=True)

    assert second.id != first.id
    assert session.start(steps(), {"by": "you"}, key="k").id == second.id


def test_one_key_of_two_workflows_is_two_runs(session: loom.Loom) -> None:
    assert session.start(steps("a"), key="k").id != session.start(steps("b"), key="k").id


def test_two_starts_of_one_key_at_once_find_one_run(session: loom.Loom) -> None:
    flow = steps()
    found: list[str] = []
    ready = threading.Barrier(8)

    def start() -> None:
        ready.wait(10)
        found.append(session.start(flow, {"by": "me"}, key="k").id)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1


# -- forks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "place", "seen"), [(0, "start", None), (1, "one", ["first"]), (2, "ask", ["first", "second"])])
def test_a_fork_goes_on_from_the_move_it_names(session: loom.Loom, at: int, place: str, seen: Any) -> None:
    run = waiting(session)
    run.answer("last", "mine")
    at_rest(run)
    fork = run.fork(at=at)
    at_rest(fork)

    assert fork.history[0].place == place
    assert (fork.status, fork.state["seen"]) == ("waiting", ["first", "second"])
    assert (run.status, run.state["seen"]) == ("completed", ["first", "second", "mine"])
    assert fork.id != run.id


def test_a_fork_has_the_args_and_labels_of_its_run(session: loom.Loom) -> None:
    fork = waiting(session, labels=["a"], title="Mine").fork(at=0)

    assert (fork.args, fork.labels, fork.title) == ({"by": "me"}, ("a",), "Mine")


def test_a_fork_has_the_result_of_then(session: loom.Loom) -> None:
    run = waiting(session)
    run.answer("last", 1)
    at_rest(run)
    fork = run.fork(at=2)
    at_rest(fork)

    assert (run.result, fork.result) == ({"n": 3}, {"n": 1})


def test_without_a_number_a_fork_starts_where_the_run_stands(session: loom.Loom) -> None:
    fork = waiting(session).fork()
    at_rest(fork)

    assert (fork.status, fork.place, [a.name for a in fork.pending]) == ("waiting", "ask", ["last"])


def test_a_fork_is_the_same_after_a_restart(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        fork = waiting(session).fork(at=1)
        at_rest(fork)
        before = fork.place, dict(fork.state), fork.result, [h.place for h in fork.history]
        fork_id = fork.id
    with loom.open(here / "s.duckdb") as session:
        fork = session.run(fork_id)
        assert (fork.place, dict(fork.state), fork.result, [h.place for h in fork.history]) == before


@pytest.mark.case("workflows:D15")
def test_a_canceled_run_can_be_forked(session: loom.Loom) -> None:
    run = waiting(session)
    run.cancel()
    fork = run.fork()
    at_rest(fork)

    assert (run.status, fork.status) == ("canceled", "waiting")


@pytest.mark.parametrize("at", [-1, 3, 99])
def test_a_move_that_was_not_made_cannot_be_forked(session: loom.Loom, at: int) -> None:
    with pytest.raises(loom.Refused, match="0 to 2"):
        waiting(session).fork(at=at)


def test_the_end_of_a_run_cannot_be_forked(session: loom.Loom) -> None:
    """Nothing leaves it: such a fork could only be stuck."""
    run = waiting(session)
    run.answer("last", 1)
    at_rest(run)

    with pytest.raises(loom.Refused, match="end"):
        run.fork()
    assert session.sql("select count(*) from runs").fetchall() == [(1,)]


# -- history ------------------------------------------------------------------------------------------


@pytest.mark.case("workflows:E18")
def test_the_history_is_the_start_and_one_line_a_move(session: loom.Loom) -> None:
    run = waiting(session)
    run.answer("last", 1)
    at_rest(run)

    assert [(h.number, h.name, h.from_place, h.place) for h in run.history] == [
        (0, "", None, "start"),
        (1, "first", "start", "one"),
        (2, "second", "one", "ask"),
        (3, "last", "ask", "end"),
    ]


@pytest.mark.case("workflows:E18")
def test_numbers_of_the_history_strictly_increase_over_failures_and_retries(session: loom.Loom) -> None:
    calls: list[int] = []

    @loom.workflow
    class Flaky(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def one(self) -> None: ...

        @loom.transition(from_="middle", to="end", retry_attempts=2, retry_delay=1)
        def two(self) -> None:
            calls.append(1)
            if len(calls) < 3:
                raise ValueError("no")

    run = session.start(Flaky)
    at_rest(run)

    assert [h.number for h in run.history] == [0, 1, 2]
    assert run.history[-1].place == "end"


def test_the_history_says_when(here: Path) -> None:
    source = StillSource()
    with loom.open(here / "s.duckdb", source=source) as session:
        run = session.confirm("Go?")
        source.advance(60)
        run.answer(True)
        at_rest(run)

        assert (run.history[1].at - run.history[0].at).total_seconds() == 60


# -- finding ------------------------------------------------------------------------------------------


def test_a_run_is_found_by_its_id(session: loom.Loom) -> None:
    run = waiting(session)

    assert session.run(run.id).pending == run.pending


def test_an_unknown_id_is_not_found(session: loom.Loom) -> None:
    with pytest.raises(loom.NotFound, match="run-nothing"):
        session.run("run-nothing")


def test_two_handles_of_a_run_see_the_same(session: loom.Loom) -> None:
    run = waiting(session)
    other = session.run(run.id)
    other.answer("last", 1)
    at_rest(run)

    assert (run.status, other.status) == ("completed", "completed")


# -- waiting ------------------------------------------------------------------------------------------


def test_awaiting_a_run_gives_its_result(session: loom.Loom) -> None:
    @loom.workflow
    class Quick(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            self.set_result({"a": [1]})

    async def wait() -> Any:
        return await session.start(Quick)

    assert asyncio.run(wait()) == {"a": [1]}
    assert session.start(Quick).wait(10) == {"a": [1]}


def test_a_result_is_a_copy_each_time(session: loom.Loom) -> None:
    @loom.workflow
    class Quick(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            self.set_result({"a": [1]})

    run = session.start(Quick)
    run.wait(10)["a"].append(2)

    assert run.result == {"a": [1]}


def test_a_wait_that_takes_too_long_ends_and_the_run_goes_on(session: loom.Loom) -> None:
    release = threading.Event()

    @loom.workflow
    class Slow(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            release.wait(20)

    run = session.start(Slow)
    with pytest.raises(TimeoutError):
        run.wait(0.05)
    release.set()

    assert run.wait(10) is None
    assert run.status == "completed"


def test_a_canceled_await_leaves_the_run_alone(session: loom.Loom) -> None:
    release = threading.Event()

    @loom.workflow
    class Slow(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            release.wait(20)
            self.set_result("done")

    run = session.start(Slow)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 0.05)

    asyncio.run(give_up())
    release.set()

    assert run.wait(10) == "done"


def test_settling_never_raises_for_a_failure(session: loom.Loom) -> None:
    @loom.workflow
    class Broken(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            raise ValueError("no")

    view = asyncio.run(session.start(Broken).settled())

    assert (view.status, view.failure.message if view.failure else "") == ("failed", "no")


def test_the_state_of_a_handle_is_read_only(session: loom.Loom) -> None:
    run = waiting(session)

    with pytest.raises(loom.ReadOnly):
        run.state["seen"] = []  # type: ignore[index]
    with pytest.raises(loom.ReadOnly):
        run.state["seen"].append(1)


def test_a_run_on_the_callers_own_loop_moves_there(session: loom.Loom) -> None:
    loops: list[Any] = []

    @loom.workflow
    class Own(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def go(self) -> None:
            loops.append(asyncio.get_running_loop())
            self.set_result("here")

    async def cell() -> tuple[Any, Any]:
        run = session.start(Own, loop="kernel")
        return asyncio.get_running_loop(), await run

    loop, result = asyncio.run(cell())

    assert (loops, result) == ([loop], "here")


def test_the_kernels_loop_needs_one_that_runs(session: loom.Loom) -> None:
    with pytest.raises(loom.Refused, match="running loop"):
        session.start(steps(), loop="kernel")


def test_an_unknown_loop_is_refused(session: loom.Loom) -> None:
    with pytest.raises(loom.Refused, match="elsewhere"):
        session.start(steps(), loop="elsewhere")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    [
        *[{"title": value} for value in (5, ["x"], b"x", "half \ud800")],
        *[{"key": value} for value in (5, ["x"], "half \ud800")],
        *[{"labels": value} for value in ("draft", 5, [5], [None], [["x"]], ["half \ud800"])],
    ],
    ids=repr,
)
def test_what_a_run_is_found_by_is_text(session: loom.Loom, option: dict[str, Any]) -> None:
    with pytest.raises(loom.Refused):
        session.start(steps(), **option)

    assert session.runs().fetchall() == []


@pytest.mark.parametrize("run_id", [5, None, ["x"]])
def test_an_id_that_is_no_text_is_not_found(session: loom.Loom, run_id: Any) -> None:
    with pytest.raises(loom.NotFound):
        session.run(run_id)
