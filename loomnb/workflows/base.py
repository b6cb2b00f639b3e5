"""The class a workflow extends: the four setters and the documents of the run at work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from loomnb.documents import DocumentStore
from loomnb.errors import DefinitionError
from loomnb.present import Graph
from loomnb.runtime import Definition, Show, current_attempt, definition_graph
from loomnb.tools import Callback, QueueResult, refuse_in_tool, render

__all__ = ["DEFINITION", "BaseWorkflow", "Callback", "QueueResult", "RunOptions"]

TArgs = TypeVar("TArgs")


DEFINITION = "__loom_workflow__"
"""Where `@loom.workflow` puts the definition of a class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of starting a sub-workflow; see `BaseWorkflow.run`."""

    callback: Callback | Mapping[str, Any] | None = None
    show: Show = "inline"
    label: str | None = None
    config: Any = None


class BaseWorkflow(Generic[TArgs]):
    """Base of workflow classes.

    One instance serves every run: keep nothing of a run on `self`. A transition gets `(state, ctx)`, a wait transition
    `(state, input, ctx)`; trailing parameters may be left out. It returns nothing and writes with the four setters, which
    take effect at once and are dropped together if the transition fails.

    Tools, sub-workflows and services are taken in the constructor, by annotation: `def __init__(self, mail: MailTool)`; a tool
    or sub-workflow may also be an annotated attribute of the class, `mail: MailTool`.
    """

    __loom_injectable__ = True

    @property
    def document_store(self) -> DocumentStore:
        """The documents of the run at work."""
        return _DOCUMENTS

    @classmethod
    def graph(cls) -> Graph:
        """The picture of its places and transitions, drawn from the table the run loop reads.

        Raises:
            DefinitionError: the class was not decorated.
        """
        return definition_graph(_definition(cls))

    def render(self, path: str | os.PathLike[str], data: Mapping[str, Any] | BaseModel | None = None) -> str:
        """The text of a Jinja2 template file; a relative path starts at the file of this class, in a notebook at the working
        directory. Values are escaped in `.html` files only; a missing one is empty.

        Raises:
            NotFound: there is no such file.
            DefinitionError: the template is wrong; names file and line.
        """
        return render(type(self), path, data)

    def run(
        self,
        input: Any = None,  # noqa: A002  # the seed's word
        options: RunOptions | None = None,
        *,
        callback: Callback | Mapping[str, Any] | None = None,
        show: Show = "inline",
        label: str | None = None,
        config: Any = None,
    ) -> QueueResult:
        """Start this workflow as a sub-workflow of the run at work: `Child().run(input, callback={"transition": "child_done"})`.

        It starts with the commit of the transition that calls this, or not at all. Returns at once; awaiting the result is
        allowed. When the child has completed, failed or was canceled, `callback["transition"]`, a wait transition of the
        parent, is resumed with its result as `input.data` and `callback["metadata"]` as `input.meta`. Without a callback the
        parent never hears of it.

        Args:
            input: its arguments, judged now; copied.
            options: the keyword options in one object.
            callback: `{"transition": name, "metadata"?: JSON}`.
            show: in the parent's panel: `inline`, as a `link`, or `hidden`.
            label: what people read; default: its title.
            config: its configuration, judged by its config schema; `ctx.config` in its transitions.

        Raises:
            ArgsInvalid: the arguments or the configuration do not fit.
            Refused: no transition is at work, or the callback names no wait transition of the parent.
            DefinitionError: the class was not decorated.
        """
        o = options or RunOptions(callback=callback, show=show, label=label, config=config)
        child = current_attempt().start_child(
            _definition(type(self)), input, callback=o.callback, show=o.show, label=o.label, config=o.config
        )
        return QueueResult(workflow_id=child)

    def assign_state(self, partial: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        """Merge keys into the state, shallowly.

        Raises:
            NotJson: a value JSON cannot hold.
            OwnershipLost: the transition was stopped.
            Refused: no transition is at work, or a tool is.
        """
        refuse_in_tool("state")
        current_attempt().assign_state({**(partial if partial is not None else {}), **values} if values else _mapping(partial))

    def set_state(self, full: Mapping[str, Any], /) -> None:
        """Replace the state. Raises as `assign_state` does."""
        refuse_in_tool("state")
        current_attempt().set_state(full)

    def assign_result(self, partial: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        """Merge keys into the run's result, shallowly. Raises as `assign_state` does."""
        refuse_in_tool("result")
        current_attempt().assign_result({**(partial if partial is not None else {}), **values} if values else _mapping(partial))

    def set_result(self, full: Any, /) -> None:
        """Replace the run's result; any JSON value. Raises as `assign_state` does."""
        refuse_in_tool("result")
        current_attempt().set_result(full)


def _definition(cls: type[BaseWorkflow[Any]]) -> Definition:
    definition: Definition | None = vars(cls).get(DEFINITION)
    if definition is None:
        raise DefinitionError(f"{cls.__qualname__} is no workflow.", advice="Decorate the class with @loom.workflow.")
    return definition


def _mapping(partial: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if partial is None else partial


_DOCUMENTS = DocumentStore(current_attempt)
