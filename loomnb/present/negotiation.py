"""Which components a client can draw, and what becomes of those it cannot. Rules: contracts/agents.md §3, Negotiation.

A client says what it draws: `{"components": [{"name", "version"}]}`. Nothing said: nothing is negotiated, and all is drawn. An
empty list: text only. What is pushed is judged by the server's catalog in either case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loomnb.errors import InvalidRequest, NotJson, Refused
from loomnb.jsonvalue import freeze, thaw
from loomnb.present.components import Component, ComponentDefinition, ComponentRegistry, checked_component_name

__all__ = ["TREE", "JudgedUi", "check_ui_capabilities", "judge_ui", "negotiate_catalog", "storable_text"]

TREE = "genui:tree"
"""The component that is a tree of others: props `{"root": {"component", "props", "version"?, "children"?}}`."""

_MOST_NODES = 1_000
_LARGEST = 2**53 - 1

Catalog = ComponentRegistry | Iterable[Component | ComponentDefinition]


def check_ui_capabilities(value: Any) -> dict[tuple[str, int], None] | None:
    """What a client says it draws, as (name, version) in its order; None where it says nothing (the key is absent).

    Args:
        value: what came with the request; None only where nothing came.

    Raises:
        InvalidRequest: it is something else: another key, a version that is no positive integer, an entry twice.
    """
    if value is None:
        return None
    entries = value.get("components") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or set(value) != {"components"} or not isinstance(entries, (list, tuple)):
        raise _wrong("it is {'components': [...]} and nothing else")
    found: dict[tuple[str, int], None] = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or set(entry) != {"name", "version"}:
            raise _wrong(f"{entry!r} is not {{'name', 'version'}}")
        name, version = entry["name"], entry["version"]
        try:
            checked_component_name(name)
        except Refused as exc:
            raise _wrong(exc.message) from exc
        if type(version) is not int or not 0 < version <= _LARGEST:
            raise _wrong(f"the version of {name} is {version!r}")
        if (name, version) in found:
            raise _wrong(f"{name} {version} is there twice")
        found[name, version] = None
    return found


def _wrong(why: str) -> InvalidRequest:
    return InvalidRequest(f"These UI capabilities cannot be: {why}.", advice="Send the components that are drawn, or nothing.")


def _definitions(catalog: Catalog) -> tuple[ComponentDefinition, ...]:
    if isinstance(catalog, ComponentRegistry):
        return catalog.catalog
    return tuple(one.definition if isinstance(one, Component) else one for one in catalog)


def negotiate_catalog(catalog: Catalog, capabilities: Any) -> tuple[ComponentDefinition, ...]:
    """The components that a model may show to this client, in the catalog's order. Internal ones are never among them.

    Args:
        catalog: all there are here.
        capabilities: what the client says; None: everything.

    Raises:
        InvalidRequest: the capabilities cannot be.
    """
    can = check_ui_capabilities(capabilities)
    return tuple(one for one in _definitions(catalog) if not one.internal and (can is None or (one.name, one.version) in can))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedUi:
    """A component that is to be shown, judged.

    Attributes:
        is_drawable: whether the client draws it; else `text` is shown in its place.
        props: JSON.
        version: None where nobody said it and there is no catalog.
        text: what stands for it: that of the catalog, else what was given with it.
        component_versions: of a tree: the version of each component in it.
    """

    is_drawable: bool
    component: str
    props: Mapping[str, Any]
    version: int | None = None
    text: str | None = None
    component_versions: Mapping[str, int] | None = None


def judge_ui(
    catalog: Catalog | None,
    capabilities: Any,
    component: str,
    props: Any,
    *,
    version: int | None = None,
    fallback_text: str | None = None,
) -> JudgedUi:
    """Judge a component that code or a model shows, and say whether the client draws it. A tree is drawn whole or not at all.

    Args:
        catalog: all there are here; None: nothing is known of components, and what is shown is taken as it is.
        capabilities: what the client says; None: it draws everything.
        component: the name; `genui:tree` for a tree.
        props: its props.
        version: which it was made for; None: that of the catalog.
        fallback_text: what stands for it, where the catalog does not say it.

    Raises:
        Refused: it is unknown, of another version, or its props do not fit, even where only its text would be shown; or the
            client says what it draws, and there is no catalog to judge by.
        InvalidRequest: the capabilities cannot be.
    """
    can = check_ui_capabilities(capabilities)
    if catalog is None:
        if can is not None:
            raise Refused(
                f"{component} cannot be shown: the client says what it draws, and nothing here knows components.",
                advice="Give the agent a catalog of components.",
            )
        return JudgedUi(is_drawable=True, component=component, props=props, version=version, text=fallback_text)
    known = {one.name: one for one in _definitions(catalog)}
    if component == TREE and TREE not in known:
        return _tree(known, can, props, version, fallback_text)
    definition = _known(known, component, version, component)
    judged = definition.check(props)
    return JudgedUi(
        is_drawable=can is None or (component, definition.version) in can,
        component=component,
        props=judged,
        version=definition.version,
        text=_text(fallback_text, definition, judged),
    )


def _text(given: str | None, definition: ComponentDefinition, props: Mapping[str, Any]) -> str:
    return definition.text(props) if given is None else given


def _known(known: Mapping[str, ComponentDefinition], name: Any, version: Any, where: str) -> ComponentDefinition:
    definition = known.get(name) if isinstance(name, str) else None
    if definition is None:
        raise Refused(f"{where}: there is no component {name!r}.", advice=f"Known: {', '.join(known) or 'none'}.")
    if version is not None and (type(version) is not int or version != definition.version):
        raise Refused(f"{where}: {name} is known here in version {definition.version}, not {version!r}.")
    return definition


# -- trees -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    definition: ComponentDefinition
    json: dict[str, Any]
    children: list[_Node]

    def each(self) -> Iterator[_Node]:
        yield self
        for child in self.children:
            yield from child.each()

    def lines(self) -> Iterator[str]:
        """Its own text, then that of what it holds, line by line; what says nothing takes no line."""
        for node in self.each():
            own = node.definition.text(node.json["props"])
            if own:
                yield own


def _tree(
    known: Mapping[str, ComponentDefinition],
    can: Mapping[tuple[str, int], None] | None,
    props: Any,
    version: int | None,
    fallback_text: str | None,
) -> JudgedUi:
    if version not in (None, 1):
        raise Refused(f"{TREE} is known here in version 1, not {version!r}.")
    if not isinstance(props, Mapping) or set(props) != {"root"}:
        raise Refused(f"The props of {TREE} are {{'root': …}} and nothing else.")
    try:
        root = _node(known, thaw(freeze(dict(props)))["root"], "root", [0])
    except NotJson as exc:
        raise Refused(f"The props of {TREE} are no JSON: {exc.message}", advice=exc.advice) from exc
    nodes = [*root.each()]
    return JudgedUi(
        is_drawable=can is None or all((node.definition.name, node.definition.version) in can for node in nodes),
        component=TREE,
        props={"root": root.json},
        version=1,
        text="\n".join(root.lines()) if fallback_text is None else fallback_text,
        component_versions={node.definition.name: node.definition.version for node in nodes},
    )


def _node(known: Mapping[str, ComponentDefinition], value: Any, where: str, count: list[int]) -> _Node:
    count[0] += 1
    if count[0] > _MOST_NODES:
        raise Refused(f"The tree has more than {_MOST_NODES:,} components.")
    if not isinstance(value, dict) or not set(value) <= {"component", "props", "version", "children"}:
        raise Refused(f"{where} is no component of a tree.", advice='It is {"component", "props", "children"?, "version"?}.')
    definition = _known(known, value.get("component"), value.get("version"), where)
    try:
        props = definition.check(value.get("props", {}))
    except Refused as exc:
        raise Refused(f"{where}: {exc.message}", advice=exc.advice) from exc
    held = value.get("children", [])
    if not isinstance(held, list):
        raise Refused(f"{where}: its children are {held!r}, not a list.")
    if held and not definition.children:
        raise Refused(f"{where}: {definition.name} holds nothing.", advice="Put them into one that does, such as Stack.")
    children = [_node(known, child, f"{where}.children.{i}", count) for i, child in enumerate(held)]
    json: dict[str, Any] = {"component": definition.name, "props": props, "version": definition.version}
    return _Node(definition, json | ({"children": [child.json for child in children]} if children else {}), children)


def storable_text(text: str) -> str:
    """A text that every store and every encoder takes: NUL and halves of surrogate pairs are written as their escapes."""
    return re.sub("[\x00\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
