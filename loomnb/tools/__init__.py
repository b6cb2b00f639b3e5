"""Tools: one kind for workflows and agents alike. What a call is judged by, what it goes through, and who is given whom."""

from loomnb.tools.base import BaseTool, ServerTool
from loomnb.tools.define import names_of, tool, use_tool_interceptor
from loomnb.tools.envelope import Callback, QueueResult, ResultType, ToolCallOptions, ToolEnvelope, ToolResult
from loomnb.tools.functions import FunctionTool, arguments_of, documented
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
from loomnb.tools.pipeline import INTERCEPTORS, Call, ToolInterception, config_of, execute, intercepted, perform, refuse_in_tool
from loomnb.tools.spec import TOOLS, ToolOptions, ToolSpec, check_name, spec_of
from loomnb.tools.templates import render

__all__ = [
    "INJECTABLE",
    "INTERCEPTORS",
    "TOOLS",
    "BaseTool",
    "Call",
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
    "arguments_of",
    "check_name",
    "check_needs",
    "checked",
    "config_of",
    "container",
    "documented",
    "execute",
    "intercepted",
    "names_of",
    "overrides",
    "perform",
    "provide_for_app",
    "refuse_in_tool",
    "render",
    "resolve",
    "spec_of",
    "supersede",
    "tool",
    "use_tool_interceptor",
]
