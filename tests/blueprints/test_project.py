"""A project's files: which paths there are, what a read, a write and a snapshot do, and that no link ever leads out."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import os
import shutil
import socket
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from loomnb.blueprints import project_disk, project_paths
from loomnb.blueprints.project import ProjectError, ProjectFiles
from loomnb.errors import InvalidRequest, is_loom_error

T = TypeVar("T")

MIB = 2**20


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Make a call where a loop runs, and wait for what it gives."""

    async def main() -> T:
        return await work()

    return asyncio.run(main())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root that has a neighbour with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("outside")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def project(root: Path) -> ProjectFiles:
    return ProjectFiles(root)


@pytest.fixture(params=["within opened folders", "by checked paths"])
def either(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFiles:
    """The project, also as on a platform that cannot open a file within an opened folder."""
    monkeypatch.setattr(project_paths, "HAS_DIR_FD", request.param == "within opened folders")
    return ProjectFiles(root)


def refused(work: Callable[[], Awaitable[Any]]) -> str:
    with pytest.raises(ProjectError) as caught:
        run(work)
    return str(caught.value)


# -- the root --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["missing", "file", "circle", "nul\0"])
def test_a_root_is_an_existing_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    with pytest.raises(InvalidRequest):
        ProjectFiles(tmp_path / name)


def test_a_root_may_be_given_by_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    assert ProjectFiles(tmp_path / "link").root == root.resolve()


def test_a_root_that_became_a_link_is_refused(either: ProjectFiles, root: Path) -> None:
    root.rename(root.with_name("moved"))
    root.symlink_to(root.with_name("outside"))

    assert "Open the project anew" in refused(lambda: either.read("secret.txt"))


def test_an_error_has_no_code(project: ProjectFiles) -> None:
    with pytest.raises(ProjectError) as caught:
        run(lambda: project.read("missing"))

    assert not is_loom_error(caught.value)


# -- names -----------------------------------------------------------------------------------------

NOT_BELOW = [
    "",
    ".",
    "./",
    "..",
    "../x",
    "a/../b",
    "a/..",
    "a\\..\\b",
    "..\\x",
    "/etc/passwd",
    "\\x",
    "\\\\host\\x",
    "C:\\x",
    "c:/x",
    "c:",
]
EXCLUDED = [".git", ".intloom", "intloom", "node_modules", "dist", "coverage", ".turbo", "intloom.yaml", "intloom.config.yaml"]
EXCLUDED += [".env", ".env.local", ".envrc", ".environment", ".dev.vars", ".dev.vars.local", ".dev.varsity"]
FINE = [
    "env",
    "x.env",
    "a.env.b",
    "distribution",
    "git",
    ".github",
    ".gitignore",
    "Dist",
    "intloom.yml",
    "dev.vars",
    "..x",
    "x..",
    "...",
]


@pytest.mark.case("blueprints:DX-14")
@pytest.mark.parametrize("path", [*NOT_BELOW, "a\0b", "\ud800"])
def test_a_path_that_is_not_below_the_root_is_refused_at_the_call(project: ProjectFiles, path: str) -> None:
    async def calls() -> None:
        for call in (project.read, project.remove, lambda p: project.write(p, "x")):
            with pytest.raises(ProjectError):
                call(path)

    asyncio.run(calls())


@pytest.mark.parametrize("name", EXCLUDED)
@pytest.mark.parametrize("path", ["{}", "a/{}", "{}/a", "a\\{}\\b", "./{}"])
def test_an_excluded_name_is_refused_at_every_depth(project: ProjectFiles, name: str, path: str) -> None:
    assert "private or generated" in refused(lambda: project.write(path.format(name), "x"))


@pytest.mark.parametrize("name", FINE)
def test_a_name_that_only_looks_excluded_is_fine(project: ProjectFiles, name: str) -> None:
    run(lambda: project.write(f"a/{name}", "x"))

    assert list(run(project.snapshot)) == [f"a/{name}"]


@pytest.mark.parametrize("path", ["./x/y", "x//y", "x/./y", "x\\y", "x/y/"])
def test_a_path_may_be_spelled_in_several_ways(either: ProjectFiles, path: str) -> None:
    run(lambda: either.write(path, "text"))

    assert run(lambda: either.read("x/y")) == "text"


@pytest.mark.parametrize("path", [None, 3, b"x", Path("x")])
def test_a_path_is_a_text(project: ProjectFiles, path: Any) -> None:
    assert "Give a text" in refused(lambda: project.read(path))


def test_what_the_host_calls_private_is_not_there(root: Path) -> None:
    for name in ("loom.duckdb", "keys/a", "b"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    project = ProjectFiles(root, private=[root / "loom.duckdb", root / "keys", "/elsewhere"])

    assert list(run(project.snapshot)) == ["b"]
    assert "private" in refused(lambda: project.read("loom.duckdb"))
    assert "private" in refused(lambda: project.write("keys/new", "x"))


# -- reading and writing ---------------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-14")
def test_a_text_of_exactly_1_mib_is_written_and_read(either: ProjectFiles) -> None:
    text = "é" * (MIB // 2)
    run(lambda: either.write("a", text))

    assert run(lambda: either.read("a")) == text


@pytest.mark.case("blueprints:DX-14")
def test_one_byte_more_than_1_mib_is_not_written(project: ProjectFiles, root: Path) -> None:
    assert "1,048,577 bytes" in refused(lambda: project.write("a", "é" * (MIB // 2) + "x"))
    assert list(root.iterdir()) == []


@pytest.mark.case("blueprints:DX-14")
def test_one_byte_more_than_1_mib_is_not_read(project: ProjectFiles, root: Path) -> None:
    (root / "a").write_bytes(b"x" * (MIB + 1))

    assert "more than 1 MiB" in refused(lambda: project.read("a"))


@pytest.mark.parametrize("text", ["", "a\r\nb\n", "\ufeffx", "a\0b", "\U0001f600"])
def test_a_text_comes_back_as_it_was_written(either: ProjectFiles, text: str) -> None:
    run(lambda: either.write("a", text))

    assert run(lambda: either.read("a")) == text


def test_a_file_that_is_no_text_is_not_read(project: ProjectFiles, root: Path) -> None:
    (root / "a").write_bytes(b"ab\xff")

    assert "byte 2" in refused(lambda: project.read("a"))


@pytest.mark.parametrize("content", [None, b"x", "\ud800"])
def test_content_is_a_text(project: ProjectFiles, content: Any) -> None:
    assert "content" in refused(lambda: project.write("a", content))


def test_writes_of_one_file_land_in_the_order_of_their_calls(project: ProjectFiles) -> None:
    async def main() -> str:
        for i in range(50):
            project.write("a", str(i))
        return await project.read("a")

    assert asyncio.run(main()) == "49"


def test_a_write_that_nobody_awaits_is_done(project: ProjectFiles, root: Path) -> None:
    async def main() -> None:
        project.write("a", "x")
        await project.snapshot()

    asyncio.run(main())

    assert (root / "a").read_text() == "x"


def test_a_failure_that_nobody_awaits_is_silent(project: ProjectFiles) -> None:
    said: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        project.read("missing")
        await project.snapshot()
        gc.collect()

    asyncio.run(main())

    assert said == []


def test_a_call_without_a_loop_says_where_it_belongs(project: ProjectFiles) -> None:
    with pytest.raises(ProjectError, match="await it"):
        project.read("a")


def test_a_rewritten_file_keeps_its_permissions(project: ProjectFiles, root: Path) -> None:
    (root / "tool").write_text("old")
    (root / "tool").chmod(0o750)
    run(lambda: project.write("tool", "new"))

    assert stat.S_IMODE((root / "tool").stat().st_mode) == 0o750


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_file_is_not_rewritten(project: ProjectFiles, root: Path) -> None:
    (root / "a").write_text("old")
    (root / "a").chmod(0o444)

    assert "cannot be written" in refused(lambda: project.write("a", "new"))
    assert (root / "a").read_text() == "old"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    project: ProjectFiles, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    (root / "a").write_text("old")
    monkeypatch.setattr(os, call, full)

    assert "No space left" in refused(lambda: project.write("a", "new"))
    assert [(p.name, p.read_text()) for p in root.iterdir()] == [("a", "old")]


def test_what_a_killed_write_left_behind_is_in_no_snapshot(project: ProjectFiles, root: Path) -> None:
    (root / f"{project_paths.TEMPORARY}0123").write_text("half")

    assert run(project.snapshot) == {}


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "socket", "below a file"])
def test_only_a_file_is_read_rewritten_and_removed(either: ProjectFiles, root: Path, kind: str, monkeypatch: Any) -> None:
    monkeypatch.chdir(root)  # the path of a socket is short
    path = "f/x" if kind == "below a file" else "x"
    (root / "f").write_text("")
    with contextlib.ExitStack() as stack:
        match kind:
            case "folder":
                (root / "x").mkdir()
            case "pipe":
                os.mkfifo(root / "x")
            case "socket":
                stack.enter_context(socket.socket(socket.AF_UNIX)).bind("x")
            case _:
                pass
        refused(lambda: either.read(path))
        refused(lambda: either.remove(path))
        if kind != "missing":
            refused(lambda: either.write(path, "x"))


def test_a_removed_file_is_gone(either: ProjectFiles, root: Path) -> None:
    (root / "a").write_text("")
    run(lambda: either.remove("a"))

    assert list(root.iterdir()) == []


# -- snapshots -------------------------------------------------------------------------------------


def test_a_snapshot_has_the_digest_of_each_file_by_path(either: ProjectFiles, root: Path) -> None:
    (root / "b").mkdir()
    for name in ("b/z", "b.txt", "a"):
        (root / name).write_bytes(name.encode() * 3)

    expected = {name: hashlib.sha256(name.encode() * 3).hexdigest() for name in ("a", "b.txt", "b/z")}
    assert list(run(either.snapshot).items()) == list(expected.items())


@pytest.mark.case("blueprints:PJ-02")
def test_a_snapshot_does_not_list_a_private_file(project: ProjectFiles, root: Path) -> None:
    (root / ".env").write_text("KEY=1")
    (root / "business.txt").write_text("x")

    assert list(run(project.snapshot)) == ["business.txt"]


@pytest.mark.parametrize("name", EXCLUDED)
def test_a_snapshot_skips_excluded_names_whatever_they_are(either: ProjectFiles, root: Path, name: str) -> None:
    for folder in ("a", "b", "c"):
        (root / folder).mkdir()
    (root / "a" / name).write_text("x")
    (root / "b" / name).mkdir()
    (root / "b" / name / "x").write_text("x")
    (root / "c" / name).symlink_to(root.with_name("outside"))

    assert run(either.snapshot) == {}


@pytest.mark.parametrize("target", ["a", "../outside", "missing"])
def test_a_snapshot_of_a_project_with_a_link_is_refused(either: ProjectFiles, root: Path, target: str) -> None:
    (root / "a").mkdir()
    (root / "a" / "deep").symlink_to(target)

    assert "'a/deep' is a link" in refused(either.snapshot)


def test_a_snapshot_passes_over_pipes_and_sockets(project: ProjectFiles, root: Path) -> None:
    os.mkfifo(root / "pipe")

    assert run(project.snapshot) == {}


@pytest.mark.parametrize("name", [b"caf\xe9", b"a\\b"])
def test_a_snapshot_refuses_a_name_that_no_path_can_have(project: ProjectFiles, root: Path, name: bytes) -> None:
    (root / os.fsdecode(name)).write_text("x")

    assert "Rename it" in refused(project.snapshot)


@pytest.mark.case("blueprints:DX-14")
def test_a_snapshot_takes_a_file_of_16_mib(project: ProjectFiles, root: Path) -> None:
    (root / "a").touch()
    os.truncate(root / "a", 16 * MIB)

    assert run(project.snapshot) == {"a": hashlib.sha256(bytes(16 * MIB)).hexdigest()}


@pytest.mark.case("blueprints:DX-14")
def test_a_snapshot_refuses_a_file_of_one_byte_more(project: ProjectFiles, root: Path) -> None:
    (root / "a").touch()
    os.truncate(root / "a", 16 * MIB + 1)

    assert "more than 16 MiB" in refused(project.snapshot)


@pytest.mark.case("blueprints:DX-14")
def test_a_snapshot_takes_10000_files_and_refuses_one_more(project: ProjectFiles, root: Path) -> None:
    for i in range(100):
        (root / str(i)).mkdir()
        for j in range(100):
            (root / str(i) / str(j)).touch()
    assert len(run(project.snapshot)) == 10_000

    (root / "one more").touch()
    assert "more than 10,000 files" in refused(project.snapshot)


def test_a_snapshot_refuses_what_is_too_deep(project: ProjectFiles, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_disk, "_DEPTH", 3)
    (root / "1" / "2" / "3").mkdir(parents=True)
    assert run(project.snapshot) == {}

    (root / "1" / "2" / "3" / "4").mkdir()
    assert "3 folders deep" in refused(project.snapshot)


def test_a_refused_snapshot_leaves_no_folder_open(either: ProjectFiles, root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "link").symlink_to("x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    refused(either.snapshot)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


# -- links, also those that come in a bad moment ---------------------------------------------------


@pytest.mark.case("blueprints:PJ-04")
def test_a_linked_folder_is_neither_read_through_nor_in_a_snapshot(either: ProjectFiles, root: Path) -> None:
    (root / "linked").symlink_to(root.with_name("outside"))

    assert "'linked' is a link" in refused(lambda: either.read("linked/secret.txt"))
    assert "'linked' is a link" in refused(either.snapshot)


@pytest.mark.parametrize("path", ["link", "linked/secret.txt", "linked/new", "linked/new/er", "a/linked/secret.txt"])
def test_a_link_anywhere_in_a_path_is_refused(either: ProjectFiles, root: Path, path: str) -> None:
    outside = root.with_name("outside")
    (root / "a").mkdir()
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "linked").symlink_to(outside)
    (root / "a" / "linked").symlink_to(outside)

    for work in (lambda: either.read(path), lambda: either.write(path, "x"), lambda: either.remove(path)):
        assert "is a link" in refused(work)
    assert [(p.name, p.read_text()) for p in outside.iterdir()] == [("secret.txt", "outside")]


def test_a_link_to_a_place_in_the_project_is_refused_too(either: ProjectFiles, root: Path) -> None:
    (root / "a").write_text("x")
    (root / "b").symlink_to("a")

    assert "is a link" in refused(lambda: either.read("b"))


@pytest.fixture
def swapped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder `a` is swapped for a link to the neighbour at the worst moment: when it was found to be a folder."""
    enter = project_paths.Folder.enter

    def swap(self: project_paths.Folder, name: str) -> project_paths.Folder:
        folder = enter(self, name)
        (root / "a").rename(root / "moved")
        (root / "a").symlink_to(root.with_name("outside"))
        return folder

    (root / "a").mkdir()
    (root / "a" / "secret.txt").write_text("inside")
    monkeypatch.setattr(project_paths.Folder, "enter", swap)


@pytest.mark.usefixtures("swapped")
def test_a_folder_swapped_after_the_check_is_not_read_through(project: ProjectFiles) -> None:
    assert run(lambda: project.read("a/secret.txt")) == "inside"


@pytest.mark.usefixtures("swapped")
def test_a_folder_swapped_after_the_check_is_not_in_a_capture(project: ProjectFiles) -> None:
    assert set(run(project.capture).texts.values()) == {"inside"}


@pytest.mark.usefixtures("swapped")
def test_a_folder_swapped_after_the_check_is_not_written_through(project: ProjectFiles, root: Path) -> None:
    run(lambda: project.write("a/secret.txt", "new"))

    assert [(root / place / "secret.txt").read_text() for place in ("../outside", "moved")] == ["outside", "new"]


@pytest.mark.usefixtures("swapped")
def test_a_folder_swapped_after_the_check_loses_no_file_outside(project: ProjectFiles, root: Path) -> None:
    run(lambda: project.remove("a/secret.txt"))

    assert [(root / place / "secret.txt").exists() for place in ("../outside", "moved")] == [True, False]


@pytest.mark.usefixtures("swapped")
def test_a_folder_swapped_after_the_check_is_where_a_program_runs(project: ProjectFiles) -> None:
    result = run(lambda: project.run({"command": "cat", "args": ["secret.txt"], "cwd": "a"}))

    assert result.stdout == "inside"


def test_a_file_swapped_for_a_link_after_the_check_is_replaced_and_not_followed(
    project: ProjectFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = project_disk._mode_to_keep

    def swap(*args: Any) -> int | None:
        mode = check(*args)
        (root / "a").symlink_to(root.with_name("outside") / "secret.txt")
        return mode

    monkeypatch.setattr(project_disk, "_mode_to_keep", swap)
    run(lambda: project.write("a", "inside"))

    assert (root.with_name("outside") / "secret.txt").read_text() == "outside"
    assert not (root / "a").is_symlink()


@pytest.fixture
def swapping(root: Path) -> Iterator[None]:
    """A thread that puts a link to the neighbour in the place of the folder `a`, and back, again and again."""
    (root / "a").mkdir()
    (root / "a" / "secret.txt").write_text("inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():  # a write may make the folder anew at any point, so that each of these may fail
            with contextlib.suppress(OSError):
                (root / "a").rename(root / "moved")
            with contextlib.suppress(OSError):
                (root / "a").symlink_to(root.with_name("outside"))
                (root / "a").unlink()
            with contextlib.suppress(OSError):
                (root / "moved").rename(root / "a")
            shutil.rmtree(root / "moved", ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("swapping")
def test_no_byte_from_outside_is_read_while_a_folder_is_swapped_for_a_link(project: ProjectFiles) -> None:
    async def main() -> set[str]:
        seen: set[str] = set()
        for _ in range(500):
            with contextlib.suppress(ProjectError):
                seen.add(await project.read("a/secret.txt"))
            with contextlib.suppress(ProjectError):
                seen |= set((await project.capture()).texts.values())
        return seen

    assert asyncio.run(main()) <= {"inside"}


@pytest.mark.usefixtures("swapping")
def test_no_byte_is_written_outside_while_a_folder_is_swapped_for_a_link(project: ProjectFiles, root: Path) -> None:
    async def main() -> None:
        for _ in range(500):
            with contextlib.suppress(ProjectError):
                await project.write("a/secret.txt", "inside")
            with contextlib.suppress(ProjectError):
                await project.write("a/new/new.txt", "inside")
            with contextlib.suppress(ProjectError):
                await project.remove("a/secret.txt")

    asyncio.run(main())

    assert [(p.name, p.read_text()) for p in root.with_name("outside").iterdir()] == [("secret.txt", "outside")]
