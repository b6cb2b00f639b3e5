"""The project as a step has it: bound to its call, on record, and over with it; and what a run changed there."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.blueprints import AbortSignal, FlowRun, ProjectCommand, ProjectError, ProjectFiles
from loomnb.errors import LoomError, OwnershipLost, ReadOnly
from loomnb.testing import Death, ScriptedModel
from tests.blueprints.agenting import DONE, agent_flow, code_flow, error_of, finished, played, tool
from tests.helpers import PATIENCE, at_rest

Work = Callable[[Any], Any]

MIB = 2**20


@pytest.fixture
def root(here: Path) -> Path:
    """A project beside the store."""
    (here / "project").mkdir()
    return here / "project"


def working(work: Work, *, name: str = "workshop") -> loom.Blueprint:
    """A flow whose only step awaits this with its access, and ends."""

    async def step(_: Any, access: Any) -> loom.StepResult:
        await work(access)
        return loom.StepResult("done")

    return code_flow(step, name=name)


def worked(work: Work, root: Path | None, *, name: str = "workshop") -> FlowRun:
    return finished(loom.flow(working(work, name=name), "intent", project=root))


def names_in(folder: Path) -> list[str]:
    """What is in it, by name."""
    return sorted(path.name for path in folder.iterdir())


def python(code: str, **more: Any) -> dict[str, Any]:
    """A command that runs this."""
    return {"command": sys.executable, "args": ["-c", code], **more}


# -- there or not ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
def test_code_without_a_project_has_no_such_member() -> None:
    seen: list[bool] = []

    async def work(access: Any) -> None:
        seen.append(hasattr(access, "project"))

    worked(work, None)

    assert seen == [False]


@pytest.mark.usefixtures("session")
def test_a_tool_without_a_project_has_no_such_member() -> None:
    seen: list[bool] = []

    played(agent_flow(tool(lambda given, access: seen.append(hasattr(access, "project")))), [[("tool", {})], DONE])

    assert seen == [False]


@pytest.mark.usefixtures("session")
def test_a_project_is_given_to_code_and_to_tools(root: Path) -> None:
    async def execute(given: Any, access: Any) -> Any:
        await access.project.write("by-tool.txt", "tool")
        return await access.project.read("by-tool.txt")

    async def work(access: Any) -> None:
        await access.project.write("by-code.txt", "code")

    tooled = played(agent_flow(tool(execute)), [[("tool", {})], DONE], project=root)

    assert (tooled.status, worked(work, root).status) == ("completed", "completed")
    assert names_in(root) == ["by-code.txt", "by-tool.txt"]


FROZEN = ["state", "storage", "interaction", "signal", "project", "something"]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("name", FROZEN)
def test_access_refuses_assignment(root: Path, name: str) -> None:
    seen: list[str] = []

    async def work(access: Any) -> None:
        for change in (lambda: setattr(access, name, None), lambda: delattr(access, name)):
            try:
                change()
            except ReadOnly:
                seen.append("refused")

    worked(work, root)

    assert seen == ["refused"] * 2


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("owner", ["state", "storage", "interaction", "project"])
def test_what_access_holds_refuses_assignment_too(root: Path, owner: str) -> None:
    seen: list[str] = []

    async def work(access: Any) -> None:
        for name in ("read", "value", "commit", "confirm", "something"):
            with contextlib.suppress(AttributeError):
                setattr(getattr(access, owner), name, None)
                seen.append(name)

    worked(work, root)

    assert seen == []


# -- how it fails ------------------------------------------------------------------------------------

BROKEN: list[tuple[str, Work]] = [
    ("read", lambda access: access.project.read("missing.txt")),
    ("write", lambda access: access.project.write("../x", "")),
    ("remove", lambda access: access.project.remove("missing.txt")),
    ("run", lambda access: access.project.run({"command": "no-such-program-anywhere"})),
    ("snapshot", lambda access: access.project.snapshot()),
]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("name", "work"), BROKEN)
def test_a_failure_is_a_plain_exception_and_a_failed_step_in_code(root: Path, name: str, work: Work) -> None:
    seen: list[bool] = []
    (root / "link").symlink_to("elsewhere")  # a snapshot refuses it

    async def noted(access: Any) -> None:
        try:
            await work(access)
        except Exception as exc:
            seen.append(isinstance(exc, ProjectError) and not isinstance(exc, LoomError))
            raise

    assert error_of(worked(noted, root)) == "STEP_EXECUTION_FAILED"
    assert seen == [True]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("name", "work"), BROKEN)
def test_a_failure_is_a_failed_tool_in_an_agent(root: Path, name: str, work: Work) -> None:
    (root / "link").symlink_to("elsewhere")

    async def execute(given: Any, access: Any) -> None:
        await work(access)

    run = played(agent_flow(tool(execute)), [[("tool", {})], DONE], project=root)

    assert error_of(run) == "TOOL_EXECUTION_FAILED"


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("call", ["read", "write", "remove"])
@pytest.mark.parametrize("path", [Path("x.txt"), None, 3, b"x", "x\ud800", ["x"]], ids=repr)
def test_a_path_that_is_no_text_is_refused_as_plainly(root: Path, call: str, path: Any) -> None:
    seen: list[type] = []

    async def work(access: Any) -> None:
        try:
            await (access.project.write(path, "") if call == "write" else getattr(access.project, call)(path))
        except Exception as exc:  # noqa: BLE001  # any other would be wrong
            seen.append(type(exc))

    worked(work, root)

    assert seen == [ProjectError]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("content", [None, 3, b"x", "x\ud800"], ids=repr)
def test_a_content_that_is_no_text_is_refused_as_plainly(root: Path, content: Any) -> None:
    seen: list[type] = []

    async def work(access: Any) -> None:
        try:
            await access.project.write("x.txt", content)
        except Exception as exc:  # noqa: BLE001  # any other would be wrong
            seen.append(type(exc))

    worked(work, root)

    assert seen == [ProjectError]


@pytest.mark.usefixtures("session")
def test_code_may_catch_a_failure_and_go_on(root: Path) -> None:
    async def work(access: Any) -> None:
        with contextlib.suppress(ProjectError):
            await access.project.read("missing.txt")

    assert worked(work, root).status == "completed"


@pytest.mark.usefixtures("session")
def test_a_call_that_nobody_awaits_makes_no_noise(root: Path) -> None:
    async def work(access: Any) -> None:
        access.project.read("missing.txt")
        await access.project.write("x.txt", "")

    assert worked(work, root).status == "completed"


# -- limits ------------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-14")
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("size", "fits"), [(MIB, True), (MIB + 1, False)])
def test_a_text_has_a_mib_at_the_most(root: Path, size: int, fits: bool) -> None:
    (root / "there.txt").write_text("x" * size)

    async def read(access: Any) -> None:
        assert len(await access.project.read("there.txt")) == size

    async def write(access: Any) -> None:
        await access.project.write("new.txt", "x" * size)

    expected = "completed" if fits else "failed"
    assert [worked(read, root, name="reads").status, worked(write, root, name="writes").status] == [expected] * 2


@pytest.mark.case("blueprints:DX-14")
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("path", ["a/../b", "..\\b", "a\\..\\b", "/etc/passwd", "", "a/.git/b", ".env.local"])
def test_a_path_that_is_not_allowed_is_refused(root: Path, path: str) -> None:
    async def work(access: Any) -> None:
        await access.project.write(path, "x")

    assert error_of(worked(work, root)) == "STEP_EXECUTION_FAILED"
    assert names_in(root) == []


COMMANDS = [{"timeoutMs": 0}, {"timeoutMs": 300_001}, {"timeoutMs": 1.5}, {"timeoutMs": True}, {"command": " "}, {"command": ""}]


@pytest.mark.case("blueprints:DX-15")
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("changed", COMMANDS, ids=repr)
def test_a_command_that_breaks_a_rule_is_refused(root: Path, changed: dict[str, Any]) -> None:
    async def work(access: Any) -> None:
        await access.project.run({**python("open('ran', 'w')"), **changed})

    assert error_of(worked(work, root)) == "STEP_EXECUTION_FAILED"
    assert names_in(root) == []


@pytest.mark.case("blueprints:DX-15")
@pytest.mark.usefixtures("session")
def test_output_of_more_than_a_mib_is_cut(root: Path) -> None:
    seen: list[Any] = []

    async def work(access: Any) -> None:
        seen.append(await access.project.run(python(f"print('x' * {2 * MIB})")))

    worked(work, root)

    assert (seen[0].truncated, len(seen[0].stdout)) == (True, MIB)


@pytest.mark.usefixtures("session")
def test_a_result_has_the_command_as_it_was_given(root: Path) -> None:
    seen: list[Any] = []
    command = ProjectCommand(command=sys.executable, args=("-c", "raise SystemExit(7)"), cwd=".", timeout_ms=9_000)

    async def work(access: Any) -> None:
        seen.append(await access.project.run(command))

    worked(work, root)

    assert (seen[0].command, seen[0].exit_code) == (command, 7)


@pytest.mark.case("blueprints:DX-15")
@pytest.mark.usefixtures("session")
def test_a_signal_that_is_passed_is_ignored(root: Path) -> None:
    seen: list[Any] = []

    async def work(access: Any) -> None:
        mine = AbortSignal()
        mine.abort(ValueError("mine"))
        seen.append((await access.project.run(python("print('ran')"), mine)).stdout)

    worked(work, root)

    assert seen == ["ran\n"]


@pytest.mark.usefixtures("session")
def test_the_project_may_be_used_while_a_person_is_asked(root: Path) -> None:
    async def work(access: Any) -> None:
        answer = access.interaction.confirm("Go on?")
        await access.project.write("meanwhile.txt", await access.project.read("there.txt"))
        await answer

    (root / "there.txt").write_text("there")
    run = worked(work, root)
    written = root / "meanwhile.txt"

    assert run.status == "waiting"
    run.answer(True)
    assert finished(run).status == "completed"
    assert written.read_text() == "there"


# -- over --------------------------------------------------------------------------------------------

ENDLESS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
open('pids.tmp', 'w').write(f'{os.getpid()} {child.pid}')
os.rename('pids.tmp', 'pids')
time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    """Whether a process is over, or only waits to be reaped by whoever inherited it."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def seen_by(inspect: Callable[[], bool]) -> bool:
    """Whether it comes true, looked at again and again."""
    patience = threading.Event()
    return any(inspect() or patience.wait(0.02) for _ in range(int(PATIENCE / 0.02)))


def canceled_in_a_command(root: Path, then: Work) -> tuple[FlowRun, list[int], threading.Event]:
    """A run that was canceled while its command ran; what its code does then is known when the event is set."""
    over = threading.Event()

    async def work(access: Any) -> None:
        try:
            await then(access)
        finally:
            over.set()

    run = loom.flow(working(work), "intent", project=root)
    assert seen_by((root / "pids").exists)
    pids = [int(pid) for pid in (root / "pids").read_text().split()]
    run.cancel()
    return run, pids, over


@pytest.mark.case("blueprints:PJ-08")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.usefixtures("session")
def test_a_cancel_kills_the_whole_group_of_a_command(root: Path) -> None:
    _, pids, _ = canceled_in_a_command(root, lambda access: access.project.run(python(ENDLESS)))

    assert seen_by(lambda: all(is_gone(pid) for pid in pids))


@pytest.mark.case("blueprints:PJ-08")
@pytest.mark.usefixtures("session")
def test_a_command_whose_run_was_canceled_ends_with_the_ownership_error(root: Path) -> None:
    seen: list[str] = []

    async def then(access: Any) -> None:
        try:
            await access.project.run(python(ENDLESS))
        except LoomError as exc:
            seen.append(exc.code)

    run, _, over = canceled_in_a_command(root, then)

    assert over.wait(PATIENCE)
    assert (seen, error_of(run)) == (["EXECUTION_OWNERSHIP_LOST"], "RUN_STOPPED")


LATE: list[tuple[str, Work]] = [
    ("snapshot", lambda access: access.project.snapshot()),
    ("read", lambda access: access.project.read("pids")),
    ("write", lambda access: access.project.write("late.txt", "x")),
    ("remove", lambda access: access.project.remove("pids")),
    ("run", lambda access: access.project.run(python("open('late.txt', 'w')"))),
]


@pytest.mark.case("blueprints:PJ-08")
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("name", "call"), LATE)
def test_nothing_works_after_a_cancel(root: Path, name: str, call: Work) -> None:
    seen: list[str] = []

    async def then(access: Any) -> None:
        with contextlib.suppress(OwnershipLost):
            await access.project.run(python(ENDLESS))
        try:
            await call(access)
        except LoomError as exc:
            seen.append(exc.code)

    _, _, over = canceled_in_a_command(root, then)

    assert over.wait(PATIENCE)
    assert seen == ["EXECUTION_OWNERSHIP_LOST"]
    assert names_in(root) == ["pids"]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("name", "call"), LATE)
def test_a_project_that_was_kept_is_dead_after_the_step(root: Path, name: str, call: Work) -> None:
    kept: list[Any] = []

    async def work(access: Any) -> None:
        kept.append(access)

    worked(work, root)

    async def late() -> None:
        await call(kept[0])

    with pytest.raises(OwnershipLost):
        asyncio.run(late())
    assert names_in(root) == []


# -- on record ---------------------------------------------------------------------------------------


class Once:
    """Fails the first time only."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        if self.times == 1:
            raise ValueError("once")


@pytest.mark.usefixtures("session")
def test_what_was_run_is_not_run_again_by_a_retry(root: Path) -> None:
    once, seen = Once(), []

    async def work(access: Any) -> None:
        result = await access.project.run(python("open('log', 'a').write('ran;'); print('said')"))
        seen.append((result.exit_code, result.stdout, result.command.command))
        once()

    run = worked(work, root)
    run.retry()

    assert finished(run).status == "completed"
    assert (root / "log").read_text() == "ran;"
    assert seen == [(0, "said\n", sys.executable)] * 2


@pytest.mark.usefixtures("session")
def test_what_was_written_is_not_written_again_by_a_retry(root: Path) -> None:
    once = Once()

    async def work(access: Any) -> None:
        await access.project.write("x.txt", "by the step")
        once()

    run = worked(work, root)
    (root / "x.txt").write_text("by a person")
    run.retry()

    assert finished(run).status == "completed"
    assert (root / "x.txt").read_text() == "by a person"


@pytest.mark.usefixtures("session")
def test_what_was_removed_is_not_removed_again_by_a_retry(root: Path) -> None:
    once = Once()
    (root / "x.txt").write_text("there")

    async def work(access: Any) -> None:
        await access.project.remove("x.txt")
        once()

    run = worked(work, root)
    (root / "x.txt").write_text("again")
    run.retry()

    assert finished(run).status == "completed"
    assert (root / "x.txt").read_text() == "again"


@pytest.mark.usefixtures("session")
def test_what_was_read_before_an_effect_is_read_again_as_it_was(root: Path) -> None:
    once, seen = Once(), []
    (root / "x.txt").write_text("old")

    async def work(access: Any) -> None:
        seen.append((await access.project.read("x.txt"), sorted(await access.project.snapshot())))
        await access.project.write("effect.txt", "")
        once()

    run = worked(work, root)
    (root / "x.txt").write_text("new")
    run.retry()

    assert finished(run).status == "completed"
    assert seen == [("old", ["x.txt"])] * 2


@pytest.mark.usefixtures("session")
def test_what_failed_before_an_effect_fails_again_as_it_did(root: Path) -> None:
    once, seen = Once(), []

    async def work(access: Any) -> None:
        try:
            await access.project.read("x.txt")
        except ProjectError as exc:
            seen.append(str(exc))
        await access.project.write("x.txt", "")
        once()

    run = worked(work, root)
    run.retry()

    assert finished(run).status == "completed"
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.usefixtures("session")
def test_a_retry_that_writes_something_else_is_told(root: Path) -> None:
    once = Once()

    async def work(access: Any) -> None:
        await access.project.write("x.txt", f"at {once.times}")
        once()

    run = worked(work, root)
    run.retry()

    assert error_of(finished(run)) == "STEP_REPLAY_DIVERGED"


@pytest.mark.usefixtures("session")
def test_a_fresh_retry_does_all_of_it_again(root: Path) -> None:
    once = Once()

    async def work(access: Any) -> None:
        await access.project.run(python("open('log', 'a').write('ran;')"))
        once()

    run = worked(work, root)
    run.retry(fresh=True)

    assert finished(run).status == "completed"
    assert (root / "log").read_text() == "ran;ran;"


def test_what_was_run_before_a_crash_is_not_run_again(here: Path, root: Path) -> None:
    death = Death(after=5)  # the start, the capture, the stage, that the step began, what was run

    async def work(access: Any) -> None:
        await access.project.run(python("open('log', 'a').write('ran;')"))
        await access.project.write("after.txt", "x")

    flow = working(work)
    with loom.Loom(here / "died.duckdb", database=death) as dying:
        dying.flow(flow, "intent", project=root, key="k")
        death.wait()
    with loom.open(here / "died.duckdb") as session:
        run = session.flow(flow, "intent", project=root, key="k")
        at_rest(run)
        assert run.status == "interrupted"
        run.retry()

        assert finished(run).status == "completed"
    assert (root / "log").read_text() == "ran;"
    assert (root / "after.txt").exists()


# -- the store in the root ---------------------------------------------------------------------------


def store_files(here: Path) -> set[str]:
    return {name for name in names_in(here) if name.startswith("s.duckdb")}


@pytest.mark.usefixtures("session")
def test_no_file_of_the_store_is_in_a_snapshot(here: Path) -> None:
    seen: list[Any] = []

    async def work(access: Any) -> None:
        await access.project.write("x.txt", "x")
        seen.append((set(await access.project.snapshot()), store_files(here)))

    worked(work, here)

    found, there = seen[0]
    assert found == {"x.txt"}
    assert {"s.duckdb", "s.duckdb.wal"} <= there


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("name", ["s.duckdb", "s.duckdb.wal", "s.duckdb.lock", "s.duckdb.wal.kept", "s.duckdb.tmp/part"])
def test_no_file_of_the_store_can_be_touched(here: Path, name: str) -> None:
    seen: list[bool] = []

    async def work(access: Any) -> None:
        project = access.project
        for call in (lambda: project.read(name), lambda: project.write(name, ""), lambda: project.remove(name)):
            try:
                await call()
            except ProjectError as exc:
                seen.append("private" in str(exc))

    worked(work, here)

    assert seen == [True] * 3


@pytest.mark.usefixtures("session")
def test_a_file_that_only_begins_like_the_store_is_the_steps_own(here: Path) -> None:
    async def work(access: Any) -> None:
        await access.project.write("s.duckdb-notes.md", "x")

    assert worked(work, here).status == "completed"


@pytest.mark.usefixtures("session")
def test_no_file_of_the_store_is_in_what_a_run_changed(here: Path) -> None:
    async def work(access: Any) -> None:
        await access.project.write("x.txt", "x")

    async def failing(access: Any) -> None:
        raise ValueError("no")

    done, broken = worked(work, here), worked(failing, here, name="failing")

    assert [change.path for change in done.project_diff.files] == ["x.txt"]
    assert [change.path for change in broken.project_diff.files] == []


def test_files_of_a_store_elsewhere_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.duckdb").write_text("mine")

    async def snapshot() -> Any:
        return await ProjectFiles(tmp_path, private=["/elsewhere/s.duckdb"]).snapshot()

    assert set(asyncio.run(snapshot())) == {"s.duckdb"}


# -- what a run changed ------------------------------------------------------------------------------


async def changing(access: Any) -> None:
    await access.project.write("new.txt", "new\n")
    await access.project.write("old.txt", "changed\n")
    await access.project.remove("gone.txt")


def prepared(root: Path) -> Path:
    (root / "old.txt").write_text("old\n")
    (root / "gone.txt").write_text("gone\n")
    return root


CHANGED = {("added", "new.txt"), ("changed", "old.txt"), ("removed", "gone.txt")}


def changes_of(run: FlowRun) -> set[tuple[str, str]]:
    return {(change.kind, change.path) for change in run.project_diff.files}


@pytest.mark.usefixtures("session")
def test_what_a_run_changed_is_told(root: Path) -> None:
    assert changes_of(worked(changing, prepared(root))) == CHANGED


@pytest.mark.usefixtures("session")
def test_what_a_finished_run_changed_stays_told_when_files_change_again(root: Path) -> None:
    run = worked(changing, prepared(root))

    (root / "later.txt").write_text("later")
    (root / "new.txt").unlink()

    assert changes_of(run) == CHANGED


def test_what_a_finished_run_changed_is_told_after_a_restart(here: Path, root: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        run_id = finished(session.flow(working(changing), "intent", project=prepared(root))).id
    (root / "later.txt").write_text("later")

    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)

        assert isinstance(run, FlowRun)
        assert changes_of(run) == CHANGED


@pytest.mark.usefixtures("session")
def test_what_a_finished_run_changed_is_told_though_its_folder_is_gone(root: Path) -> None:
    run = worked(changing, prepared(root))

    for path in root.iterdir():
        path.unlink()
    root.rmdir()

    assert changes_of(run) == CHANGED


@pytest.mark.usefixtures("session")
def test_a_run_that_waits_tells_what_it_changed_so_far(root: Path) -> None:
    async def work(access: Any) -> None:
        await changing(access)
        await access.interaction.confirm("Fine?")

    assert changes_of(worked(work, prepared(root))) == CHANGED


@pytest.mark.usefixtures("session")
def test_a_run_whose_last_step_takes_the_folder_away_is_no_failure(root: Path) -> None:
    async def work(access: Any) -> None:
        await asyncio.to_thread(root.rmdir)

    assert worked(work, root).status == "completed"


@pytest.mark.usefixtures("session")
def test_a_run_without_a_project_has_nothing_to_tell() -> None:
    async def work(access: Any) -> None: ...

    with pytest.raises(loom.LoomError, match="no project"):
        _ = worked(work, None).project_diff


@pytest.mark.usefixtures("session")
def test_a_run_tells_what_its_agent_changed(root: Path) -> None:
    async def execute(given: Any, access: Any) -> None:
        await access.project.write("by-agent.txt", "x")

    run = played(agent_flow(tool(execute)), ScriptedModel([[("tool", {})], DONE]), project=root)

    assert changes_of(run) == {("added", "by-agent.txt")}
