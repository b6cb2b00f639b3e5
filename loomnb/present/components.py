"""Components that a tool shows beside its answer: their definitions, what is made of them, and who renders them where.

A component is a name, a version and a schema of its props. What is shown (a `Presentation`) is JSON of these; code that draws it
stands with a front end. Rules: contracts/agents.md §3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from loomnb.asks import Shape
from loomnb.errors import DefinitionError, NotFound, NotJson, Refused
from loomnb.jsonvalue import freeze, thaw
from loomnb.present.component_text import json_text

__all__ = [
    "Component",
    "ComponentDefinition",
    "ComponentRegistry",
    "Presentation",
    "checked_component_name",
    "create_component",
    "create_component_registry",
]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,127}")

Renderer = Callable[[Mapping[str, Any], Any], Any]
"""`(props, ctx)` → what the channel shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDefinition:
    """What is known of a component.

    Attributes:
        name: its name, as a front end knows it.
        title: for people.
        description: for a model that may show it.
        props: judges the props, and may change them: what pydantic's TypeAdapter takes, or an object with `parse(value)`.
        version: a positive integer; another version is another thing.
        fallback_text: a function of the props, or a text, for where it cannot be drawn; None: the props as JSON.
        output_props: judges what `props` made; needed where that is no valid input of `props`, or is changed by it again.
        children: whether it holds other components (in a tree).
        internal: shown by code only; a model is never told of it.
        streaming: whether it can be drawn from a part of its props.
    """

    name: str
    title: str = ""
    description: str = ""
    props: Any
    version: int = 1
    fallback_text: str | Callable[[Mapping[str, Any]], str] | None = None
    output_props: Any = None
    children: bool = False
    internal: bool = False
    streaming: bool = False

    def __post_init__(self) -> None:
        checked_component_name(self.name)
        if type(self.version) is not int or self.version < 1:
            raise DefinitionError(f"The component {self.name} has the version {self.version!r}.", advice="A positive integer.")
        for schema in (self.props, self.output_props):
            _adapter_of(schema, self.name)

    def made(self, props: Any) -> dict[str, Any]:
        """The JSON props of what somebody gave, judged and changed by `props`, once.

        Raises:
            Refused: they do not fit, or are no JSON object.
            DefinitionError: `props` changes what it made itself, and there is no `output_props`.
        """
        out = self._json(_parse(self.props, props, self.name))
        if self.output_props is not None:
            return self.check(out)
        try:
            again = self._json(_parse(self.props, thaw(out), self.name))
        except Refused:
            again = None
        if _canonical(again) != _canonical(out):
            raise DefinitionError(
                f"The component {self.name} changes its props, and would do so again to what it made.",
                advice="Give output_props=, the schema of what props= makes.",
            )
        return out

    def check(self, props: Any) -> dict[str, Any]:
        """Props that were made before, judged and copied; nothing is changed any more (of built-in ones, the writing of names).

        Raises:
            Refused: they do not fit, or are no JSON object.
        """
        parsed = _parse(self.output_props if self.output_props is not None else self.props, props, self.name)
        return self._json(parsed if isinstance(parsed, Shape) else dict(props))

    def text(self, props: Mapping[str, Any]) -> str:
        """The text of props that fit. One that cannot be had is the props as JSON below the title, whole."""
        try:
            told = self.fallback_text(props) if callable(self.fallback_text) else self.fallback_text
        except Exception:  # noqa: BLE001  # the author's own code
            told = None
        return told if isinstance(told, str) else json_text(self.title or self.name, props)

    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the props; None where it cannot be said."""
        adapter = _adapter_of(self.props, self.name)
        told = getattr(self.props, "json_schema", None) if adapter is None else None
        try:
            told = adapter.json_schema() if adapter is not None else told() if callable(told) else told
        except Exception:  # noqa: BLE001  # a schema of the author's that JSON Schema cannot say
            return None
        return cast("dict[str, Any]", thaw(freeze(dict(told)))) if isinstance(told, Mapping) else None

    def _json(self, parsed: Any) -> dict[str, Any]:
        try:
            frozen = freeze(_dumped(parsed))
        except NotJson as exc:
            raise Refused(f"The props of {self.name} are no JSON: {exc.message}", advice=exc.advice) from exc
        if not isinstance(frozen, dict):
            raise Refused(f"The props of {self.name} are no JSON object.", advice="Its schema has to give one.")
        return cast("dict[str, Any]", thaw(frozen))


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """A component with its props: what a `present` hook gives. `props` are JSON."""

    component: str
    props: Mapping[str, Any]
    version: int = 1
    fallback_text: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON."""
        text = {} if self.fallback_text is None else {"fallbackText": self.fallback_text}
        return {"component": self.component, "props": thaw(dict(self.props)), "version": self.version, **text}


class Component:
    """A component that can be called with its props: `table(columns=[…], rows=[…])`, or with one dict of them.

    Attributes:
        definition: what is known of it.
    """

    def __init__(self, definition: ComponentDefinition) -> None:
        self.definition = definition

    def __call__(self, props: Mapping[str, Any] | BaseModel | None = None, /, **more: Any) -> Presentation:
        """What is to be shown.

        Raises:
            Refused: the props do not fit; all that is wrong is told by its place.
        """
        given: Any = {**(props or {}), **more} if props is None or isinstance(props, Mapping) else props
        made = self.definition.made(given)
        name, version = self.definition.name, self.definition.version
        return Presentation(component=name, props=made, version=version, fallback_text=self.definition.text(made))

    def __repr__(self) -> str:
        return f"<component {self.definition.name}>"


def create_component(definition: ComponentDefinition | None = None, /, **parts: Any) -> Component:
    """A component of a definition, or of its parts: `create_component(name="Score", title="Score", props=Score)`.

    Raises:
        DefinitionError: it cannot work, or has a part that is not known.
    """
    if definition is not None:
        return Component(definition)
    known = set(ComponentDefinition.__dataclass_fields__)
    unknown = sorted(parts.keys() - known)
    if unknown or "name" not in parts or "props" not in parts:
        wrong = f"has no {', '.join(map(repr, unknown))}" if unknown else "needs a name and props"
        raise DefinitionError(
            f"A component {wrong}.", advice=f"Its parts: {', '.join(ComponentDefinition.__dataclass_fields__)}."
        )
    return Component(ComponentDefinition(**parts))


class ComponentRegistry:
    """The components of one app, and what renders each where (`channel`: `text`, `html`, a chat's name, …)."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ComponentDefinition, dict[str, Renderer]]] = {}

    def register(
        self, component: Component | ComponentDefinition, renderers: Mapping[str, Renderer] | None = None
    ) -> ComponentRegistry:
        """Make a component known here; gives the registry itself.

        Args:
            component: it, or its definition.
            renderers: channel → `(props, ctx)` → what is shown there.

        Raises:
            DefinitionError: there is one of its name.
        """
        definition = component.definition if isinstance(component, Component) else component
        if definition.name in self._known:
            raise DefinitionError(f"There is a component {definition.name} already.", advice="Give it a name of its own.")
        self._known[definition.name] = definition, dict(renderers or {})
        return self

    @property
    def catalog(self) -> tuple[ComponentDefinition, ...]:
        """Every definition, in the order of registration."""
        return tuple(definition for definition, _ in self._known.values())

    @property
    def manifest(self) -> list[dict[str, Any]]:
        """What a front end may know of each: `{"name", "title", "description", "version", "schema"?}`. Plain JSON, no code."""
        told = []
        for one in self.catalog:
            schema = one.schema()
            plain = {"name": one.name, "title": one.title, "description": one.description, "version": one.version}
            told.append({**plain, **({} if schema is None else {"schema": schema})})
        return told

    def render(self, presentation: Presentation | Mapping[str, Any], channel: str, ctx: Any = None) -> Any:
        """What a channel shows of a presentation: of the definition that is registered here, whatever the presentation says.

        Args:
            presentation: what to show; its own fallback text is not believed.
            channel: where. One that the component has no renderer for gets its `text` renderer, or its fallback text.
            ctx: handed to the renderer.

        Raises:
            NotFound: no such component is registered.
            Refused: it is of another version, or its props do not fit. No renderer ran.
            Exception: what the renderer raised.
        """
        shown = presentation.to_json() if isinstance(presentation, Presentation) else presentation
        found = self._known.get(str(shown.get("component")))
        if found is None:
            raise NotFound(f"There is no component {shown.get('component')!r} here.", advice=f"Known: {', '.join(self._known)}.")
        definition, renderers = found
        _check_version(definition, shown.get("version", 1))
        props = definition.check(shown.get("props"))
        renderer = renderers.get(channel) or renderers.get("text")
        return renderer(props, ctx) if renderer is not None else definition.text(props)


def create_component_registry(components: Iterable[Component | ComponentDefinition] = ()) -> ComponentRegistry:
    """A registry of its own, with components that are drawn by the front end alone.

    Raises:
        DefinitionError: two have one name.
    """
    registry = ComponentRegistry()
    for component in components:
        registry.register(component)
    return registry


def checked_component_name(name: Any) -> str:
    """A name that a component may have.

    Raises:
        DefinitionError: it is none.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{name!r} is no component's name.", advice="Letters, digits, _ . : and -, beginning with a letter, 128 at the most."
        )
    return name


def _check_version(definition: ComponentDefinition, version: Any) -> None:
    if type(version) is not int or version != definition.version:
        raise Refused(
            f"{definition.name} is known here in version {definition.version}, not {version!r}.",
            advice="Make it with the component of this version.",
        )


# -- props -------------------------------------------------------------------------------------------------


def _own(schema: Any) -> bool:
    return not isinstance(schema, (type, TypeAdapter)) and callable(getattr(schema, "parse", None))


def _adapter_of(schema: Any, name: str) -> TypeAdapter[Any] | None:
    if schema is None or _own(schema):
        return None
    try:
        return schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    except Exception as exc:  # whatever the author's types raise
        raise DefinitionError(
            f"The component {name}: {schema!r} cannot judge props: {str(exc).splitlines()[0]}",
            advice="Give a pydantic model, a TypedDict, or an object with `parse`.",
        ) from exc


def _parse(schema: Any, props: Any, name: str) -> Any:
    if not isinstance(props, (Mapping, BaseModel)):
        raise Refused(f"The props of {name} are {props!r}, not a JSON object.", advice="Give a dict.")
    given = thaw(dict(props)) if isinstance(props, Mapping) else props
    adapter = _adapter_of(schema, name)
    try:
        return adapter.validate_python(given) if adapter is not None else schema.parse(given) if schema is not None else given
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"  {'.'.join(map(str, one['loc'])) or '(root)'}: {one['msg']}" for one in found]
        raise Refused("\n".join([f"These props do not fit {name}:", *lines])) from exc
    except Exception as exc:
        raise Refused(f"These props do not fit {name}: {exc}") from exc


def _dumped(parsed: Any) -> Any:
    if isinstance(parsed, Shape):
        return parsed.dump()
    if isinstance(parsed, BaseModel):
        return parsed.model_dump(mode="json", by_alias=True)
    return dict(parsed) if isinstance(parsed, Mapping) else parsed


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
