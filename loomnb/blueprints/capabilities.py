"""What a step's code, or an agent's tools, are given: bound to one execution, and over with it.

Everything that takes time is a numbered call of that execution (`runtime.live`): an effect is stored in the commit that makes
it, a read with the next effect, so that a step that is made again sees what it saw. Rules: contracts/blueprints.md §1.5–1.12.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn, TypeVar

from loomnb.asks import Answers, Confirmation, check_confirmation, check_questions
from loomnb.blueprints.access import AbortSignal, ProjectCommand, ProjectCommandResult
from loomnb.blueprints.captures import files_of
from loomnb.blueprints.project import ProjectFiles
from loomnb.blueprints.project_paths import ProjectError
from loomnb.blueprints.project_run import checked_command
from loomnb.blueprints.state import State, StateSchema
from loomnb.blueprints.step_storage import ReadStorage, StepStorage
from loomnb.errors import ArgsInvalid, LoomError, NotJson, ReadOnly, StepError
from loomnb.jsonvalue import FrozenDict, freeze
from loomnb.present import markdown_line
from loomnb.runtime import AskContent, LiveCall, RunContext

__all__ = ["AgentAccess", "CodeAccess", "Interaction", "Project", "agent_access", "code_access"]

T = TypeVar("T")


class _Frozen:
    """Its members are set once."""

    __slots__ = ()

    def give(self, **members: Any) -> None:
        """Set members: for who makes it."""
        for name, value in members.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        hint = ""
        if name == "project":
            hint = ': the run has none. Start it with one: loom.flow(…, project="folder")'
        elif name in ("interaction", "commit"):
            hint = ": an agent step can neither ask nor commit"
        raise AttributeError(f"access has no {name!r}{hint}.", name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ReadOnly(f"access.{name} cannot be set.", advice="Keep what you need in a variable of your own.")

    def __delattr__(self, name: str) -> NoReturn:
        raise ReadOnly(f"access.{name} cannot be deleted.")


class AgentAccess(_Frozen):
    """What the tools of an agent step are given. It has a `project` only where the run has one."""

    __slots__ = ("project", "signal", "state", "storage")

    state: State
    storage: ReadStorage
    signal: AbortSignal
    project: Project


class CodeAccess(_Frozen):
    """What a step's code is given. It has a `project` only where the run has one."""

    __slots__ = ("interaction", "project", "signal", "state", "storage")

    state: State
    storage: StepStorage
    interaction: Interaction
    signal: AbortSignal
    project: Project


def code_access(live: LiveCall, schema: StateSchema, at_start: FrozenDict, context: RunContext[Any]) -> CodeAccess:
    """The access of one execution of a step's code."""
    access = CodeAccess()
    signal = _signal(live)
    access.give(state=State(live, schema, at_start), storage=StepStorage(live), interaction=Interaction(live), signal=signal)
    _give_project(access, live, context, signal)
    return access


def agent_access(live: LiveCall, schema: StateSchema, at_start: FrozenDict, context: RunContext[Any]) -> AgentAccess:
    """The access of one execution of an agent step: it can neither commit nor ask."""
    access = AgentAccess()
    signal = _signal(live)
    access.give(state=State(live, schema, at_start), storage=ReadStorage(live), signal=signal)
    _give_project(access, live, context, signal)
    return access


def _signal(live: LiveCall) -> AbortSignal:
    signal = AbortSignal()
    live.at_end(signal.abort)
    return signal


def _give_project(access: _Frozen, live: LiveCall, context: RunContext[Any], signal: AbortSignal) -> None:
    root = (context.config or {}).get("project")
    if root is not None:
        access.give(project=Project(live, files_of(root, live.engine.database), signal))


class Interaction:
    """Asks a person in the middle of a step."""

    __slots__ = ("_live",)

    def __init__(self, live: LiveCall) -> None:
        self._live = live

    def ask_questions(self, questions: Sequence[Any]) -> Awaitable[Answers]:
        """Ask questions; the answers as submitted.

        Raises:
            OwnershipLost: the call is over.
            StepError: they are no questions, or a question of this step is open (STEP_INTERACTION_INVALID); the run fails.
        """
        self._live.check()
        self._live.needs_loop("access.interaction.ask_questions(…)")
        asked = self._judged(lambda: check_questions(questions))
        first = next(iter(asked))
        more = f" (and {len(asked) - 1} more)" if len(asked) > 1 else ""
        content = AskContent(kind="questions", label=first.question + more, questions=asked)
        request = [q.dump() for q in asked]
        return self._live.ask("interaction.ask_questions", content, "user_ask_questions", request, Answers)

    def confirm(self, context: str) -> Awaitable[Confirmation]:
        """Ask for a confirmation; the verdict.

        Raises:
            OwnershipLost: the call is over.
            StepError: it is no text, or a question of this step is open (STEP_INTERACTION_INVALID); the run fails.
        """
        self._live.check()
        self._live.needs_loop("access.interaction.confirm(…)")
        text = self._judged(lambda: check_confirmation(context))
        content = AskContent(kind="confirm", label=f"Please confirm: {markdown_line(text)}", context=text)
        return self._live.ask(
            "interaction.confirm", content, "user_ask_confirmation", {"context": text}, Confirmation.model_validate
        )

    def _judged(self, check: Callable[[], T]) -> T:
        try:
            return check()
        except ArgsInvalid as exc:
            self._live.violation = StepError(str(exc), code="STEP_INTERACTION_INVALID", cause=exc)
            raise self._live.violation from exc


class Project:
    """The files of the run's project. What was written, removed or run is not done again when the step is made again."""

    __slots__ = ("_files", "_live", "_signal")

    def __init__(self, live: LiveCall, files: ProjectFiles, signal: AbortSignal) -> None:
        self._live = live
        self._files = files
        self._signal = signal

    def snapshot(self) -> Awaitable[Mapping[str, str]]:
        """Path → SHA-256 of each file."""
        return self._read("project.snapshot", [], self._files.snapshot, dict)

    def read(self, path: str) -> Awaitable[str]:
        """The text of a file."""
        return self._read("project.read", [path], lambda: self._files.read(path), str)

    def write(self, path: str, content: str) -> Awaitable[None]:
        """Write a text file, whole or not at all."""
        return self._effect("project.write", [path, content], lambda: self._files.write(path, content), None)

    def remove(self, path: str) -> Awaitable[None]:
        """Remove a file."""
        return self._effect("project.remove", [path], lambda: self._files.remove(path), None)

    def run(
        self, command: ProjectCommand | Mapping[str, Any], signal: AbortSignal | None = None
    ) -> Awaitable[ProjectCommandResult]:
        """Run a program. The call's own signal stops it, whatever signal is passed."""
        try:
            checked = checked_command(command)
        except ProjectError as exc:
            return self._live.refuse(exc)
        told = {**asdict(checked), "args": list(checked.args)}
        return self._effect(
            "project.run",
            [told],
            lambda: self._files.run(checked, self._signal),
            lambda r: ProjectCommandResult(command=checked, **r),
            lambda r: {k: v for k, v in asdict(r).items() if k != "command"},
        )

    def _read(self, name: str, told: Any, call: Callable[[], Awaitable[Any]], again: Callable[[Any], T]) -> Awaitable[T]:
        async def really(number: int) -> T:
            value = await self._owned(number, name, told, call)
            self._live.note(number, name, told, dict(value) if isinstance(value, Mapping) else value)
            return again(value)

        return self._call(name, told, really, again)

    def _effect(
        self,
        name: str,
        told: Any,
        call: Callable[[], Awaitable[Any]],
        again: Callable[[Any], Any] | None,
        record: Callable[[Any], Any] = lambda _: None,
    ) -> Awaitable[Any]:
        async def really(number: int) -> Any:
            value = await self._owned(number, name, told, call)
            await self._live.store(number, name, told, record(value))
            return value

        return self._call(name, told, really, again if again is not None else (lambda _: None))

    def _call(self, name: str, told: Any, really: Callable[[int], Awaitable[T]], again: Callable[[Any], T]) -> Awaitable[T]:
        try:
            self._live.check()
            self._live.needs_loop(f"access.{name}(…)")
            told = freeze(told, None, name)
        except NotJson as exc:
            return self._live.refuse(ProjectError(f"A path and a content are texts: {exc.message}"))
        except LoomError as exc:
            return self._live.refuse(exc)
        return self._live.perform(name, told, really, again, revive=_revived)

    async def _owned(self, number: int, name: str, told: Any, call: Callable[[], Awaitable[Any]]) -> Any:
        try:
            self._live.check()
            return await call()
        except (ProjectError, OSError) as exc:
            self._live.check()
            self._live.note_failure(number, name, told, exc)
            raise
        finally:
            self._live.check()


def _revived(told: Mapping[str, Any]) -> Exception:
    """A recorded failure of the project, as it was."""
    return ProjectError(told["message"]) if not told["code"] else LoomError(told["message"], code=told["code"])
