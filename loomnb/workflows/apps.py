"""A studio app: a named bundle of workflows that a person can start, and what its runs get for their services."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.asks import Form, form_of
from loomnb.errors import DefinitionError, Refused
from loomnb.names import humanised, snake_case
from loomnb.present import escape, markdown_html, markdown_safe
from loomnb.runtime import REGISTRY, Definition, Registry
from loomnb.tools import Provide, checked, provide_for_app
from loomnb.workflows.base import BaseWorkflow
from loomnb.workflows.define import definition_of
from loomnb.workflows.table import WorkflowDefinition

__all__ = ["APPS", "AppWorkflow", "StudioApp", "StudioAppOptions", "StudioUiConfig", "app_identifier", "register_app"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioUiConfig:
    """What an app shows beside its workflows: `{"widget": name, "options"?: {...}}` each."""

    widgets: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        for widget in self.widgets:
            unknown = [key for key in widget if key not in ("widget", "options")]
            if unknown or not isinstance(widget.get("widget"), str):
                raise DefinitionError(
                    f"{dict(widget)!r} is no widget of an app.", advice='Write {"widget": "its name", "options": {...}}.'
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioAppOptions:
    """Options of `@loom.studio_app`."""

    title: str
    app: str | None = None
    description: str | None = None
    workflows: Sequence[type[BaseWorkflow[Any]]] = ()
    ui: StudioUiConfig | Mapping[str, Any] | None = None
    provide: Provide = field(default_factory=dict[Any, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class AppWorkflow:
    """A workflow of an app, as a person sees it. `form` asks for its arguments; None: it takes none."""

    name: str
    title: str
    description: str
    form: Form | None


def app_identifier(class_name: str) -> str:
    """`HelloModule` → `hello_app`, `CodeAgentAppModule` → `code_agent_app`, `Foo` → `foo`. Rule: contracts/workflows.md §1.15."""
    name = re.sub(r"_module$", "_app", snake_case(class_name))
    return re.sub(r"_app_app$", "_app", name)


class StudioApp:
    """An app: its title, its workflows with their forms, and what stands in for what in its runs."""

    def __init__(self, cls: type, options: StudioAppOptions) -> None:
        where = cls.__qualname__
        if not isinstance(options.title, str) or not options.title.strip():
            raise DefinitionError(f"{where} has no title.", advice='Write @loom.studio_app(title="…").')
        self.name = options.app or app_identifier(cls.__name__)
        self.title = options.title
        self.description = options.description or inspect.cleandoc(vars(cls).get("__doc__") or "")
        ui = options.ui
        self.ui = ui if isinstance(ui, StudioUiConfig) else StudioUiConfig(**(ui or {}))
        self.provide = checked(options.provide)
        names = [definition_of(workflow).name for workflow in options.workflows]
        if len(set(names)) < len(names):
            raise DefinitionError(f"{where} lists a workflow twice: {', '.join(names)}.", advice="List each once.")
        self._names = tuple(names)

    @property
    def workflows(self) -> tuple[AppWorkflow, ...]:
        """Its workflows, in order, with their forms: what a launcher shows. Always as they are defined now."""
        return tuple(_listed(REGISTRY.need(name)) for name in self._names)

    def pick(self, workflow: type[BaseWorkflow[Any]] | str) -> Definition:
        """The definition of one of its workflows.

        Raises:
            Refused: the app does not list it.
        """
        name = workflow if isinstance(workflow, str) else definition_of(workflow).name
        if name not in self._names:
            raise Refused(
                f"The app {self.name!r} has no workflow {name!r}.",
                advice=f"It has: {', '.join(self._names) or 'none'}. List it in @loom.studio_app(workflows=[…]).",
            )
        return REGISTRY.need(name)

    def __repr__(self) -> str:
        lines = [self.title + (f": {self.description}" if self.description else "")]
        for w in self.workflows:
            lines.append(f"  {w.title}" + (f": {w.description.splitlines()[0]}" if w.description else ""))
            lines += [f"    {line}" for line in _fields(w.form)]
            lines.append(f"    start with: .start({w.name!r}{_example(w.form)})")
        return "\n".join(lines) if self._names else f"{lines[0]}\n  It has no workflows."

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.static_bundle()

    def static_bundle(self) -> dict[str, str]:
        """What a page tells of it, as text, HTML and Markdown."""
        return {"text/plain": repr(self), "text/html": self._html(), "text/markdown": self._markdown()}

    def _html(self) -> str:
        items = []
        for w in self.workflows:
            asked = "".join(f"<li>{escape(line)}</li>" for line in _fields(w.form))
            items.append(
                f"<li><strong>{escape(w.title)}</strong>{markdown_html(w.description) if w.description else ''}"
                f"{f'<ul>{asked}</ul>' if asked else ''}<code>.start({escape(repr(w.name) + _example(w.form))})</code></li>"
            )
        about = markdown_html(self.description) if self.description else ""
        return f'<div class="loom-static"><p><strong>{escape(self.title)}</strong></p>{about}<ul>{"".join(items)}</ul></div>'

    def _markdown(self) -> str:
        parts = [f"**{markdown_safe(self.title)}**", *([markdown_safe(self.description)] if self.description else [])]
        for w in self.workflows:
            asked = "".join(f"\n  - {markdown_safe(line)}" for line in _fields(w.form))
            about = f": {markdown_safe(w.description.splitlines()[0])}" if w.description else ""
            parts.append(f"- **{markdown_safe(w.title)}**{about}{asked}")
        return "\n\n".join(parts)


def _listed(definition: Definition) -> AppWorkflow:
    described = definition if isinstance(definition, WorkflowDefinition) else None
    return AppWorkflow(
        name=definition.name,
        title=definition.title or humanised(definition.name),
        description=described.description if described else "",
        form=form_of(described.schema) if described else None,  # the input side: what a person gives, not what it becomes
    )


def _fields(form: Form | None) -> list[str]:
    lines: list[str] = []
    for f in form.fields if form is not None else []:
        what = " / ".join(c.label for c in f.choices) if f.choices else f.kind
        lines.append(f"{f.label} ({what}{'' if f.required else ', optional'})")
    return lines


def _example(form: Form | None) -> str:
    if form is None or not form.fields:
        return ""
    if form.raw:
        return ", …"
    needed = [f"{f.name!r}: …" for f in form.fields if f.required]
    return f", {{{', '.join(needed)}}}" if needed else ""


APPS: Registry[StudioApp] = Registry("studio_app")
"""Every app defined in this process, by name."""


def register_app(app: StudioApp, cls: type) -> None:
    """Make an app known: its services are used from now on, and its stored runs may go on.

    Raises:
        DefinitionError: another app has its name.
    """
    APPS.add(app, cls.__module__, cls.__qualname__)
    provide_for_app(app.name, app.provide)
    REGISTRY.add_app(app.name)
