"""A program in a project: how it is given, how it ends, and that it does end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from loomnb.blueprints import project_run
from loomnb.blueprints.access import AbortSignal, ProjectCommand, ProjectCommandResult
from loomnb.blueprints.project import ProjectError, ProjectFiles
from loomnb.errors import OwnershipLost

MIB = 2**20
FOR_EVER = "import signal\nwhile True: signal.pause()"


@pytest.fixture
def project(tmp_path: Path) -> ProjectFiles:
    return ProjectFiles(tmp_path)


def python(code: str, *args: str, **options: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", code, *args], **options}


def ran(project: ProjectFiles, command: Mapping[str, Any] | ProjectCommand) -> ProjectCommandResult:
    async def main() -> ProjectCommandResult:
        return await project.run(command)

    return asyncio.run(main())


def refused(project: ProjectFiles, command: Any) -> str:
    with pytest.raises(ProjectError) as caught:
        ran(project, command)
    return str(caught.value)


# -- how it is given -------------------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-15")
@pytest.mark.parametrize("timeout", [0, 300_001, 1.5, -1, True, "1000", float("nan")])
def test_a_time_out_that_is_none_is_refused(project: ProjectFiles, timeout: Any) -> None:
    assert "1 to 300,000" in refused(project, python("", timeoutMs=timeout))


@pytest.mark.parametrize("timeout", [None, 300_000])
def test_a_time_out_may_be_left_out_or_be_five_minutes(project: ProjectFiles, timeout: int | None) -> None:
    assert ran(project, python("", timeoutMs=timeout)).exit_code == 0


@pytest.mark.case("blueprints:DX-15")
@pytest.mark.parametrize("command", ["", " ", "\t\n", "\ufeff"])
def test_a_blank_command_is_refused(project: ProjectFiles, command: str) -> None:
    assert "blank" in refused(project, {"command": command})


@pytest.mark.parametrize(
    "command",
    [
        None,
        "ls -l",
        ["ls"],
        {},
        {"command": 3},
        {"command": "a\0b"},
        {"command": "ls", "args": "-l"},
        {"command": "ls", "args": None},
        {"command": "ls", "args": [3]},
        {"command": "ls", "args": ["a\0"]},
        {"command": "ls", "cwd": 3},
        {"command": "ls", "shell": True},
        {"command": "ls", "timeout_ms": 5, "timeoutMs": 5},
    ],
)
def test_a_command_that_is_none_is_refused_at_the_call(project: ProjectFiles, command: Any) -> None:
    async def main() -> None:
        with pytest.raises(ProjectError):
            project.run(command)

    asyncio.run(main())


@pytest.mark.parametrize("key", ["timeoutMs", "timeout_ms"])
def test_a_mapping_may_use_either_spelling(project: ProjectFiles, key: str) -> None:
    result = ran(project, python("", cwd="", **{key: 30_000}))

    assert result.command == ProjectCommand(command=sys.executable, args=("-c", ""), cwd="", timeout_ms=30_000)


def test_arguments_are_copied_at_the_call(project: ProjectFiles) -> None:
    async def main() -> str:
        args = ["-c", "import sys; print(sys.argv[1])", "before"]
        running = project.run(ProjectCommand(command=sys.executable, args=args))
        args[2] = "after"
        return (await running).stdout

    assert asyncio.run(main()) == "before\n"


def test_no_shell_reads_the_arguments(project: ProjectFiles) -> None:
    hostile = ["$HOME", "; echo x", "`id`", "*", "a b", ""]

    assert ran(project, python("import sys; print(sys.argv[1:])", *hostile)).stdout == f"{hostile}\n"


@pytest.mark.parametrize("cwd", [None, "", ".", "./"])
def test_the_current_folder_is_the_root(project: ProjectFiles, cwd: str | None) -> None:
    assert ran(project, python("import os; print(os.getcwd())", cwd=cwd)).stdout == f"{project.root}\n"


def test_the_current_folder_may_be_one_of_the_project(project: ProjectFiles) -> None:
    (project.root / "a" / "b").mkdir(parents=True)

    assert ran(project, python("import os; print(os.getcwd())", cwd="a\\b")).stdout == f"{project.root / 'a' / 'b'}\n"


@pytest.mark.parametrize(
    ("cwd", "why"),
    [
        ("missing", "No such file"),
        ("file", "is no folder"),
        ("link", "is a link"),
        ("link/b", "is a link"),
        ("..", "has a '..'"),
        ("a/..", "has a '..'"),
        ("/", "is absolute"),
        ("node_modules", "private or generated"),
        ("a\0", "NUL"),
    ],
)
def test_a_current_folder_keeps_the_rules_of_paths(project: ProjectFiles, cwd: str, why: str) -> None:
    for name in ("a/b", "node_modules"):
        (project.root / name).mkdir(parents=True)
    (project.root / "file").touch()
    (project.root / "link").symlink_to("a")

    assert why in refused(project, python("", cwd=cwd))


def test_a_program_that_is_missing_is_an_error(project: ProjectFiles) -> None:
    assert "'no-such-program' cannot be started" in refused(project, {"command": "no-such-program"})


def test_a_program_that_is_no_program_is_an_error(project: ProjectFiles) -> None:
    (project.root / "text").write_text("x")

    assert "Permission denied" in refused(project, {"command": "./text"})


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.case("blueprints:PJ-06")
def test_a_command_that_fails_is_a_result(project: ProjectFiles) -> None:
    result = ran(project, python("import sys; sys.stderr.write('broken'); sys.exit(7)"))

    assert (result.exit_code, result.stdout, result.stderr) == (7, "", "broken")


@pytest.mark.case("blueprints:PJ-07")
def test_a_command_that_never_ends_is_stopped_at_its_time_out(project: ProjectFiles) -> None:
    result = ran(project, python(FOR_EVER, timeoutMs=30))

    assert (result.timed_out, result.exit_code) == (True, None)


def test_a_program_that_died_of_a_signal_has_its_negative_number(project: ProjectFiles) -> None:
    result = ran(project, python("import os; os.kill(os.getpid(), 9)"))

    assert (result.exit_code, result.timed_out) == (-9, False)


def test_what_was_said_before_the_time_out_is_kept(project: ProjectFiles) -> None:
    result = ran(project, {"command": "sh", "args": ["-c", "echo x; exec cat /dev/zero > /dev/null"], "timeoutMs": 1_000})

    assert (result.stdout, result.timed_out) == ("x\n", True)


def test_a_program_has_no_input(project: ProjectFiles) -> None:
    assert ran(project, python("import sys; print(repr(sys.stdin.read()))")).stdout == "''\n"


def test_a_program_has_a_session_of_its_own(project: ProjectFiles) -> None:
    code = "import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())"

    assert ran(project, python(code)).stdout == "True\n"


@pytest.mark.case("blueprints:DX-15")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_beyond_1_mib_is_read_and_dropped(project: ProjectFiles, stream: str) -> None:
    code = f"import sys\nfor _ in range(80): sys.{stream}.write('x' * 100_000)"
    result = ran(project, python(code))

    assert (result.exit_code, result.truncated, len(getattr(result, stream))) == (0, True, MIB)


def test_output_of_exactly_1_mib_is_whole(project: ProjectFiles) -> None:
    result = ran(project, python(f"import sys; sys.stdout.write('x' * {MIB})"))

    assert (result.truncated, len(result.stdout)) == (False, MIB)


def test_output_is_cut_in_bytes_between_two_characters(project: ProjectFiles) -> None:
    result = ran(project, python(f"import sys; sys.stdout.buffer.write(('x' + 'é' * {MIB}).encode())"))

    assert result.stdout == "x" + "é" * ((MIB - 1) // 2)


def test_output_that_is_no_text_is_readable(project: ProjectFiles) -> None:
    assert ran(project, python("import sys; sys.stdout.buffer.write(b'a\\xffb\\xc3')")).stdout == "a\ufffdb\ufffd"


def test_programs_run_side_by_side(project: ProjectFiles) -> None:
    """Each waits for the other, so that one after the other would never end."""
    meet = "import os, sys\nopen(sys.argv[1], 'w').write('x')\nopen(sys.argv[2]).read()"
    for name in ("a", "b"):
        os.mkfifo(project.root / name)
    second = meet.replace(
        "open(sys.argv[1], 'w').write('x')\nopen(sys.argv[2]).read()",
        "open(sys.argv[2]).read()\nopen(sys.argv[1], 'w').write('x')",
    )

    async def main() -> Sequence[ProjectCommandResult]:
        return await asyncio.gather(project.run(python(meet, "a", "b")), project.run(python(second, "b", "a")))

    assert [r.exit_code for r in asyncio.run(main())] == [0, 0]


@pytest.mark.parametrize("pidfd", [True, False])
def test_a_program_runs_on_the_loop_of_any_thread(project: ProjectFiles, monkeypatch: pytest.MonkeyPatch, pidfd: bool) -> None:
    results: list[ProjectCommandResult] = []
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    thread = threading.Thread(target=lambda: results.append(ran(project, python("print('x')"))))
    thread.start()
    thread.join()

    assert [r.stdout for r in results] == ["x\n"]


# -- that it does end ------------------------------------------------------------------------------

HOLD = """
import os, subprocess, sys
line = "import signal, sys; f = open('up', 'w'); f.write('up\\\\n'); f.flush(); signal.pause()"
child = subprocess.Popen([sys.executable, "-c", line])
child.wait()
"""
"""A program whose own child opens the pipe `up`, says so, and keeps it open as long as it lives."""


async def until_up(project: ProjectFiles) -> Any:
    """The read end of the pipe, once the program's child holds the other."""
    pipe = await asyncio.to_thread((project.root / "up").open)
    assert await asyncio.to_thread(pipe.readline) == "up\n"
    return pipe


@pytest.mark.case("blueprints:PJ-08")
def test_an_abort_during_a_command_kills_all_of_it_and_raises_its_reason(project: ProjectFiles) -> None:
    os.mkfifo(project.root / "up")
    stop, reason = AbortSignal(), OwnershipLost("the call is over")

    async def main() -> BaseException | None:
        running = asyncio.ensure_future(project.run(python(HOLD), stop))
        pipe = await until_up(project)
        stop.abort(reason)
        with pytest.raises(OwnershipLost) as caught:
            await running
        with pipe:
            assert await asyncio.to_thread(pipe.read) == ""  # it ends when the last holder is dead
        return caught.value

    assert asyncio.run(main()) is reason


def test_an_abort_on_another_thread_stops_a_command(project: ProjectFiles) -> None:
    os.mkfifo(project.root / "up")
    stop = AbortSignal()

    async def main() -> None:
        running = asyncio.ensure_future(project.run(python(HOLD), stop))
        (await until_up(project)).close()
        await asyncio.to_thread(stop.abort, OwnershipLost("over"))
        with pytest.raises(OwnershipLost):
            await running

    asyncio.run(main())


def test_a_signal_that_is_aborted_already_starts_nothing(project: ProjectFiles) -> None:
    stop = AbortSignal()
    stop.abort(OwnershipLost("over"))

    async def main() -> None:
        with pytest.raises(OwnershipLost):
            await project.run(python("open('trace', 'w')"), stop)

    asyncio.run(main())

    assert list(project.root.iterdir()) == []


def test_an_abort_after_the_end_changes_nothing(project: ProjectFiles) -> None:
    stop = AbortSignal()

    async def main() -> ProjectCommandResult:
        result = await project.run(python(""), stop)
        stop.abort(OwnershipLost("over"))
        return result

    assert asyncio.run(main()).exit_code == 0


def test_a_signal_is_a_signal(project: ProjectFiles) -> None:
    async def main() -> None:
        with pytest.raises(ProjectError, match="AbortSignal"):
            project.run(python(""), threading.Event())  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_command_dies_when_who_awaits_it_is_canceled(project: ProjectFiles) -> None:
    os.mkfifo(project.root / "up")

    async def main() -> str:
        running = asyncio.ensure_future(project.run(python(HOLD)))
        with await until_up(project) as pipe:
            running.cancel()
            return str(await asyncio.to_thread(pipe.read))

    assert asyncio.run(main()) == ""


def test_a_child_that_keeps_the_output_open_does_not_hold_up_the_call(
    project: ProjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_run, "_GRACE", 0.05)
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {FOR_EVER!r}]); print('over')"
    result = ran(project, python(code))

    assert (result.exit_code, result.stdout, result.timed_out) == (0, "over\n", False)


def test_a_child_that_left_the_group_does_not_hold_up_the_call(project: ProjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_run, "_GRACE", 0.05)
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {FOR_EVER!r}], start_new_session=True).pid)"
    result = ran(project, python(code))
    os.kill(int(result.stdout), signal.SIGKILL)

    assert result.exit_code == 0


def test_a_program_that_closes_its_output_is_still_waited_for(project: ProjectFiles) -> None:
    os.mkfifo(project.root / "go")
    code = "import os; os.close(1); os.close(2); open('go').read(); os._exit(3)"

    async def main() -> ProjectCommandResult:
        running = project.run(python(code))
        await asyncio.to_thread((project.root / "go").write_text, "go")
        return await running

    assert asyncio.run(main()).exit_code == 3


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_commands_leave_no_descriptor_and_no_thread_behind(project: ProjectFiles) -> None:
    async def main() -> tuple[int, int]:
        counts: list[int] = []
        for _ in range(2):
            await asyncio.gather(*(project.run(python(FOR_EVER, timeoutMs=30)) for _ in range(4)))
            for thread in threading.enumerate():
                if thread.name == "loom command":  # it has told its result, and is about to end
                    thread.join(20)
            counts.append(descriptors())
        return counts[0], counts[1]

    first, second = asyncio.run(main())

    assert first == second
    assert [t for t in threading.enumerate() if t.name == "loom command"] == []


def test_what_runs_when_the_process_exits_is_killed(project: ProjectFiles) -> None:
    os.mkfifo(project.root / "up")
    code = (
        "import asyncio, sys\n"
        "from loomnb.blueprints.project import ProjectFiles\n"
        "async def main():\n"
        f"    ProjectFiles('.').run({python(HOLD)!r})\n"
        "    await asyncio.to_thread(sys.stdin.read)\n"
        "asyncio.run(main())"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    with (
        subprocess.Popen(command, cwd=project.root, stdin=subprocess.PIPE, env=env) as outer,
        (project.root / "up").open() as pipe,
    ):
        assert pipe.readline() == "up\n"
        outer.communicate(timeout=60)
        assert pipe.read() == ""
