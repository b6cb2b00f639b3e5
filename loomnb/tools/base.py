"""The classes tools extend: one that runs here, one that a model's provider runs."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from typing import Any, Generic

from pydantic import BaseModel
from typing_extensions import TypeVar

from loomnb.documents import DocumentStore
from loomnb.errors import Refused
from loomnb.runtime import current_attempt
from loomnb.tools.envelope import Callback, ToolCallOptions, ToolEnvelope, ToolResult
from loomnb.tools.pipeline import Call, config_of, perform, prepare
from loomnb.tools.spec import spec_of
from loomnb.tools.templates import render

__all__ = ["DOCUMENTS", "BaseTool", "ServerTool"]

TArgs = TypeVar("TArgs", default=Any)
TConfig = TypeVar("TConfig", default=Any)
TResult = TypeVar("TResult", default=Any)
TMeta = TypeVar("TMeta", default=dict[str, Any])

DOCUMENTS = DocumentStore(current_attempt)


class BaseTool(Generic[TArgs, TConfig, TResult, TMeta]):
    """Base of tool classes: write `handle`, and let others `await tool.call(args)`.

    One instance serves every run of an app, so what is kept on `self` is shared by them. A tool may save documents of the
    run that calls it; it cannot set the run's state or result.

    `handle(self, args, ctx, options)` gets the judged arguments, what is known of the run, and the options of the call with
    their judged `config`; trailing parameters may be left out. It returns a `ToolEnvelope`. It may be sync (it then runs in a
    thread) or async.
    """

    __loom_injectable__ = True

    @property
    def name(self) -> str:
        """The tool's identifier."""
        return spec_of(self).name

    @property
    def document_store(self) -> DocumentStore:
        """The documents of the run that calls."""
        return DOCUMENTS

    def render(self, path: str | os.PathLike[str], data: Mapping[str, Any] | BaseModel | None = None) -> str:
        """The text of a Jinja2 template file; a relative path starts at the file of this class, in a notebook at the working
        directory. Values are escaped in `.html` files only; a missing one is empty.

        Raises:
            NotFound: there is no such file.
            DefinitionError: the template is wrong; names file and line.
        """
        return render(type(self), path, data)

    def handle(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work: `handle(self, args, ctx, options)`. Every tool class has its own."""
        raise NotImplementedError(f"{type(self).__qualname__} has no handle method.")

    @property
    def body(self) -> Any:
        """What a call runs."""
        return self.handle

    def call(
        self,
        args: TArgs | Mapping[str, Any] | None = None,
        options: ToolCallOptions[TConfig] | Mapping[str, Any] | None = None,
        *,
        config: TConfig | Mapping[str, Any] | None = None,
        callback: Callback | Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, ToolResult[TResult, TMeta]]:
        """Call the tool: `result = await tool.call({"a": 1})`, then `result.data`.

        The arguments are copied and judged now; what is returned is awaited for the work. So it needs an async body.

        Args:
            args: the arguments; None is `{}`.
            options: the keyword options in one object.
            config: the configuration, judged by the tool's config schema, whose defaults always apply.
            callback: handed to `handle` untouched, for tools that start sub-workflows.

        Raises:
            ArgsInvalid: arguments or configuration do not fit; the tool did not run.
            Refused: the body that calls is sync.
            ToolFailed: (awaited) the tool answered with an error.
            ToolPending: (awaited) it started a sub-workflow, whose result `call` cannot wait for.
        """
        if options is not None and (config is not None or callback is not None):
            raise Refused("Options were given twice.", advice="Give options=, or config= and callback=.")
        given: Any = options if options is not None else ToolCallOptions(callback=callback, config=config)
        return self._called(prepare(self, args, ToolCallOptions.of(given)))

    async def _called(self, call: Call) -> ToolResult[TResult, TMeta]:
        return (await perform(call)).narrowed(call.spec.name)

    async def complete(self, result: Mapping[str, Any]) -> ToolEnvelope[Any, Any]:
        """The envelope of a pending call whose sub-workflow has ended. For tools that want another one than the default.

        Args:
            result: how it ended: `{"workflowId", "status", "hasError", "errorMessage", "data", "meta"}`. By default its data is
                the tool's, and where there is none the whole.
        """
        data = result.get("data")
        return ToolEnvelope(data=data if data is not None else dict(result))


class ServerTool(Generic[TConfig]):
    """Base of tools that the model's provider runs: it only says how they are switched on."""

    __loom_injectable__ = True

    @property
    def name(self) -> str:
        """The tool's identifier."""
        return spec_of(self).name

    def to_server_tool_config(self, config: TConfig) -> Any:
        """The provider's own description of the tool. Every server tool class has its own.

        Args:
            config: what the config schema parsed, defaults included; without a schema None, or what was given.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no to_server_tool_config method.")

    def server_config(self, config: TConfig | Mapping[str, Any] | None = None) -> Any:
        """The provider's description of the tool for a configuration, which is judged first.

        Raises:
            ArgsInvalid: it does not fit.
        """
        return self.to_server_tool_config(config_of(spec_of(self), config))
