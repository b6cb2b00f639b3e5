"""Tools with which a model shows components itself: one for each, one for any, and one for a tree of them.

What a client cannot draw is not offered to the model in its turns; what it shows all the same is refused as an unknown tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loomnb.agents.functional import FunctionalTool, create_functional_tool
from loomnb.agents.spi import ToolContext, ToolScope
from loomnb.errors import Refused
from loomnb.names import snake_case
from loomnb.present import TREE, Component, ComponentDefinition, ComponentRegistry, judge_ui, negotiate_catalog

__all__ = ["ui_tools"]

_NODE = {
    "type": "object",
    "required": ["component"],
    "additionalProperties": False,
    "properties": {
        "component": {"type": "string"},
        "props": {"type": "object"},
        "children": {"type": "array", "items": {"$ref": "#/definitions/node"}},
    },
}
_ROOT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["root"],
    "additionalProperties": False,
    "properties": {"root": {"$ref": "#/definitions/node"}},
    "definitions": {"node": _NODE},
}
_ANY = {
    "type": "object",
    "required": ["component", "props"],
    "additionalProperties": False,
    "properties": {"component": {"type": "string"}, "props": {"type": "object"}},
}


def ui_tools(
    catalog: ComponentRegistry | Iterable[Component | ComponentDefinition],
    *,
    each: bool = True,
    generic: bool = False,
    tree: bool = False,
) -> list[FunctionalTool]:
    """Tools of the kind `read` that show the components of a catalog; internal ones are shown by none of them.

    Args:
        catalog: the components; what is added to a registry later is known to `ui__show` and `ui__render` only.
        each: `ui__show_<name>` for every component that holds no others; its input is the component's props.
        generic: `ui__show`: `{component, props}`.
        tree: `ui__render`: `{root: {component, props, children}}`, drawn whole or told as text.

    Raises:
        DefinitionError: the props of a component cannot judge an input.
    """
    known = catalog if isinstance(catalog, ComponentRegistry) else tuple(catalog)
    tools: list[FunctionalTool] = []
    if each:
        tools += [_show_one(one) for one in negotiate_catalog(known, None) if not one.children]
    if generic:
        tools.append(_show_any(known))
    if tree:
        tools.append(_render(known))
    return tools


def _show_one(definition: ComponentDefinition) -> FunctionalTool:
    def execute(props: Mapping[str, Any], ctx: ToolContext) -> Mapping[str, str]:
        return _show(ctx, definition, props)

    def describe(scope: ToolScope) -> Mapping[str, Any]:
        return {"available": bool(negotiate_catalog([definition], scope.ui_capabilities))}

    return create_functional_tool(
        name=f"ui__show_{re.sub('[^a-z0-9_]', '_', snake_case(definition.name))}",
        description=f"Show the person: {definition.title or definition.name}. {definition.description}".strip(),
        input=_Props(definition),
        execute=execute,
        describe=describe,
    )


class _Props:
    """Judges the props of a component, and leaves them as they are: they are made when they are shown, once."""

    def __init__(self, definition: ComponentDefinition) -> None:
        self._definition = definition
        self.json_schema = definition.schema() or {"type": "object"}

    def parse(self, value: Any) -> Any:
        self._definition.made(value)
        return value


def _show_any(catalog: Any) -> FunctionalTool:
    def execute(given: Mapping[str, Any], ctx: ToolContext) -> Mapping[str, str]:
        name = given["component"]
        known = {one.name: one for one in negotiate_catalog(catalog, ctx.ui_capabilities) if not one.children}
        if name not in known:
            raise Refused(f"There is no component {name!r} to show.", advice=f"One of: {', '.join(known) or 'none'}.")
        return _show(ctx, known[name], given["props"])

    return create_functional_tool(
        name="ui__show",
        description="Show the person a component.",
        input=_ANY,
        execute=execute,
        describe=_telling(catalog, "Show the person one component.", lambda one: not one.children),
    )


def _show(ctx: ToolContext, definition: ComponentDefinition, props: Any) -> Mapping[str, str]:
    made = definition.made(props)
    shown = ctx.emit_ui(definition.name, made, version=definition.version, fallback_text=definition.text(made))
    return {"shown": definition.name, "id": shown["id"]}


def _render(catalog: Any) -> FunctionalTool:
    def execute(given: Mapping[str, Any], ctx: ToolContext) -> Mapping[str, str]:
        known = negotiate_catalog(catalog, ctx.ui_capabilities)
        made = {"root": _made(given["root"], {one.name: one for one in known})}
        tree = judge_ui(known, None, TREE, made)
        shown = ctx.emit_ui(TREE, tree.props, version=1, fallback_text=tree.text, component_versions=tree.component_versions)
        return {"shown": TREE, "id": shown["id"]}

    return create_functional_tool(
        name="ui__render",
        description="Show the person a tree of components.",
        input=_ROOT,
        execute=execute,
        describe=_telling(catalog, "Show the person a tree of components; those that hold others take children.", lambda _: True),
    )


def _made(node: Mapping[str, Any], known: Mapping[str, ComponentDefinition]) -> dict[str, Any]:
    """A node of a model's with its props made, once, and so down to the leaves. What is unknown is refused with the tree."""
    definition = known.get(node["component"])
    props = node.get("props", {})
    children = [_made(child, known) for child in node.get("children", ())]
    return {**node, "props": props if definition is None else definition.made(props), "children": children}


def _telling(catalog: Any, what: str, wanted: Callable[[ComponentDefinition], bool]) -> Callable[[ToolScope], Mapping[str, Any]]:
    def describe(scope: ToolScope) -> Mapping[str, Any]:
        can = [one for one in negotiate_catalog(catalog, scope.ui_capabilities) if wanted(one)]
        lines = [f"- {one.name}{' (holds others)' if one.children else ''}: {one.description or one.title}" for one in can]
        return {"available": bool(can), "description": "\n".join([what, "Components:", *lines])}

    return describe
