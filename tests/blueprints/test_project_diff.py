"""What changed in a project, as data, as a patch, and as what a notebook shows."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from loomnb.blueprints import project, project_diff
from loomnb.blueprints.project import ProjectFiles
from loomnb.blueprints.project_diff import Capture, ProjectDiff
from tests.present.hostile import HOSTILE, executable

MIB = 2**20


def captured(root: Path) -> Capture:
    async def main() -> Capture:
        return await ProjectFiles(root).capture()

    return asyncio.run(main())


def fill(root: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def diff_of(root: Path, before: Mapping[str, str | bytes], after: Mapping[str, str | bytes]) -> ProjectDiff:
    """What is told of a project that held one thing and holds another."""
    fill(root, before)
    first = captured(root)
    for path in before.keys() - after.keys():
        (root / path).unlink()
    fill(root, after)
    return ProjectDiff.between(first, captured(root))


# -- as data ---------------------------------------------------------------------------------------


def test_a_capture_has_the_hashes_of_a_snapshot(tmp_path: Path) -> None:
    fill(tmp_path, {"b/c": "x", "b.txt": b"\xff", "a": ""})

    async def main() -> tuple[Mapping[str, str], Capture]:
        files = ProjectFiles(tmp_path)
        return await files.snapshot(), await files.capture()

    snapshot, capture = asyncio.run(main())

    assert list(capture.hashes.items()) == list(snapshot.items())


def test_a_capture_keeps_texts_of_at_most_1_mib(tmp_path: Path) -> None:
    fill(tmp_path, {"text": "é", "exact": "x" * MIB, "more": "x" * (MIB + 1), "binary": b"\xff"})

    assert captured(tmp_path).texts == {"text": "é", "exact": "x" * MIB}


def test_a_capture_keeps_no_more_text_than_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "BUDGET", 5)
    fill(tmp_path, {"a": "123", "b": "456", "c": "78"})
    capture = captured(tmp_path)

    assert (dict(capture.texts), capture.beyond) == ({"a": "123", "c": "78"}, {"b"})


def test_a_diff_tells_added_removed_and_changed_files(tmp_path: Path) -> None:
    diff = diff_of(tmp_path, {"same": "x", "gone": "x", "other": "x"}, {"same": "x", "new": "x", "other": "y"})

    assert (diff.added, diff.removed, diff.changed) == (("new",), ("gone",), ("other",))


def test_nothing_changed_is_false_and_says_so(tmp_path: Path) -> None:
    diff = diff_of(tmp_path, {"a": "x"}, {"a": "x"})

    assert (bool(diff), repr(diff)) == (False, "Project files: nothing changed")


def test_the_diff_of_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    diff = diff_of(tmp_path, {"a": "1\n2\n"}, {"a": "1\n3\n"})

    assert diff["a"].diff == diff.diffs["a"] == "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"


@pytest.mark.parametrize("content", [b"\xff", b"x" * (MIB + 1)])
def test_a_file_that_is_no_text_is_told_without_lines(tmp_path: Path, content: bytes) -> None:
    diff = diff_of(tmp_path, {"a": "text"}, {"a": content})

    assert (dict(diff.diffs), "no text of at most 1 MiB" in repr(diff)) == ({}, True)


def test_a_file_beyond_the_budget_says_that_its_lines_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "BUDGET", 1)

    assert "more text than a capture keeps" in repr(diff_of(tmp_path, {"a": "12"}, {"a": "34"}))


# -- as a patch ------------------------------------------------------------------------------------

TEXTS = {
    "no end of line": ("a\nb", "a\nc"),
    "an end of line more": ("a\nb", "a\nb\n"),
    "an end of line less": ("a\nb\n", "a\nb"),
    "ends of Windows": ("a\r\nb\r\n", "a\r\nc\r\n"),
    "breaks that are none": ("a\x0cb\u2028c\x85d\n", "a\x0cb\u2028c\x85e\n"),
    "two places": ("".join(f"{i}\n" for i in range(60)), "".join(f"{i}\n" for i in range(1, 60) if i != 40)),
    "lines like heads": ("--- a\n+++ b\n@@ -1 +1 @@\n", "--- b\n+++ a\n@@ -2 +2 @@\n"),
    "emptied": ("a\nb\n", ""),
    "filled": ("", "a\nb\n"),
    "all else": ("a\nb\nc\n", "1\n2\n3\n4"),
    "one more at the start": ("b\nc\nd\ne\nf\n", "a\nb\nc\nd\ne\nf\n"),
    "one more at the end": ("b\nc\nd\ne\nf\n", "b\nc\nd\ne\nf\na\n"),
}
NAMES = ["a b.txt", 'q"uote', "tab\tbed", "new\nline", "ümläut", "-dash", "deep/er/file"]


def applied(root: Path, patch: str) -> None:
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, input=patch.encode(), cwd=root, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("is_quick", [True, False], ids=["line by line", "as a whole"])
@pytest.mark.parametrize("case", TEXTS)
def test_the_patch_makes_the_new_text_from_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, is_quick: bool
) -> None:
    before, after = TEXTS[case]
    monkeypatch.setattr(project_diff, "_is_quick", lambda *_: is_quick)
    patch = diff_of(tmp_path, {"a": before}, {"a": after}).patch
    fill(tmp_path, {"a": before})
    applied(tmp_path, patch)

    assert (tmp_path / "a").read_bytes() == after.encode()


@pytest.mark.parametrize("name", NAMES)
def test_the_patch_names_files_as_git_reads_them(tmp_path: Path, name: str) -> None:
    patch = diff_of(tmp_path, {name: "a\n"}, {name: "b\n"}).patch
    fill(tmp_path, {name: "a\n"})
    applied(tmp_path, patch)

    assert (tmp_path / name).read_text() == "b\n"


def test_the_patch_adds_and_removes_files(tmp_path: Path) -> None:
    patch = diff_of(tmp_path, {"gone": "x\n"}, {"dir/new": "y"}).patch
    (tmp_path / "dir" / "new").unlink()
    fill(tmp_path, {"gone": "x\n"})
    applied(tmp_path, patch)

    assert {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()} == {"dir/new": "y"}


def test_texts_that_difflib_would_compare_for_ever_are_replaced_as_a_whole(tmp_path: Path) -> None:
    before, after = ("".join(f"{(i * step) % 7}\n" for i in range(250_000)) for step in (2, 3))
    change = diff_of(tmp_path, {"a": before}, {"a": after})["a"]

    assert change.diff.count("\n@@ ") == 1


# -- as what is shown ------------------------------------------------------------------------------


def test_each_form_has_the_lines_with_their_signs(tmp_path: Path) -> None:
    shown = diff_of(tmp_path, {"a.txt": "old\n"}, {"a.txt": "new\n"})._repr_mimebundle_()

    assert shown["text/plain"].splitlines()[-2:] == ["    -old", "    +new"]
    assert "```diff\n@@ -1 +1 @@\n-old\n+new\n```" in shown["text/markdown"]
    assert ">-old</del>\n<ins" in shown["text/html"]


def test_the_heading_says_in_words_what_colours_and_signs_say(tmp_path: Path) -> None:
    diff = diff_of(tmp_path, {"a": "1\n"}, {"a": "2\n3\n"})

    assert "<summary" in diff.html
    assert ">a: changed, 2 lines added and 1 line removed</summary>" in diff.html


def test_the_page_keeps_its_text_colour_on_either_theme(tmp_path: Path) -> None:
    html = diff_of(tmp_path, {"a": "1\n"}, {"a": "2\n"}).html

    assert html.count("color:inherit;background:color-mix(in srgb,var(--jp-") == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_no_content_runs(tmp_path: Path, text: str) -> None:
    diff = diff_of(tmp_path, {"a": "x"}, {"a": text})

    assert executable(diff.html) == []


@pytest.mark.parametrize("text", [t.replace("/", "∕").replace("\\", "∖") for t in HOSTILE])
def test_no_name_runs(tmp_path: Path, text: str) -> None:
    diff = diff_of(tmp_path, {}, {text: "x", f"b{text}": b"\xff"})

    assert executable(diff.html) == []


def test_a_fence_in_a_text_does_not_end_the_markdown_one(tmp_path: Path) -> None:
    markdown = diff_of(tmp_path, {}, {"a.md": "````\n# x\n````\n"}).markdown

    assert "\n`````diff\n" in markdown
    assert markdown.endswith("\n`````")


@pytest.mark.parametrize("char", ["\x1b", "\u202e", "\x07"])
def test_what_steers_a_terminal_or_turns_a_line_is_not_shown(tmp_path: Path, char: str) -> None:
    shown = diff_of(tmp_path, {}, {f"a{char}b": f"c{char}d"})._repr_mimebundle_()

    assert [name for name, text in shown.items() if char in text] == []


def test_a_long_diff_is_cut_and_says_so(tmp_path: Path) -> None:
    text = repr(diff_of(tmp_path, {}, {"a": "x\n" * 1_000}))

    assert "801 more lines; .diffs has them all" in text


def test_a_long_line_is_cut_and_says_so(tmp_path: Path) -> None:
    assert "(8,001 more characters)" in repr(diff_of(tmp_path, {}, {"a": "x" * 10_000}))


def test_many_files_are_listed_by_name_and_then_counted(tmp_path: Path) -> None:
    diff = diff_of(tmp_path, {}, {f"{i:03}": "x" for i in range(300)})

    assert [("+ 219" in t, "80 more files" in t) for t in (repr(diff),)] == [(True, True)]
    assert diff.html.count("<li>") == 200


def test_what_is_shown_is_the_same_every_time(tmp_path: Path) -> None:
    forms = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        forms.append(diff_of(tmp_path / name, {"b": "x", "a": "y"}, {"c": "z", "a": "yy"})._repr_mimebundle_())

    assert forms[0] == forms[1]
