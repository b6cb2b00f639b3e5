"""`@loom.workflow`: check the class, give it its name, register it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from loomnb.documents import WidgetRef
from loomnb.errors import DefinitionError, NotFound
from loomnb.names import notebook_name, snake_case
from loomnb.runtime import REGISTRY, Definition
from loomnb.tools import check_needs, names_of, supersede
from loomnb.workflows.base import DEFINITION, BaseWorkflow
from loomnb.workflows.table import WorkflowDefinition, compile_workflow

__all__ = ["WorkflowOptions", "definition_of", "know", "refine", "workflow"]

W = TypeVar("W", bound=BaseWorkflow[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOptions:
    """Options of `@loom.workflow`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    schema: Any = None
    config_schema: Any = None
    state_schema: Any = None
    step_limit: int = 1000
    widget: WidgetRef | Sequence[WidgetRef] | None = None


@overload
def workflow(cls: type[W], /) -> type[W]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    schema: Any = None,
    config_schema: Any = None,
    state_schema: Any = None,
    step_limit: int = 1000,
    widget: WidgetRef | Sequence[WidgetRef] | None = None,
) -> Callable[[type[W]], type[W]]: ...
def workflow(
    cls: type[Any] | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    schema: Any = None,
    config_schema: Any = None,
    state_schema: Any = None,
    step_limit: int = 1000,
    widget: WidgetRef | Sequence[WidgetRef] | None = None,
) -> Any:
    """Define a workflow. The class is checked now; running its cell again replaces it, and stored runs go on with the new one.

    Args:
        cls: the class, when used without parentheses.
        name: the identifier; default: the class name without `Workflow`, in snake case.
        title: what people read; default: from the name.
        description: for people; default: the docstring.
        schema: judges and parses the args, once, when a run starts; what pydantic's TypeAdapter takes.
        config_schema: judges `config=` of a start, once; its defaults always apply. `ctx.config` is what it parses to.
        state_schema: judges the state after each transition; what it parses to is stored.
        step_limit: moves a run may make without coming to rest.
        widget: how the questions of its wait transitions are drawn: paths of YAML files, relative to the class's, or mappings.

    Raises:
        DefinitionError: the class cannot work, or its name is taken.
    """
    options = WorkflowOptions(
        name=name,
        title=title,
        description=description,
        schema=schema,
        config_schema=config_schema,
        state_schema=state_schema,
        step_limit=step_limit,
        widget=widget,
    )
    namespace = names_of(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # annotations may be text

    def define(cls: type[W]) -> type[W]:
        if not (isinstance(cls, type) and issubclass(cls, BaseWorkflow)):
            raise DefinitionError(f"{cls!r} is no workflow class.", advice="Let it extend loom.BaseWorkflow.")
        module = cls.__module__
        check_needs(cls, namespace)
        definition = compile_workflow(
            cls,
            name=options.name or snake_case(cls.__name__, "_workflow"),
            title=options.title,
            description=options.description,
            schema=options.schema,
            config_schema=options.config_schema,
            state_schema=options.state_schema,
            step_limit=options.step_limit,
            widget=options.widget,
            origin=(notebook_name() or module) if module == "__main__" else module,
        )
        old = REGISTRY.get(definition.name)
        REGISTRY.add(definition, module, cls.__qualname__)
        if isinstance(old, WorkflowDefinition):
            supersede(old.cls, cls)
        setattr(cls, DEFINITION, definition)
        return cls

    return define(cls) if cls is not None else define


def know(cls: type[BaseWorkflow[Any]]) -> None:
    """Make a decorated class known under its name, unless it is."""
    definition = vars(cls)[DEFINITION]
    if REGISTRY.get(definition.name) is not definition:
        REGISTRY.add(definition, cls.__module__, cls.__qualname__)


def refine(kind: type[WorkflowDefinition]) -> Callable[[type[W]], type[W]]:
    """Give a decorated class a definition of another kind: one that asks, or accepts, in its own way."""

    def refined(cls: type[W]) -> type[W]:
        plain = vars(cls)[DEFINITION]
        setattr(cls, DEFINITION, kind(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}))
        know(cls)
        return cls

    return refined


def definition_of(workflow: type[BaseWorkflow[Any]] | str) -> Definition:
    """The definition of a class, or of a name.

    Raises:
        NotFound: no workflow has the name.
        DefinitionError: the class was not decorated.
    """
    if isinstance(workflow, str):
        return REGISTRY.need(workflow)
    definition = vars(workflow).get(DEFINITION) if isinstance(workflow, type) else None
    if not isinstance(definition, WorkflowDefinition):
        advice = "Decorate the class with @loom.workflow. A blueprint is started with loom.flow(blueprint, intent)."
        if isinstance(workflow, BaseWorkflow):
            advice = f"Pass the class itself, without brackets: {type(workflow).__qualname__}."
        raise DefinitionError(
            f"{getattr(workflow, '__qualname__', type(workflow).__qualname__)!r} is no workflow class.", advice=advice
        )
    registered = REGISTRY.get(definition.name)
    if registered is None:
        raise NotFound(f"The workflow {definition.name!r} is not registered.")
    return definition
