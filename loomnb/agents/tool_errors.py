"""What can be wrong with a tool call of an agent. Each says which tool, and is told to the model as the call's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.errors import NotFound, Refused, WorldFailed

__all__ = [
    "Issue",
    "ToolDisabledError",
    "ToolForbiddenError",
    "ToolInputDriftError",
    "ToolInputInvalidError",
    "ToolNotFoundError",
    "ToolPreflightDeniedError",
    "ToolTimeoutError",
]

Issue = Mapping[str, Any]
"""`{"path": [...], "message": text}`; an empty path is the whole input."""


class ToolNotFoundError(NotFound):
    """No tool of this name is registered, or it is hidden in this turn (its `describe` says so)."""

    code = "TOOL_NOT_FOUND"

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"There is no tool {tool_name!r} here.", advice="Use one of the tools that are offered.")
        self.tool_name = tool_name

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name,), self.__dict__


class ToolDisabledError(Refused):
    """The tool is switched off just now: `enabled`, or its handler's `is_enabled`."""

    code = "TOOL_DISABLED"

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"The tool {tool_name!r} is switched off.", advice="It did not run. Go on without it.")
        self.tool_name = tool_name

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name,), self.__dict__


class ToolForbiddenError(Refused):
    """The roles policy, the handler's `can_use` or the list of allowed tools refuses it to this actor."""

    code = "TOOL_FORBIDDEN"

    def __init__(self, tool_name: str) -> None:
        super().__init__(
            f"The tool {tool_name!r} may not be used here.",
            advice="It did not run. Go on without it, and do not look for a way round.",
        )
        self.tool_name = tool_name

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name,), self.__dict__


class ToolInputInvalidError(Refused):
    """The input does not fit the tool's schema. The message names the tool and every place that is wrong.

    Attributes:
        tool_name: the tool.
        issues: `{"path": [...], "message": text}` for each place, in the schema's order.
    """

    code = "TOOL_INPUT_INVALID"

    def __init__(self, tool_name: str, issues: Sequence[Issue]) -> None:
        self.tool_name = tool_name
        self.issues: list[dict[str, Any]] = [dict(issue) for issue in issues]
        lines = [f"  {_place(issue['path'])}: {issue['message']}" for issue in self.issues]
        super().__init__(
            "\n".join([f"The input does not fit the tool {tool_name!r}; it did not run:", *lines]),
            advice="Call it again with these places put right.",
        )

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name, self.issues), self.__dict__


def _place(path: Sequence[Any]) -> str:
    """`items.0.name`; the whole is `(root)`, as in the contract."""
    return ".".join(str(step) for step in path) or "(root)"


class ToolPreflightDeniedError(Refused):
    """The tool itself refuses the call before it acts; the message is its reason."""

    code = "TOOL_PREFLIGHT_DENIED"

    def __init__(self, tool_name: str, reason: str) -> None:
        super().__init__(reason)
        self.tool_name = tool_name
        self.reason = reason

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name, self.reason), self.__dict__


class ToolInputDriftError(Refused):
    """What would run is not what was approved: the input parses differently now, was changed by a hook, or is no JSON."""

    code = "TOOL_INPUT_DRIFT"

    def __init__(self, tool_name: str, why: str) -> None:
        super().__init__(
            f"The input of {tool_name!r} is not the one that was approved: {why}.",
            advice="It did not run. Ask for approval anew.",
        )
        self.tool_name = tool_name
        self.why = why

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name, self.why), self.__dict__


class ToolTimeoutError(WorldFailed):
    """The tool took longer than it may. It is left running: what it does may still happen."""

    code = "TOOL_TIMEOUT"

    def __init__(self, tool_name: str, timeout_ms: float) -> None:
        super().__init__(
            f"The tool {tool_name!r} took longer than {timeout_ms:g} ms and was left behind.",
            advice="What it was doing may still happen. Do not simply call it again.",
        )
        self.tool_name = tool_name
        self.timeout_ms = timeout_ms

    def __reduce__(self) -> Any:
        return type(self), (self.tool_name, self.timeout_ms), self.__dict__
