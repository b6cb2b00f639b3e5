"""What a tool shows beside its answer: pushes are judged, kept as they were, and collected for the call's result.

Nothing is shown at once: pushes ride the result of the tool's step, so that a replay shows the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loomnb.errors import NotJson, Refused
from loomnb.jsonvalue import freeze, thaw
from loomnb.present import (
    Component,
    ComponentDefinition,
    ComponentRegistry,
    JudgedUi,
    checked_component_name,
    judge_ui,
    storable_text,
)

__all__ = ["UiCollector", "UiPush", "checked_push"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UiPush:
    """One component to show, judged as far as it can be without knowing the component. `props` is frozen JSON."""

    component: str
    props: Mapping[str, Any]
    version: int | None = None
    fallback_text: str | None = None


def checked_push(given: Any) -> UiPush:
    """The push of what a `present` hook gave: an object with `component`, `props`, `version` and `fallback_text`, or a mapping
    of these (camelCase).

    Raises:
        Refused: it is no such thing.
    """
    if isinstance(given, Mapping):
        return _push(given.get("component"), given.get("props"), given.get("version", 1), given.get("fallbackText"))
    component, props, version, text = (getattr(given, name, None) for name in ("component", "props", "version", "fallback_text"))
    return _push(component, props, version, text)


def _push(component: Any, props: Any, version: Any, fallback_text: Any) -> UiPush:
    try:
        checked_component_name(component)
    except Refused as exc:
        raise Refused(exc.message, advice=exc.advice) from exc
    if not isinstance(props, Mapping):
        raise Refused(f"The props of {component} are {props!r}, not a JSON object.", advice="Give a dict.")
    try:
        frozen = freeze(dict(props))
    except NotJson as exc:
        raise Refused(f"The props of {component} are no JSON: {exc.message}", advice=exc.advice) from exc
    if version is not None and (type(version) is not int or version < 1):
        raise Refused(f"The version of {component} is {version!r}.", advice="A positive integer.")
    if fallback_text is not None and not isinstance(fallback_text, str):
        raise Refused(f"The fallback text of {component} is {fallback_text!r}.", advice="Give a text.")
    return UiPush(component=component, props=frozen, version=version, fallback_text=fallback_text)


class UiCollector:
    """Collects what one call of a tool shows. `emit` is what its context gets as `emit_ui`; any thread may call it.

    With a catalog, what is shown is judged by it, and what the client does not draw becomes text.

    Args:
        tool_call_id: of the call; default ids are `<call>:ui:<n>`, n counting from 0 the pushes that name none.
        catalog: the components there are here; None: nothing is known of them.
        capabilities: what the client draws, as it said; None: everything.

    Raises:
        InvalidRequest: (of `emit`) the capabilities cannot be.
    """

    def __init__(
        self,
        tool_call_id: str,
        *,
        catalog: ComponentRegistry | Iterable[Component | ComponentDefinition] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self._call = tool_call_id
        self._catalog = catalog if catalog is None or isinstance(catalog, ComponentRegistry) else tuple(catalog)
        self._capabilities = capabilities
        self._guard = threading.Lock()
        self._shown: dict[str, dict[str, Any] | str] = {}  # by id: a component, or the text that stands for it
        self._unnamed = 0

    def judge(self, push: UiPush) -> JudgedUi:
        """What would become of a push. Nothing is shown.

        Raises:
            Refused: it is unknown, of another version, or its props do not fit.
        """
        return judge_ui(
            self._catalog,
            self._capabilities,
            push.component,
            push.props,
            version=push.version,
            fallback_text=push.fallback_text,
        )

    def emit(
        self,
        component: str,
        props: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002  # the contract's word
        version: int | None = None,
        fallback_text: str | None = None,
        component_versions: Mapping[str, int] | None = None,
    ) -> dict[str, str]:
        """Show a component; one of the same id is replaced where it stands.

        Args:
            component: its name.
            props: a JSON object, copied now.
            id: of what is shown; default: a new one.
            version: of the component.
            fallback_text: what stands for it where it cannot be drawn; default: the catalog's.
            component_versions: of a tree: the version of every component in it; a catalog says it by itself.

        Returns:
            `{"id": …}`.

        Raises:
            Refused: it is no component, its props are no JSON object, or the catalog refuses it. Nothing is shown.
        """
        judged = self.judge(_push(component, props, version, fallback_text))
        with self._guard:
            if id is None:
                id = f"{self._call}:ui:{self._unnamed}"  # noqa: A001
                self._unnamed += 1
            self._shown[id] = self._row(id, judged, component_versions) if judged.is_drawable else judged.text or ""
        return {"id": id}

    @property
    def collected(self) -> list[dict[str, Any]]:
        """What is drawn, in the order of the first push of each id: `{"id", "component", "props", "version"?, …}`; yours."""
        with self._guard:
            return [thaw(row) for row in self._shown.values() if isinstance(row, dict)]

    @property
    def text(self) -> str:
        """What stands for the components that the client does not draw, a line or more for each; empty where it draws all."""
        with self._guard:
            return "\n".join(storable_text(text) for text in self._shown.values() if isinstance(text, str) and text)

    def reset(self) -> None:
        """Forget everything: the tool is tried again."""
        with self._guard:
            self._shown.clear()
            self._unnamed = 0

    def _row(self, id: str, judged: JudgedUi, versions: Mapping[str, int] | None) -> dict[str, Any]:  # noqa: A002
        versions = judged.component_versions or versions
        row: dict[str, Any] = {"id": id, "component": judged.component, "props": judged.props}
        more = {
            "version": judged.version,
            "fallbackText": storable_text(judged.text) if judged.text is not None else None,
            "componentVersions": dict(versions) if versions is not None else None,
            "toolCallId": self._call or None,
        }
        return row | {key: value for key, value in more.items() if value is not None}
