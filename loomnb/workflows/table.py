"""From a decorated class to a checked table of moves. Whatever cannot work is refused here, when the class is defined."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from loomnb.asks import Form, Schema, form_of, invalid
from loomnb.documents import WidgetRef, read_widgets
from loomnb.errors import ArgsInvalid, DefinitionError, SchemaValidationError, fields_from_pydantic
from loomnb.jsonvalue import dumps, freeze, thaw
from loomnb.names import humanised
from loomnb.runtime import END, START, AskContent, Envelope, Failure, Move, RunContext, TransitionInput, default_timeout
from loomnb.tools import container
from loomnb.workflows.base import BaseWorkflow
from loomnb.workflows.decorators import GUARD, TRANSITIONS, TransitionOptions
from loomnb.workflows.widgets import NO_WIDGETS, WorkflowWidgets, workflow_widgets

__all__ = ["WorkflowDefinition", "compile_workflow"]


@dataclass(frozen=True, slots=True)
class _Transition:
    """A move with what only this room knows of it."""

    move: Move
    parameters: int
    """Positional parameters the method takes; trailing ones may be left out."""
    schema: Schema | None
    summary: str
    """The first line of the method's docstring."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkflowDefinition:
    """A workflow class, checked: what the run loop needs of it."""

    name: str
    title: str
    description: str
    origin: str
    fingerprint: str
    step_limit: int
    cls: type[BaseWorkflow[Any]]
    schema: Schema | None
    config_schema: Schema | None
    state_schema: Schema | None
    transitions: Mapping[tuple[str, str], _Transition]
    by_place: Mapping[str, Sequence[Move]]
    widgets: WorkflowWidgets = NO_WIDGETS
    rests_at_start: bool = False

    @property
    def runs_ahead(self) -> bool:
        """Not by itself: a body may do anything."""
        return False

    @property
    def places(self) -> Sequence[str]:
        """The places that transitions leave, in the order they are declared."""
        return tuple(self.by_place)

    def moves_from(self, place: str) -> Sequence[Move] | None:
        """What leaves a place, best first."""
        return () if place == END else self.by_place.get(place)

    def has_wait(self, name: str) -> bool:
        """Whether a wait transition of this name exists."""
        return any(t.move.wait and t.move.name == name for t in self.transitions.values())

    def parse_args(self, raw: Any) -> tuple[Any, Any]:
        """The args to store and those for `ctx.args`; nothing given counts as `{}`."""
        value = {} if raw is None else raw
        if self.schema is None:
            stored = freeze(value, None, "args")
            return stored, stored
        try:
            parsed = self.schema.parse(value)
        except ValidationError as exc:
            raise ArgsInvalid(
                f"These arguments do not fit {self.name!r}.", fields_from_pydantic(exc), advice="No run was started."
            ) from exc
        return self.schema.dump(parsed), _read_only(parsed)

    def load_args(self, stored: Any) -> Any:
        """The args for `ctx.args` of a stored run."""
        if self.schema is None:
            return stored
        try:
            return _read_only(self.schema.parse(stored))
        except ValidationError as exc:
            raise ArgsInvalid("The stored arguments do not fit the schema any more.", fields_from_pydantic(exc)) from exc

    def parse_config(self, raw: Any) -> tuple[Any, Any]:
        """The configuration to store and the one for `ctx.config`; with a schema its defaults always apply."""
        if self.config_schema is None:
            stored = freeze(raw, None, "config")
            return stored, stored
        try:
            parsed = self.config_schema.parse({} if raw is None else raw)
        except ValidationError as exc:
            raise ArgsInvalid(
                f"This configuration does not fit {self.name!r}.", fields_from_pydantic(exc), advice="No run was started."
            ) from exc
        return self.config_schema.dump(parsed), _read_only(parsed)

    def load_config(self, stored: Any) -> Any:
        """The configuration for `ctx.config` of a stored run."""
        if self.config_schema is None:
            return stored
        try:
            return _read_only(self.config_schema.parse(stored))
        except ValidationError as exc:
            raise ArgsInvalid("The stored configuration does not fit the schema any more.", fields_from_pydantic(exc)) from exc

    def check_state(self, state: Any) -> Any:
        """The state to store: with a schema what it parses to, so that defaults appear."""
        if self.state_schema is None:
            return state
        try:
            return self.state_schema.dump(self.state_schema.parse(state), state)
        except ValidationError as exc:
            raise SchemaValidationError(
                f"The state does not fit the state schema of {self.name!r}.", fields_from_pydantic(exc)
            ) from exc

    def ask(self, move: Move, args: Any) -> AskContent:
        """The form of a wait transition's schema; without one a button."""
        t = self.transitions[move.name, move.from_]
        form = form_of(t.schema)
        label = (
            _explicit_title(t.schema, form) or t.summary or (form.title if form and not form.raw else "") or humanised(move.name)
        )
        return self.widgets.dress(AskContent(kind="button" if form is None else "form", label=label, form=form), move)

    def accept(self, move: Move, args: Any, payload: Any) -> Any:
        """The payload, judged and copied."""
        schema = self.transitions[move.name, move.from_].schema
        stored = freeze(payload, None, "the answer")
        if schema is not None:
            try:
                schema.parse(stored)
            except ValidationError as exc:
                raise invalid(exc, form_of(schema), f"The answer to {move.name!r}") from exc
        return stored

    is_strict = False

    def failure_of(self, exc: Exception, move: Move | None = None) -> Failure:
        """As it is."""
        return Failure.of(exc)

    def shown(self, place: str) -> str:
        """Itself."""
        return place

    def group_of(self, place: str) -> tuple[str, str]:
        """Nothing; its own name is written on it."""
        return "", ""

    def perform(self, move: Move, context: RunContext[Any], state: Any, payload: Any, envelope: Envelope) -> Any:
        """Call the method with as many of its arguments as it takes."""
        t = self.transitions[move.name, move.from_]
        arguments: list[Any] = [state]
        if move.wait:
            failed = envelope.status != "completed"  # a child that failed often has no data: its schema would only hide that
            data = payload if failed or t.schema is None else _parsed(t.schema, payload, move.name)
            arguments.append(
                TransitionInput(
                    workflow_id=envelope.workflow_id,
                    status=envelope.status,
                    has_error=failed,
                    error_message=envelope.error_message,
                    data=data,
                    meta=thaw(envelope.meta),
                )
            )
        arguments.append(context)
        method = getattr(container().own(self.cls), move.name)
        return method(*arguments[: t.parameters])


def _parsed(schema: Schema, payload: Any, name: str) -> Any:
    try:
        return schema.parse(payload)
    except ValidationError as exc:  # only a child's result can get here: answers were judged before
        raise ArgsInvalid(
            f"The result of the sub-workflow does not fit the schema of {name!r}.", fields_from_pydantic(exc)
        ) from exc


def _explicit_title(schema: Schema | None, form: Form | None) -> str:
    """A title somebody wrote: pydantic titles every model with its class name, which says less than a docstring."""
    if schema is None or form is None or form.raw:
        return ""
    return form.title if form.title != getattr(schema.type, "__name__", "") else ""


def _read_only(parsed: Any) -> Any:
    """Args that refuse to be written: JSON is frozen, a pydantic model becomes a frozen twin of its class."""
    if isinstance(parsed, BaseModel) and not parsed.model_config.get("frozen"):
        twin = parsed.model_copy()
        object.__setattr__(twin, "__class__", _frozen_twin(type(parsed)))
        return twin
    return freeze(parsed) if isinstance(parsed, (dict, list)) and _is_json(parsed) else parsed


def _is_json(value: Any) -> bool:
    try:
        freeze(value)
    except TypeError:
        return False
    return True


_TWINS: dict[type[BaseModel], type[BaseModel]] = {}


def _frozen_twin(cls: type[BaseModel]) -> type[BaseModel]:
    if cls not in _TWINS:
        config = {**cls.model_config, "frozen": True}
        twin = type(cls.__name__, (cls,), {"model_config": config, "__module__": cls.__module__, "__doc__": cls.__doc__})
        setattr(twin, "__eq__", _equal_as(cls))  # noqa: B010  # pydantic calls models of two classes unequal
        _TWINS[cls] = twin
    return _TWINS[cls]


def _equal_as(cls: type[BaseModel]) -> Callable[[BaseModel, object], bool]:
    def plain(model: BaseModel) -> BaseModel:
        copy = model.model_copy()
        object.__setattr__(copy, "__class__", cls)
        return copy

    def equal(self: BaseModel, other: object) -> bool:
        return bool(plain(self) == (plain(other) if isinstance(other, _TWINS[cls]) else other))

    return equal


# -- compiling ------------------------------------------------------------------------------------


def compile_workflow(
    cls: type[BaseWorkflow[Any]],
    *,
    name: str,
    title: str | None,
    description: str | None,
    schema: Any,
    config_schema: Any,
    state_schema: Any,
    step_limit: int,
    origin: str,
    widget: WidgetRef | Sequence[WidgetRef] | None = None,
) -> WorkflowDefinition:
    """The checked definition of a class.

    Raises:
        DefinitionError: it cannot work; the message names the class, the method and the fix.
    """
    where = cls.__qualname__
    if isinstance(step_limit, bool) or not isinstance(step_limit, int) or step_limit < 1:
        raise DefinitionError(f"{where}: step_limit must be a whole number of at least 1, not {step_limit!r}.")
    found = [_transition(cls, method_name, options) for method_name, options in _marked(cls)]
    args_schema = Schema(schema, f"{where}.schema") if schema is not None else None
    if args_schema is None:
        args_schema = next((t.schema for t in found if t.move.from_ == START and not t.move.wait and t.schema is not None), None)
    by_place = _sorted(found)
    _check(cls, found, by_place)
    reading = read_widgets(widget, cls)
    shape = [[t.move.name, t.move.from_, t.move.to, t.move.wait, t.move.guard_name, t.move.priority] for t in found]
    return WorkflowDefinition(
        name=name,
        title=title or reading.title or humanised(name),
        description=description or reading.description or inspect.cleandoc(cls.__dict__.get("__doc__") or ""),
        origin=origin,
        fingerprint=hashlib.sha256(dumps(shape).encode()).hexdigest()[:16],
        step_limit=step_limit,
        cls=cls,
        schema=args_schema,
        config_schema=Schema(config_schema, f"{where}.config_schema") if config_schema is not None else None,
        state_schema=Schema(state_schema, f"{where}.state_schema") if state_schema is not None else None,
        transitions={(t.move.name, t.move.from_): t for t in found},
        by_place=by_place,
        widgets=workflow_widgets(where, reading, [(t.move, t.schema) for t in found], sorted({*by_place, END})),
    )


def _marked(cls: type) -> Iterator[tuple[str, TransitionOptions]]:
    """Method names with each of their options, in declaration order, parents first. An override keeps its parent's options."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update({n: None for n, v in vars(base).items() if hasattr(v, TRANSITIONS)})
    for name in names:
        noted = _noted(cls, name, TRANSITIONS)
        if getattr(cls, name, None) is not None and noted is not None:
            for options in noted:
                yield name, options


def _noted(cls: type, name: str, note: str) -> Any:
    """What a decorator noted on a method, or on the nearest one it overrides."""
    return next((getattr(vars(b)[name], note) for b in cls.__mro__ if name in vars(b) and hasattr(vars(b)[name], note)), None)


def _transition(cls: type, name: str, o: TransitionOptions) -> _Transition:
    where = f"{cls.__qualname__}.{name}"
    # Only to look at: its constructor did not run. The instance that serves the runs is made when the first one moves.
    blank: Any = object.__new__(cls)
    method = getattr(blank, name)
    attempts = o.retry_attempts if o.retry_attempts is not None else 0 if o.error_place is not None else -1
    guard_name = _noted(cls, name, GUARD) or ""
    guard = None
    if guard_name:
        guard_method = getattr(blank, guard_name, None)
        if not callable(guard_method):
            raise DefinitionError(
                f"{where}: the guard {guard_name!r} is no method of {cls.__qualname__}.",
                advice=f"Define `def {guard_name}(self, state): ...`, or correct the name in @loom.guard.",
            )
        parameters = _parameters(guard_method, 1, f"{cls.__qualname__}.{guard_name}", "(state)")
        guard = partial(_call_guard, cls, guard_name, parameters)
    for value, what in ((o.to, "to"), (o.from_, "from_")):
        if not isinstance(value, str) or not value:
            raise DefinitionError(f"{where}: {what}= must be the name of a place, not {value!r}.")
    if o.retry_backoff not in ("fixed", "exponential"):
        raise DefinitionError(f"{where}: retry_backoff must be 'fixed' or 'exponential', not {o.retry_backoff!r}.")
    if o.schema is not None and not o.wait and o.from_ != START:
        raise DefinitionError(
            f"{where}: schema= judges an answer, and this transition gets none.",
            advice="Make it wait=True, or drop the schema.",
        )
    expected = "(state, input, ctx)" if o.wait else "(state, ctx)"
    doc = inspect.getdoc(method) or ""
    move = Move(
        name=name,
        from_=o.from_,
        to=o.to,
        wait=o.wait,
        priority=o.priority,
        guard_name=guard_name,
        guard=guard,
        retry_attempts=attempts,
        retry_delay=_ms(o.retry_delay, where, "retry_delay"),
        retry_backoff=o.retry_backoff,
        retry_max_delay=_ms(o.retry_max_delay, where, "retry_max_delay"),
        retry_target=o.retry_target,
        error_place=o.error_place,
        timeout=default_timeout() if o.timeout is None else _ms(o.timeout, where, "timeout"),
        is_async=inspect.iscoroutinefunction(method),
    )
    return _Transition(
        move=move,
        parameters=_parameters(method, 3 if o.wait else 2, where, expected),
        schema=Schema(o.schema, f"{where}.schema") if o.schema is not None else None,
        summary=doc.strip().splitlines()[0].rstrip() if doc.strip() else "",
    )


def _call_guard(cls: type, name: str, parameters: int, state: Any) -> Any:
    return getattr(container().own(cls), name)(*(state,)[:parameters])


def _parameters(method: Callable[..., Any], most: int, where: str, expected: str) -> int:
    kinds = list(inspect.signature(method).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in kinds):
        return most
    positional = [p for p in kinds if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in positional]
    own = next(iter(inspect.signature(getattr(method, "__func__", method)).parameters), "")
    if own in ("state", "ctx"):
        raise DefinitionError(
            f"{where} begins with {own!r}: it is a method, and its first parameter is `self`.",
            advice=f"Write {where.rpartition('.')[2]}(self, …).",
        )
    for place, name in enumerate(names[:most]):
        meant = expected.strip("()").split(", ")
        if name in ("ctx", "input") and name in meant and meant.index(name) != place:
            raise DefinitionError(
                f"{where} has {name!r} where it is given {meant[place]!r}: it is called with {expected}.",
                advice="Keep the order; trailing parameters may be left out.",
            )
    required = [p for p in positional if p.default is p.empty]
    required += [p for p in kinds if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(required) > most:
        raise DefinitionError(
            f"{where} takes {len(required)} arguments beside self; it gets {most} at the most: {expected}.",
            advice="Trailing ones may be left out. Is it a wait transition without wait=True?",
        )
    return min(len(positional), most)


def _ms(value: float | timedelta, where: str, what: str) -> float:
    ms = value.total_seconds() * 1000 if isinstance(value, timedelta) else value
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not math.isfinite(ms) or ms < 0:
        raise DefinitionError(f"{where}: {what}= must be milliseconds of at least 0, or a timedelta, not {value!r}.")
    return float(ms)


def _sorted(found: Sequence[_Transition]) -> dict[str, Sequence[Move]]:
    places: dict[str, list[Move]] = {}
    for t in found:
        places.setdefault(t.move.from_, []).append(t.move)
    for moves in places.values():  # stable: ties keep the order of declaration
        moves.sort(key=lambda m: (m.priority is None, -(m.priority or 0)))
    return {place: tuple(moves) for place, moves in places.items()}


def _check(cls: type, found: Sequence[_Transition], by_place: Mapping[str, Sequence[Move]]) -> None:
    where = cls.__qualname__
    starts = [m for m in by_place.get(START, ()) if not m.wait]
    if not found:
        raise DefinitionError(f"{where} has no transition.", advice='Decorate a method: @loom.transition(to="end").')
    for m in by_place.get(START, ()):
        if m.wait:
            raise DefinitionError(
                f"{where}.{m.name} waits at the start: nothing would ever ask.",
                advice="Start with an automatic transition into a place, and wait there.",
            )
    if not any(m.guard is None for m in starts):
        raise DefinitionError(
            f"{where}: {'every transition from the start is guarded' if starts else 'no transition leaves the start'}.",
            advice="Exactly one unguarded automatic transition must leave the start (from_ left out).",
        )
    for place, moves in by_place.items():
        unguarded = [m.name for m in moves if not m.wait and m.guard is None]
        if len(unguarded) > 1:
            raise DefinitionError(
                f"{where}: {' and '.join(unguarded)} both leave {place!r} without a guard; only the first could ever fire.",
                advice="Guard all but one with @loom.guard, or let them leave different places.",
            )
        twice = {m.name for m in moves if [n.name for n in moves].count(m.name) > 1}
        if twice:
            raise DefinitionError(
                f"{where}.{min(twice)} leaves {place!r} twice.", advice="Remove one of its @loom.transition lines."
            )
    known = {*by_place, END}
    for t in found:
        for value, what in ((t.move.to, "to"), (t.move.retry_target, "retry_target"), (t.move.error_place, "error_place")):
            if value is not None and value not in known:
                near = difflib.get_close_matches(value, known, n=1)
                hint = f"Did you mean {near[0]!r}? " if near else ""
                lost = difflib.get_close_matches(value, _unreached(found, by_place), n=1)
                if lost:  # the other end is misspelt: a place that something leaves, and nothing leads to
                    names = " and ".join(m.name for m in by_place[lost[0]])
                    hint = f"{names} leaves {lost[0]!r}, and nothing leads there: did you mean from_={value!r}? "
                raise DefinitionError(
                    f"{where}.{t.move.name} leads to {value!r} ({what}=), and nothing leaves that place: a run would be stuck.",
                    advice=f"{hint}Places that lead on: {', '.join(sorted(known))}. Correct the name, or add one that leaves it.",
                )


def _unreached(found: Sequence[_Transition], by_place: Mapping[str, Sequence[Move]]) -> list[str]:
    """Places that something leaves and nothing leads to."""
    led_to = {p for t in found for p in (t.move.to, t.move.retry_target, t.move.error_place)}
    return [place for place in by_place if place != START and place not in led_to]
