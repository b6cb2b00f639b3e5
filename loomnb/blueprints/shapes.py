"""What a part of a blueprint has to look like by itself: names, routes, executions, code, initializers, schemas, tools.

Each judge says what is wrong as the rest of a sentence, or nothing. None of them calls what it judges, and none parses with a
schema; a schema is only built. Rules: contracts/blueprints.md §1.1, §1.4, §1.10.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from loomnb.asks import Schema
from loomnb.blueprints.diagnostics import listed, meant, one_line, short
from loomnb.blueprints.model import (
    STAGE_END,
    WORKFLOW_END,
    AgentSpec,
    AgentTool,
    ExecutableCode,
    StageEnd,
    ToStage,
    ToStep,
    WorkflowEnd,
)
from loomnb.blueprints.sources import RESERVED
from loomnb.errors import DefinitionError

__all__ = [
    "ShapeInvalid",
    "code_problem",
    "initializer_problem",
    "is_blank",
    "name_problem",
    "schema_problem",
    "stage_route",
    "step_execution",
    "step_route",
    "tool_problem",
]

_BLANK = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What the contract trims. Python's `strip` does not know the last but one, and knows five more."""


class ShapeInvalid(DefinitionError):
    """A route or an execution is of no shape there is. Message and advice are those of a Problem."""

    code = "INVALID_WORKFLOW"


def is_blank(text: str) -> bool:
    """Whether a text has nothing to read, by the contract's white space."""
    return not text.strip(_BLANK)


# -- names ----------------------------------------------------------------------------------------


def name_problem(name: Any) -> str:
    """What keeps it from being the name of a flow, stage, step, outcome, agent or skill."""
    if not isinstance(name, str):
        return f"has to be a text, not {short(name)}"
    if not name:
        return "is empty"
    if name.strip(_BLANK) != name:
        return f"begins or ends with white space: {short(name)}"
    if name in RESERVED:
        return f"is reserved: {name!r}"
    return ""


# -- routes and executions ------------------------------------------------------------------------


def step_route(value: Any) -> ToStep | StageEnd:
    """Where an outcome of a step leads.

    Args:
        value: a step's name, `ToStep(step_name=…)`, `StageEnd()`, `{"kind": "step", "stepName": …}` or `{"kind": "stage_end"}`.

    Raises:
        ShapeInvalid: it is none of these.
    """
    if isinstance(value, StageEnd):
        return STAGE_END
    name = value.step_name if isinstance(value, ToStep) else value
    if isinstance(name, Mapping):
        kind, name = _of_mapping(name, "step", "stage_end")
        if kind == "stage_end":
            return STAGE_END
    return ToStep(step_name=_text(name, "a step's name, ToStep(step_name=…) or StageEnd()"))


def stage_route(value: Any) -> ToStage | WorkflowEnd:
    """Where an outcome that ended a stage leads.

    Args:
        value: a stage's name, `ToStage(stage_name=…)`, `WorkflowEnd()`, `{"kind": "stage", "stageName": …}` or
            `{"kind": "workflow_end"}`.

    Raises:
        ShapeInvalid: it is none of these.
    """
    if isinstance(value, WorkflowEnd):
        return WORKFLOW_END
    name = value.stage_name if isinstance(value, ToStage) else value
    if isinstance(name, Mapping):
        kind, name = _of_mapping(name, "stage", "workflow_end")
        if kind == "workflow_end":
            return WORKFLOW_END
    return ToStage(stage_name=_text(name, "a stage's name, ToStage(stage_name=…) or WorkflowEnd()"))


def _of_mapping(value: Mapping[Any, Any], to: str, end: str) -> tuple[str, Any]:
    fields = {f"{to}_name" if key == f"{to}Name" else key: given for key, given in value.items()}
    if len(fields) == len(value):
        if fields == {"kind": end}:
            return end, None
        if fields.get("kind") == to and fields.keys() == {"kind", f"{to}_name"}:
            return to, fields[f"{to}_name"]
    expected = f"{{'kind': {to!r}, '{to}Name': …}} or {{'kind': {end!r}}}"
    is_yaml = bool(value.keys() & {"target", "end"})
    raise ShapeInvalid(
        f"expected {expected}, got {short(dict(value))}",
        advice=f"That is how a YAML file says it; here a plain text names the {to}." if is_yaml else "",
    )


def _text(name: Any, expected: str) -> str:
    if isinstance(name, str) and name:
        return name
    advice = f"Make one: {name.__name__}()." if name in (StageEnd, WorkflowEnd) else ""
    raise ShapeInvalid(f"expected {expected}, got {short(name)}", advice=advice)


def step_execution(
    value: Any, codes: Mapping[str, Any], agents: Mapping[str, AgentSpec]
) -> ExecutableCode | Callable[..., Any] | AgentSpec:
    """What a step does: the code or the agent itself, where it is named by id also.

    Raises:
        ShapeInvalid: it is neither, or no such id is known.
    """
    if isinstance(value, AgentSpec):
        return value
    if isinstance(value, Mapping):
        fields = {{"codeId": "code_id", "agentId": "agent_id"}.get(k, k): v for k, v in value.items()}
        for kind, known in (("code", codes), ("agent", agents)):
            if fields.keys() == {"kind", f"{kind}_id"} and fields["kind"] == kind and len(fields) == len(value):
                return cast("ExecutableCode | AgentSpec", _by_id(fields[f"{kind}_id"], kind, known))
        expected = "{'kind': 'code', 'codeId': …} or {'kind': 'agent', 'agentId': …}"
        raise ShapeInvalid(f"expected {expected}, got {short(dict(value))}")
    if wrong := code_problem(value):
        raise ShapeInvalid(f"it is no code, no AgentSpec and no id of one: {short(value)} {wrong}")
    return cast("ExecutableCode", value)


def _by_id(id_: Any, kind: str, known: Mapping[str, Any]) -> Any:
    if isinstance(id_, str) and id_ in known:
        return known[id_]
    where = {"code": "codes", "agent": "agent_specs"}[kind]
    advice = f"There are: {listed(known)}." if known else f"Give a WorkflowModule with {where}, or the {kind} itself."
    raise ShapeInvalid(f"there is no {kind} {short(id_)}{meant(id_, known)}", advice=advice)


# -- what is called -------------------------------------------------------------------------------


def code_problem(value: Any) -> str:
    """What keeps it from being a step's code."""
    if wrong := _call_problem(value, "input", "access"):
        return wrong
    recover = inspect.getattr_static(value, "recover", None)
    if recover is not None and not callable(recover) and not hasattr(type(recover), "__get__"):
        return "has a recover that cannot be called"
    return ""


def initializer_problem(value: Any) -> str:
    """What keeps it from being a stage's initializer."""
    return _call_problem(value, "context")


def _call_problem(value: Any, *names: str) -> str:
    if not callable(value):
        return "cannot be called"
    if isinstance(value, type):
        return "is a class; a function or an object with __call__ is wanted"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # something made in C that does not tell
        return ""
    try:
        signature.bind(*names)
    except TypeError:
        hint = " (under @loom.code it may take `access` alone)" if names == ("input", "access") else ""
        return f"cannot be called with ({', '.join(names)}); it takes {signature}{hint}"
    return ""


def schema_problem(value: Any) -> str:
    """What keeps it from being a schema: what pydantic's TypeAdapter takes, or an object with `parse`."""
    if value is None:
        return "is no schema"
    if isinstance(value, str) or inspect.ismodule(value):
        return "is no schema; give the type itself"
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return "is a function, and no schema"  # pydantic would take it, and judge by calling it
    if inspect.getattr_static(value, "parse", None) is not None:
        return ""
    try:
        Schema(value, "schema")
    except DefinitionError as exc:
        why = exc.message.partition("cannot be a schema")[2].partition(". Set `arbitrary_types_allowed")[0]
        return f"cannot be a schema{one_line(why)}"
    except Exception as exc:  # noqa: BLE001  # a type's own hooks for pydantic may raise anything
        return f"cannot be a schema: {type(exc).__name__}: {one_line(str(exc))}"
    return ""


def tool_problem(value: Any) -> str:
    """What keeps it from being a tool of an agent."""
    if not isinstance(value, AgentTool):
        return "is no AgentTool"
    if not isinstance(value.id, str) or not value.id:
        return "has no id"
    for name, schema in (("input_schema", value.input_schema), ("output_schema", value.output_schema)):
        if wrong := schema_problem(schema):
            return f"has an {name} that {wrong}"
    if wrong := _call_problem(value.execute, "input", "access"):
        return f"has an execute that {wrong}"
    return ""
