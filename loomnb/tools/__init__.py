"""Tools: one kind for workflows and agents alike. What a call is judged by, what it goes through, and who is given whom."""

from loomnb.tools.base import BaseTool, ServerTool
from loomnb.tools.define import names_of, tool, use_tool_interceptor
from loomnb.tools.envelope import Callback, QueueResult, ResultType, ToolCallOptions, ToolEnvelope, ToolResult
from loomnb.tools.functions import FunctionTool
from loomnb.tools.injection import (
    INJECTABLE,
    Provide,
    check_needs,
    checked,
    container,
    overrides,
    provide_for_app,
    resolve,
    supersede,
)
from loomnb.tools.pipeline import INTERCEPTORS, ToolInterception, execute, refuse_in_tool
from loomnb.tools.spec import TOOLS, ToolOptions, ToolSpec, spec_of
from loomnb.tools.templates import render

__all__ = [
    "INJECTABLE",
    "INTERCEPTORS",
    "TOOLS",
    "BaseTool",
    "Callback",
    "FunctionTool",
    "Provide",
    "QueueResult",
    "ResultType",
    "ServerTool",
    "ToolCallOptions",
    "ToolEnvelope",
    "ToolInterception",
    "ToolOptions",
    "ToolResult",
    "ToolSpec",
    "check_needs",
    "checked",
    "container",
    "execute",
    "names_of",
    "overrides",
    "provide_for_app",
    "refuse_in_tool",
    "render",
    "resolve",
    "spec_of",
    "supersede",
    "tool",
    "use_tool_interceptor",
]
