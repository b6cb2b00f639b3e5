"""Our messages on their way to a model: from the forms of `TurnRequest.messages` to those of pydantic-ai."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loomnb.errors import InvalidRequest
from loomnb.jsonvalue import thaw
from loomnb.runtime import TurnRequest

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.models import ModelRequestParameters

    from loomnb.agents.providers.outputs import Output

__all__ = ["parameters_of", "prompt_of", "settings_of"]

_GO_ON = "Go on, as you were told."
"""Said for the user where the conversation ends with the model: services want a user's message at the end."""

_NO_RESULT = "The call was interrupted: there is no result."


def settings_of(request: TurnRequest, own: Mapping[str, Any]) -> dict[str, Any]:
    """pydantic-ai's settings. Its own retries are off: ours tell how long they wait."""
    settings = {**own, **request.settings, "max_retries": 0}
    if request.tools and request.tool_choice != "auto":
        settings["tool_choice"] = request.tool_choice if request.tool_choice in ("none", "required") else [request.tool_choice]
    return settings


def parameters_of(request: TurnRequest, system: str, output: Output | None) -> ModelRequestParameters:
    """The tools, the instructions and the output that are asked for.

    Raises:
        InvalidRequest: a tool that has to be called is none of the tools.
    """
    from pydantic_ai.messages import InstructionPart  # noqa: PLC0415  # 1.5 s, which only the first turn pays
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415  # the same
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415  # the same

    names = [tool.name for tool in request.tools]
    if request.tool_choice not in ("auto", "none", "required", *names):
        raise InvalidRequest(
            f"The model cannot be made to call {request.tool_choice!r}: it is no tool of this turn.",
            advice=f"There are: {', '.join(names) or 'none'}.",
        )
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=_object(tool.input_schema))
        for tool in request.tools
    ]
    return ModelRequestParameters(
        function_tools=tools,
        instruction_parts=[InstructionPart(content=system)] if system else [],
        **(output.parameters() if output is not None else {}),
    )


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema as services take it: an object. One of anything else gets an object's type, and judges for itself."""
    plain = {key: thaw(value) for key, value in schema.items() if key != "$schema"}
    return plain if plain.get("type") == "object" else {"properties": {}, **plain, "type": "object"}


def prompt_of(request: TurnRequest, system_name: str) -> tuple[str, list[theirs.ModelMessage]]:
    """The instructions, with the summaries of what went before, and the conversation.

    Args:
        request: of the turn.
        system_name: whose model it is, in pydantic-ai's words: what another vendor gave as `native` is not sent to it.

    Raises:
        InvalidRequest: a message has no known form.
    """
    prompt = _Prompt(system_name)
    system = [request.system] if request.system else []
    for message in request.messages:
        role = message.get("role")
        if role == "system":
            system.append(str(message.get("content", "")))
        elif role == "user":
            prompt.user(message)
        elif role == "assistant":
            prompt.assistant(message)
        elif role == "tool":
            prompt.result(message.get("toolCallId"), message.get("name"), message.get("content"), _how(message))
        else:
            raise InvalidRequest(f"A message of the role {role!r} cannot be told to a model.")
    return "\n\n".join(system), prompt.finished()


def _how(message: Mapping[str, Any]) -> str:
    return "failed" if message.get("isError") else "success"


def _arguments(given: Any) -> dict[str, Any] | str:
    """The arguments of a call as vendors take them back. What was no JSON stands as its text, and some libraries read that
    leniently into what they cannot send."""
    if isinstance(given, dict):
        return given
    try:
        if isinstance(given, str):
            json.loads(given, parse_constant=_refused, parse_float=_finite)
            return given
    except ValueError:
        given = {"unreadable": given}
    return given if isinstance(given, dict) else json.dumps(given)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is larger than any number")
    return value


class _Prompt:
    """A conversation of pydantic-ai while it is put together: requests and responses in turn."""

    def __init__(self, system_name: str) -> None:
        from pydantic_ai import messages as theirs  # noqa: PLC0415  # 1.5 s, which only the first turn pays

        self._theirs = theirs
        self._system_name = system_name
        self._done: list[theirs.ModelMessage] = []
        self._parts: list[theirs.ModelRequestPart] = []
        self._open: dict[str, str] = {}
        """Calls without a result yet: id → tool."""

    def user(self, message: Mapping[str, Any]) -> None:
        """What somebody said, with what they attached."""
        self._settle()
        text = message.get("content") or ""
        attached = [self._attachment(one) for one in message.get("attachments") or ()]
        content: Any = [*([text] if text else []), *attached] if attached else text
        if content:
            self._parts.append(self._theirs.UserPromptPart(content=content))

    def assistant(self, message: Mapping[str, Any]) -> None:
        """What the model said, and what came of the tools it asked for. An empty message is left out: services refuse it."""
        self._settle()
        response = self._native(message) or self._plain(message)
        if not response.parts:
            return
        if self._parts or not self._done:
            # Services want a user's message at the beginning too.
            self._parts = self._parts or [self._theirs.UserPromptPart(content=_GO_ON)]
            self._done.append(self._theirs.ModelRequest(parts=self._parts))
            self._parts = []
        self._done.append(response)
        calls = message.get("toolCalls") or ()
        self._open = {call["id"]: call["name"] for call in calls}
        for result in message.get("toolResults") or ():
            self._own_result(result)

    def _own_result(self, result: Mapping[str, Any]) -> None:
        if denied := result.get("denied"):
            said: Any = denied if isinstance(denied, str) else result.get("error") or result.get("output") or "It was denied."
            self.result(result.get("id"), result.get("name"), said, "denied")
        elif result.get("error") is not None:
            self.result(result.get("id"), result.get("name"), result["error"], "failed")
        else:
            self.result(result.get("id"), result.get("name"), result.get("output"), "success")

    def result(self, call_id: Any, name: Any, content: Any, outcome: Any) -> None:
        """What came of a tool. One that nobody asked for is left out: services refuse it."""
        if call_id not in self._open:
            return
        known = self._open.pop(call_id)
        part = self._theirs.ToolReturnPart(tool_name=name or known, content=thaw(content), tool_call_id=call_id, outcome=outcome)
        self._parts.append(part)

    def _settle(self) -> None:
        """Say of calls that have no result that they have none: services refuse a call without one."""
        for call_id, name in self._open.items():
            part = self._theirs.ToolReturnPart(tool_name=name, content=_NO_RESULT, tool_call_id=call_id, outcome="interrupted")
            self._parts.append(part)
        self._open = {}

    def finished(self) -> list[theirs.ModelMessage]:
        """The conversation, with a request at its end."""
        self._settle()
        if not self._parts:
            self._parts.append(self._theirs.UserPromptPart(content=_GO_ON))
        return [*self._done, self._theirs.ModelRequest(parts=self._parts)]

    def _plain(self, message: Mapping[str, Any]) -> theirs.ModelResponse:
        parts: list[theirs.ModelResponsePart] = []
        if text := message.get("content"):
            parts.append(self._theirs.TextPart(content=text))
        for call in message.get("toolCalls") or ():
            given = thaw(call.get("input"))
            args = _arguments(given)
            parts.append(self._theirs.ToolCallPart(tool_name=call["name"], args=args, tool_call_id=call["id"]))
        return self._theirs.ModelResponse(parts=parts)

    def _native(self, message: Mapping[str, Any]) -> theirs.ModelResponse | None:
        """The answer as the same vendor gave it; None when there is none, or when the message was changed since."""
        native = message.get("native")
        if not isinstance(native, Mapping) or native.get("provider_name") != self._system_name:
            return None
        try:
            (response,) = self._theirs.ModelMessagesTypeAdapter.validate_python([thaw(native)])
        except ValueError:  # of another version of pydantic-ai
            return None
        if not isinstance(response, self._theirs.ModelResponse):
            return None
        # A gate may have taken something out of the text, and a policy a call: what they took out must not come back this way.
        text = "".join(part.content for part in response.parts if isinstance(part, self._theirs.TextPart))
        calls = [part.tool_call_id for part in response.parts if isinstance(part, self._theirs.ToolCallPart)]
        if any(
            _arguments(part.args or {}) != (part.args or {})
            for part in response.parts
            if isinstance(part, self._theirs.ToolCallPart)
        ):
            return None  # its library could not send that
        is_same = text == (message.get("content") or "") and calls == [call["id"] for call in message.get("toolCalls") or ()]
        return response if is_same else None

    def _attachment(self, attached: Mapping[str, Any]) -> theirs.UserContent:
        kind, name = str(attached.get("mediaType") or "application/octet-stream"), attached.get("name")
        if "data" in attached:
            try:
                data = base64.b64decode(attached["data"], validate=True)
            except (ValueError, TypeError, binascii.Error):
                raise InvalidRequest(f"The attachment {name!r} is no base64.") from None
            return self._theirs.BinaryContent(data=data, media_type=kind)
        url = attached.get("url")
        if not isinstance(url, str):
            raise InvalidRequest(f"The attachment {name!r} has neither data nor a URL.")
        kinds: Sequence[tuple[str, Any]] = (
            ("image/", self._theirs.ImageUrl),
            ("audio/", self._theirs.AudioUrl),
            ("video/", self._theirs.VideoUrl),
        )
        make = next((made for start, made in kinds if kind.startswith(start)), self._theirs.DocumentUrl)
        content: theirs.UserContent = make(url=url, media_type=kind)
        return content
