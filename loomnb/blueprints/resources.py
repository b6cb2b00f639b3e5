"""Agents and skills as Markdown: YAML frontmatter with a name and a description, and below it what they are told.

A skill is a folder. Its files belong to it, but no private ones: what a model reads must hold no secret.
Rules: contracts/blueprints.md §3.1, §3.2; decisions, Blueprints 6.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loomnb.blueprints.diagnostics import Findings, Place, short
from loomnb.blueprints.model import SkillSpec
from loomnb.blueprints.sources import Reader, parse_yaml, read_text

__all__ = ["FolderSkill", "Markdown", "folder_assets", "parse_markdown", "skill_file_problem"]

SKILL_FILE = "SKILL.md"
_IGNORED = (".git", "node_modules", "__pycache__", ".DS_Store")
_PUBLIC_ENV = (".env.example", ".env.encrypted")
_MARKDOWN = re.compile(r"---[ \t]*\n(?P<front>.*?)^---[ \t]*(?:\n|\Z)(?P<body>.*)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class FolderSkill(SkillSpec):
    """A skill that was read from files.

    Attributes:
        folder: where its `assets` are.
    """

    folder: Path


@dataclass(frozen=True, slots=True)
class Markdown:
    """What such a file says."""

    name: str
    description: str
    body: str
    name_at: Place


def parse_markdown(text: str, file: str, findings: Findings) -> Markdown | None:
    """What a file says; None, and a problem, when it is something else."""
    found = _MARKDOWN.match(text)
    reader = Reader(findings)
    if found is None:
        advice = "Begin the file with:\n---\nname: …\ndescription: …\n---".replace("\n", " ⏎ ")
        reader.wrong("there is no frontmatter", Place(file, 1, 1), advice)
        return None
    node = parse_yaml(found["front"], file, findings, first_line=2)
    fields = reader.fields(node, "", ("name", "description")) if node is not None else None
    if fields is None:
        return None
    name, description = reader.text(fields.get("name")), reader.text(fields.get("description"))
    if name is None or description is None:
        return None
    return Markdown(name, description, found["body"].strip(), fields["name"].at)


def skill_file_problem(skill: SkillSpec) -> str:
    """What is wrong with the files of a skill that has any: one SKILL.md is among them and says what the spec says.

    Read where the skill's `folder` says, if it says one; else below the working directory.
    """
    files = [a for a in skill.assets if PurePosixPath(a).name == SKILL_FILE]
    if len(files) != 1:
        return f"of its files {len(files) or 'none'} is called {SKILL_FILE}; exactly one has to be"
    findings = Findings()
    text = read_text(Path(getattr(skill, "folder", ".")), files[0], findings)
    told = parse_markdown(text, files[0], findings) if text is not None else None
    if told is None or findings.any:
        return f"its {files[0]} is no such file: {findings.in_order()[0].message}"
    for what, said, spec in (("name", told.name, skill.name), ("description", told.description, skill.description)):
        if said != spec:
            return f"its {files[0]} gives the {what} {short(said)}, the skill {short(spec)}"
    return ""


def folder_assets(root: Path, folder: str, at: Place, findings: Findings) -> tuple[str, ...]:
    """The files of a skill's folder, relative to it and sorted; private files and links are told at the reference to it."""
    base = root / folder
    if base.is_symlink():
        findings.tell("INVALID_REFERENCE", f"{folder} is a link", at, "Copy what it links to.")
        return ()
    return tuple(sorted(_walk(base, base, f"{folder}/", at, findings)))


def _walk(base: Path, within: Path, shown: str, at: Place, findings: Findings) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(within), key=lambda e: e.name)
    except OSError as exc:
        findings.tell("SOURCE_READ_FAILED", f"{shown}{within.relative_to(base)} cannot be read: {exc.strerror}", at)
        return
    for entry in entries:
        path = Path(entry.path).relative_to(base).as_posix()
        if entry.name in _IGNORED:
            continue
        if entry.is_symlink():
            findings.tell("INVALID_REFERENCE", f"{short(shown + path)} is a link", at, "Copy what it links to.")
        elif _is_private(entry.name):
            advice = f"Keep it elsewhere; a skill may hold {' and '.join(_PUBLIC_ENV)}."
            findings.tell("INVALID_REFERENCE", f"{short(shown + path)} may hold secrets, and a model reads a skill", at, advice)
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(base, Path(entry.path), shown, at, findings)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _is_private(name: str) -> bool:
    return name.startswith((".env", ".dev.vars")) and name not in _PUBLIC_ENV
