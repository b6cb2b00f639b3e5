"""Skills: instructions that an agent reads when it needs them. The prompt lists what there is; the tool `skill` gives the whole.

What a run is offered is settled once, in `skills:catalog`: the tool serves these and no others, and what it gave stands in the
journal. Rules: contracts/agents.md §1.14.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loomnb.agents.amounts import is_count
from loomnb.agents.spi import Actor, MaybeAwaitable, settled
from loomnb.agents.tool_errors import ToolInputInvalidError
from loomnb.errors import DefinitionError, NotFound, WorldFailed
from loomnb.runtime import ModelTool

__all__ = [
    "SKILL_TOOL",
    "FolderSkills",
    "InMemorySkills",
    "Scopes",
    "Skill",
    "SkillFileInvalid",
    "SkillProvider",
    "Skills",
    "own_scope",
    "scopes_of",
    "skill_definition",
    "skills_block",
    "skills_of",
]

SKILL_TOOL = "skill"
GLOBAL = "global"
_MOST = 20
_MOST_BYTES = 1_000_000
_FRONT = re.compile(r"---[ \t]*\n(?P<front>.*?)^---[ \t]*(?:\n|\Z)(?P<body>.*)", re.DOTALL | re.MULTILINE)

Scopes = Callable[[Actor], Sequence[str]]
"""For whom something is, most specific first."""


def scopes_of(actor: Actor) -> list[str]:
    """The scopes of somebody, most specific first: `actor:<id>`, `tenant:<ref>` if there is one, `global`."""
    tenant = [f"tenant:{actor.tenant_ref}"] if actor.tenant_ref else []
    return [own_scope(actor), *tenant, GLOBAL]


def own_scope(actor: Actor) -> str:
    """The scope that is somebody's alone."""
    return f"actor:{actor.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Instructions for one kind of task.

    Attributes:
        name: by which the agent asks for it.
        description: when to use it: all the agent knows of it before it reads it.
        body: what it reads then.
        scope: for whom it is: a word such as `actor:ann`, `tenant:acme` or `global`.
    """

    name: str
    description: str = ""
    body: str = ""
    scope: str = GLOBAL


class SkillProvider(Protocol):
    """Where skills are kept."""

    def list(self, scopes: Sequence[str]) -> MaybeAwaitable[Sequence[Skill]]:
        """Those of some scopes; their bodies may be left out. What is of another scope is dropped."""
        ...

    def load(self, name: str, scope: str) -> MaybeAwaitable[str | None]:
        """The body of one; None when it is not there any more."""
        ...


class SkillFileInvalid(WorldFailed):
    """A file with a skill does not say what it has to."""

    code = "SKILL_FILE_INVALID"


class InMemorySkills:
    """Skills that were made in code.

    Raises:
        DefinitionError: one has no name, or two of a scope have the same.
    """

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills: dict[tuple[str, str], Skill] = {}
        for skill in skills:
            if not skill.name.strip():
                raise DefinitionError("A skill needs a name.", advice='Write Skill(name="refunds", …).')
            if (skill.scope, skill.name) in self._skills:
                raise DefinitionError(f"Two skills of {skill.scope!r} are called {skill.name!r}.")
            self._skills[skill.scope, skill.name] = skill

    def list(self, scopes: Sequence[str]) -> Sequence[Skill]:
        """Those of some scopes."""
        return [skill for skill in self._skills.values() if skill.scope in scopes]

    def load(self, name: str, scope: str) -> str | None:
        """The body of one."""
        skill = self._skills.get((scope, name))
        return skill.body if skill is not None else None


class FolderSkills:
    """Skills in Markdown files: `<folder>/<name>.md` or `<folder>/<name>/SKILL.md`, each with a front matter.

    The front matter is YAML between two lines of `---`, with `description`, and `name` and `scope` where they differ from the
    file's name and from this folder's scope. Files are read anew for each run, so what was edited counts from the next turn on.

    Args:
        folder: where they are.
        scope: for whom those are that do not say.

    Raises:
        NotFound: there is no such folder.
    """

    def __init__(self, folder: str | os.PathLike[str], scope: str = GLOBAL) -> None:
        self.folder = Path(folder)
        self.scope = scope
        if not self.folder.is_dir():
            raise NotFound(f"There is no folder {os.fspath(folder)!r} with skills.")

    def list(self, scopes: Sequence[str]) -> Sequence[Skill]:
        """Those of some scopes, by file name.

        Raises:
            SkillFileInvalid: a file cannot be read, or says no description.
        """
        return [skill for skill in self._all() if skill.scope in scopes]

    def load(self, name: str, scope: str) -> str | None:
        """The body of one. As `list`."""
        return next((skill.body for skill in self._all() if (skill.name, skill.scope) == (name, scope)), None)

    def _all(self) -> Sequence[Skill]:
        files = {path: path.stem for path in self.folder.glob("*.md")}
        files |= {path: path.parent.name for path in self.folder.glob("*/SKILL.md")}
        return [self._read(path, files[path]) for path in sorted(files)]

    def _read(self, path: Path, name: str) -> Skill:
        import yaml  # noqa: PLC0415  # heavy for what most sessions never use

        try:
            if path.stat().st_size > _MOST_BYTES:
                raise _invalid(path, f"it has more than {_MOST_BYTES:,} bytes")
            found = _FRONT.match(path.read_text(encoding="utf-8"))
            said: Any = yaml.safe_load(found["front"]) if found is not None else None
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
            raise _invalid(path, str(exc)) from exc
        if found is None or not isinstance(said, dict):
            raise _invalid(path, "it does not begin with a front matter")
        fields = cast("dict[str, Any]", said)
        told = {field: fields.get(field) for field in ("name", "description", "scope")}
        wrong = [field for field, value in told.items() if value is not None and not isinstance(value, str)]
        if wrong or not str(told["description"] or "").strip():
            raise _invalid(path, f"its {wrong[0] if wrong else 'description'} is no text")
        about = " ".join(str(told["description"]).split())
        return Skill(name=told["name"] or name, description=about, body=found["body"].strip(), scope=told["scope"] or self.scope)


def _invalid(path: Path, why: str) -> SkillFileInvalid:
    return SkillFileInvalid(
        f"The skill {os.fspath(path)!r} cannot be read: {why}.",
        advice="Begin the file with:\n---\ndescription: when to use it\n---\nand then what is to be done.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Skills:
    """The skills of an agent.

    Attributes:
        provider: where they are kept.
        max_skills: how many are offered; of more, those for the widest scopes are left out.
        scopes: for whom: see `scopes_of`.
    """

    provider: SkillProvider
    max_skills: int = _MOST
    scopes: Scopes = scopes_of

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            DefinitionError: `max_skills` is no number from 1 up.
        """
        if not is_count(self.max_skills):
            raise DefinitionError(f"max_skills={self.max_skills!r} is no number of skills.", advice="Give at least 1.")

    async def catalog(self, actor: Actor) -> dict[str, Any]:
        """What somebody's agent is offered: `{"skills": [{"name", "description", "scope", "shadows"?}], "omitted", "scopes"}`.

        Of one name the most specific counts; `shadows` are the scopes of the others.
        """
        scopes = [*self.scopes(actor)]
        found = [skill for skill in await settled(self.provider.list(scopes)) if skill.scope in scopes]
        found.sort(key=lambda skill: scopes.index(skill.scope))
        offered: dict[str, dict[str, Any]] = {}
        for skill in found:
            first = offered.get(skill.name)
            if first is None:
                offered[skill.name] = {"name": skill.name, "description": skill.description, "scope": skill.scope}
            elif skill.scope != first["scope"]:
                first.setdefault("shadows", []).append(skill.scope)
        kept = [*offered.values()][: self.max_skills]
        return {"skills": kept, "omitted": len(offered) - len(kept), "scopes": scopes}

    async def serve(self, catalog: Any, given: Any) -> dict[str, Any]:
        """What the tool `skill` gives: `{"name", "scope", "body", "shadows"?}`.

        Raises:
            ToolInputInvalidError: the input is no name.
            NotFound: the run was not offered it, or it is gone.
        """
        name = _checked(_SkillInput, SKILL_TOOL, given).name
        told = {one["name"]: one for one in (catalog or {}).get("skills", ())}
        if name not in told:
            raise NotFound(f"There is no skill {name!r}.", advice=f"There are: {', '.join(told) or 'none'}.")
        skill = told[name]
        body = await settled(self.provider.load(name, skill["scope"]))
        if body is None:
            raise NotFound(f"The skill {name!r} is not there any more.", advice="Go on without it.")
        kept = {"name": name, "scope": skill["scope"], "body": body}
        return {**kept, "shadows": skill["shadows"]} if skill.get("shadows") else kept


class _SkillInput(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, description="Of one of the skills that are listed.")


def _checked(model: type[_SkillInput], tool: str, given: Any) -> _SkillInput:
    try:
        return model.model_validate(given)
    except ValidationError as exc:
        issues = [{"path": list(e["loc"]), "message": e["msg"]} for e in exc.errors(include_url=False, include_context=False)]
        raise ToolInputInvalidError(tool, issues) from exc


def skill_definition() -> ModelTool:
    """The tool `skill`, as the model is told of it."""
    return ModelTool(
        name=SKILL_TOOL,
        description="Read one of your skills: instructions for a kind of task. Read it before you begin such a task.",
        input_schema=_SkillInput.model_json_schema(),
    )


def skills_block(catalog: Any) -> str:
    """What the system prompt says of a catalog; nothing of an empty one."""
    skills = (catalog or {}).get("skills") or ()
    if not skills:
        return ""
    lines = "\n".join(f"- {one['name']}: {' '.join(one['description'].split())}" for one in skills)
    return f"# Your skills\n\nRead a skill with the tool `{SKILL_TOOL}` before you begin a task that it is for.\n\n{lines}"


def skills_of(thing: Any) -> Skills | None:
    """Skills of what may stand for them: a folder, a provider, several `Skill`, or `Skills`; None is none.

    Raises:
        DefinitionError: it is none of these.
        NotFound: there is no such folder.
    """
    if thing is None or isinstance(thing, Skills):
        return thing
    if isinstance(thing, (str, os.PathLike)):
        return Skills(provider=FolderSkills(cast("str | os.PathLike[str]", thing)))
    if callable(getattr(thing, "list", None)) and callable(getattr(thing, "load", None)):
        return Skills(provider=thing)
    if isinstance(thing, (list, tuple)) and all(isinstance(one, Skill) for one in cast("Sequence[Any]", thing)):
        return Skills(provider=InMemorySkills(cast("Sequence[Skill]", thing)))
    raise DefinitionError(
        f"A {type(thing).__name__} is no skills.", advice='Give a folder ("skills/"), a list of Skill, or a SkillProvider.'
    )


def told_resolved(run_id: str, catalog: Mapping[str, Any]) -> dict[str, Any]:
    """What those who watch are told of a catalog."""
    chars = len(skills_block(catalog))
    counts = {"offered": len(catalog["skills"]), "omitted": catalog["omitted"], "promptChars": chars}
    return {"runId": run_id, "scopes": catalog["scopes"], **counts}
