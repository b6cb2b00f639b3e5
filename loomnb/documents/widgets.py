"""Widgets as they are written: a YAML file or an inline mapping, read strictly, every problem told at once with its place.

Three layouts are read: the documented `ui: {widgets: […]}` beside `type`, `title`, `description` and `tags`; a `widgets: […]`
list; and one flat `{widget: …, options: …}`.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from loomnb.asks import Field, Form
from loomnb.documents.specs import SPECS, FormOptions, Spec, UiElement
from loomnb.errors import DefinitionError

__all__ = ["Reading", "Widget", "WidgetRef", "form_problems", "read_widgets", "widget_problems"]

WidgetRef: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""Where a widget is described: the path of a YAML file, relative to the file of the decorated class (in a notebook: to the
working directory), or the mapping itself: `{"widget": "button", "options": {"transition": "approve"}}`."""

Path_ = tuple[Any, ...]
_TYPES = ("workflow", "document", "tool")
_TOP = ("type", "title", "description", "tags", "ui", "widgets")
_FLAT = ("widget", "enabledWhen", "showWhen", "options")
_PYTHON_NAMES = {"enabled_when": "enabledWhen", "show_when": "showWhen"}


@dataclass(frozen=True, slots=True)
class _Source:
    """One description with the place of everything in it."""

    name: str
    data: Any
    values: Mapping[Path_, tuple[int, int]] = field(default_factory=dict)
    keys: Mapping[Path_, tuple[int, int]] = field(default_factory=dict)
    is_file: bool = False

    def at(self, path: Path_, *, key: bool = False) -> str:
        """Where a value (or its key) stands: `file:line:column`, or the dotted path of an inline one."""
        if not self.is_file:
            return f"{self.name}{''.join(f'[{p}]' if isinstance(p, int) else f'.{p}' for p in path)}"
        marks = self.keys if key else self.values
        while path and path not in marks:
            path, marks = path[:-1], self.values
        line, column = marks.get(path, (1, 1))
        return f"{self.name}:{line}:{column}"


@dataclass(frozen=True, slots=True, eq=False)
class Widget:
    """A widget, read and checked by itself."""

    name: str
    options: Spec
    enabled_when: tuple[str, ...] | None
    show_when: tuple[str, ...] | None
    source: _Source
    path: Path_

    def at(self, *path: Any, key: bool = False) -> str:
        """Where a part of it stands."""
        return self.source.at((*self.path, *path), key=key)

    def enabled_at(self, place: str) -> bool:
        """Whether it takes input while the run is at a place, as far as it says itself."""
        return self.enabled_when is None or place in self.enabled_when

    def shown_at(self, place: str) -> bool:
        """Whether it is shown while the run is at a place."""
        return self.show_when is None or place in self.show_when


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the files and mappings of a decorator say together."""

    widgets: tuple[Widget, ...] = ()
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()


def read_widgets(refs: WidgetRef | Sequence[WidgetRef] | None, cls: type) -> Reading:
    """The widgets of a class, in order.

    Args:
        refs: one reference, a list of them, or None.
        cls: the decorated class; a relative path is looked for beside its file.

    Raises:
        DefinitionError: a file is missing, is no YAML, or says what no widget knows. Names every problem and its place.
    """
    listed: Sequence[Any] = [] if refs is None else refs if isinstance(refs, Sequence) and not isinstance(refs, str) else [refs]
    problems: list[str] = []
    widgets: list[Widget] = []
    told: dict[str, Any] = {}
    for at, ref in enumerate(listed):
        found: list[str] = []
        source = _source(ref, cls, "widget" if len(listed) == 1 else f"widget[{at}]", found)
        if source is not None:
            widgets += _of_source(source, found, told)
        problems += sorted(found, key=_line)
    if problems:
        raise widget_problems(cls.__qualname__, problems)
    return Reading(
        widgets=tuple(widgets), title=told.get("title"), description=told.get("description"), tags=tuple(told.get("tags", ()))
    )


def widget_problems(owner: str, problems: Sequence[str]) -> DefinitionError:
    """The error that tells problems of widgets, all of them."""
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    return DefinitionError(
        f"The widgets of {owner} have {count}:\n" + "\n".join(f"  {p}" for p in problems),
        advice="Correct them and define it again: a widget is read when its class is.",
    )


def _line(problem: str) -> tuple[int, ...]:
    found = re.search(r":(\d+):(\d+): ", problem)
    return tuple(int(n) for n in found.groups()) if found else ()


# -- reading --------------------------------------------------------------------------------------


def _source(ref: Any, cls: type, name: str, problems: list[str]) -> _Source | None:
    if isinstance(ref, Mapping):
        return _Source(name, dict(ref))
    if not isinstance(ref, (str, os.PathLike)):
        problems.append(f"{name}: expected the path of a YAML file or a mapping, got {ref!r}")
        return None
    shown = os.fspath(ref)
    path = Path(shown) if Path(shown).is_absolute() else _folder(cls) / shown
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        problems.append(f"{shown}: cannot be read ({exc.strerror}); it was looked for at {path}")
        return None
    except UnicodeDecodeError:
        problems.append(f"{shown}: this is no text in UTF-8")
        return None
    return _composed(shown, text, problems)


def _folder(cls: type) -> Path:
    """Where relative paths begin: beside the class's file, or where the notebook works."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return Path(file).parent if file else Path.cwd()


def _place(text: str, at: int) -> str:
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


def _composed(name: str, text: str, problems: list[str]) -> _Source | None:
    """A YAML file's value with the place of every part. Through the node tree, which keeps them."""
    import yaml  # noqa: PLC0415  # only who writes widgets in files needs it

    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as exc:
        problems.append(f"{name}:{_place(text, exc.position)}: this is no YAML: {chr(exc.character)!r} cannot stand in it")
        return None
    values: dict[Path_, tuple[int, int]] = {}
    keys: dict[Path_, tuple[int, int]] = {}

    def walk(node: Any, path: Path_, inside: tuple[Any, ...] = ()) -> None:
        values[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if any(node is above for above in inside):
            raise yaml.MarkedYAMLError(None, None, "an alias stands inside what it means", node.start_mark)
        inside = (*inside, node)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here = (*path, str(key.value) if isinstance(key, yaml.ScalarNode) else "")
                if here in keys:
                    line, column = key.start_mark.line + 1, key.start_mark.column + 1
                    problems.append(f"{name}:{line}:{column}: the key {here[-1]!r} stands here a second time")
                    continue
                keys[here] = (key.start_mark.line + 1, key.start_mark.column + 1)
                walk(value, here, inside)
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                walk(value, (*path, at), inside)

    try:
        node = loader.get_single_node()
        if node is None:
            problems.append(f"{name}:1:1: the file is empty; expected `widget: …`, `widgets: […]` or `ui: {{widgets: […]}}`")
            return None
        walk(node, ())
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        problems.append(f"{name}{place}: this is no YAML: {exc.problem or exc.context}")
        return None
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: a date or number there is none of, `2020-13-45`
        problems.append(f"{name}: this is no YAML: {exc}")
        return None
    finally:
        loader.dispose()
    return _Source(name, data, values, keys, is_file=True)


def _of_source(source: _Source, problems: list[str], told: dict[str, Any]) -> Iterator[Widget]:
    data = source.data
    if not isinstance(data, Mapping):
        problems.append(f"{source.at(())}: expected a mapping, got {_short(data)}")
        return
    if "widget" in data or not ({"ui", "widgets"} & data.keys()):
        known = (*_FLAT, *(k for k in _TOP if k not in ("ui", "widgets")))
        _unknown(data, source, (), known, problems)
        if "widget" not in data:
            problems.append(f"{source.at(())}: missing key 'widget'; or is it a file with `widgets: […]`?")
            return
        _tell(data, source, problems, told)
        one = _widget({k: v for k, v in data.items() if k not in _TOP}, source, (), problems)
        if one is not None:
            yield one
        return
    _unknown(data, source, (), _TOP, problems)
    _tell(data, source, problems, told)
    for path in (("ui", "widgets"), ("widgets",)):
        if path[0] in data:
            yield from _listed(source, path, problems)


def _listed(source: _Source, path: Path_, problems: list[str]) -> Iterator[Widget]:
    data = source.data
    for at, key in enumerate(path):
        if not isinstance(data, Mapping):
            problems.append(f"{source.at(path[:at])}: expected a mapping with 'widgets', got {_short(data)}")
            return
        if key != path[0]:
            _unknown(data, source, path[:at], ("widgets",), problems)
        data = data.get(key)
    if not isinstance(data, list):
        problems.append(f"{source.at(path)}: expected a list of widgets, got {_short(data)}")
        return
    for at, raw in enumerate(data):
        if not isinstance(raw, Mapping):
            problems.append(f"{source.at((*path, at))}: expected a widget such as {{widget: button}}, got {_short(raw)}")
            continue
        _unknown(raw, source, (*path, at), _FLAT, problems)
        one = _widget(raw, source, (*path, at), problems)
        if one is not None:
            yield one


def _tell(data: Mapping[str, Any], source: _Source, problems: list[str], told: dict[str, Any]) -> None:
    for key in ("title", "description"):
        if key in data:
            if isinstance(data[key], str):
                told.setdefault(key, data[key])
            else:
                problems.append(f"{source.at((key,))}: expected a text, got {_short(data[key])}")
    if "tags" in data:
        tags = data["tags"]
        if isinstance(tags, list) and all(isinstance(t, str) for t in tags):
            told.setdefault("tags", tags)
        else:
            problems.append(f"{source.at(('tags',))}: expected a list of texts, got {_short(tags)}")
    if "type" in data and data["type"] not in _TYPES:
        problems.append(f"{source.at(('type',))}: expected {_or(_TYPES)}, got {_short(data['type'])}")


def _widget(raw: Mapping[str, Any], source: _Source, path: Path_, problems: list[str]) -> Widget | None:
    raw = {_PYTHON_NAMES.get(k, k): v for k, v in raw.items()}
    name = raw.get("widget")
    if "widget" not in raw:
        problems.append(f"{source.at(path)}: missing key 'widget'; expected one of {', '.join(SPECS)}")
        return None
    if not isinstance(name, str) or name not in SPECS:
        hint = _meant(str(name), SPECS)
        problems.append(
            f"{source.at((*path, 'widget'))}: there is no widget {_short(name)}; expected one of {', '.join(SPECS)}{hint}"
        )
        return None
    before = len(problems)
    when = [_places(raw, key, source, path, problems) for key in ("enabledWhen", "showWhen")]
    options = raw.get("options")
    if options is not None and not isinstance(options, Mapping):
        problems.append(f"{source.at((*path, 'options'))}: expected a mapping, got {_short(options)}")
        return None
    try:
        spec = SPECS[name].model_validate(dict(options or {}))
    except ValidationError as exc:
        problems += _spelled(exc, SPECS[name], source, (*path, "options"), path)
        return None
    return Widget(name, spec, when[0], when[1], source, path) if len(problems) == before else None


def _places(raw: Mapping[str, Any], key: str, source: _Source, path: Path_, problems: list[str]) -> tuple[str, ...] | None:
    value = raw.get(key)
    if value is None and key not in raw:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        problems.append(f"{source.at((*path, key))}: expected a list of places, got {_short(value)}")
        return None
    return tuple(value)


# -- saying what is wrong -------------------------------------------------------------------------


def _spelled(exc: ValidationError, spec: type[Spec], source: _Source, path: Path_, widget: Path_) -> Iterator[str]:
    """Each error of pydantic's at its place, in our words."""
    for error in exc.errors(include_url=False):
        loc: Path_ = tuple(error["loc"])
        here = (*path, *loc)
        if error["type"] == "extra_forbidden":
            known = _keys_at(spec, loc[:-1])
            yield f"{source.at(here, key=True)}: unknown key {loc[-1]!r}; expected {_or(known)}{_meant(str(loc[-1]), known)}"
        elif error["type"] == "missing":
            parent = here[:-1] if source.is_file and here[:-1] in source.values else widget if source.is_file else here[:-1]
            yield f"{source.at(parent)}: missing key {loc[-1]!r}"
        else:
            message = str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ").removeprefix("'', ")
            yield f"{source.at(here)}: expected {message}, got {_short(error['input'])}"


def _keys_at(spec: type[Spec], loc: Path_) -> list[str]:
    """The keys known where an unknown one stands."""
    kind: type[Spec] = spec
    for part in loc:
        if isinstance(part, int):
            continue
        found = next((f for n, f in kind.model_fields.items() if part in (n, f.alias)), None)
        if found is None:
            continue  # the name of a field in `properties`: what it maps to was found already
        kind = _model_in(found.annotation) or kind
    return kind.keys()


def _model_in(annotation: Any) -> type[Spec] | None:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return annotation
    inner = getattr(annotation, "__args__", ())
    return next((m for m in map(_model_in, inner) if m is not None), None)


def _unknown(data: Mapping[str, Any], source: _Source, path: Path_, known: Sequence[str], problems: list[str]) -> None:
    for key in data:
        if _PYTHON_NAMES.get(key, key) not in known:
            where = source.at((*path, key), key=True)
            problems.append(f"{where}: unknown key {key!r}; expected {_or(known)}{_meant(str(key), known)}")


def _meant(wrong: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _or(names: Sequence[str]) -> str:
    *most, last = [repr(n) for n in names] or ["nothing"]
    return f"{', '.join(most)} or {last}" if most else last


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def form_problems(widget: Widget, form: Form) -> Iterator[str]:
    """What a form widget says of fields the schema does not have."""
    if isinstance(widget.options, FormOptions):
        options = widget.options
        yield from _of_fields(widget, ("options",), options.order, options.properties, form.fields)


def _of_fields(
    widget: Widget, path: Path_, order: Sequence[str], properties: Mapping[str, UiElement], fields: Sequence[Field]
) -> Iterator[str]:
    names = [f.name for f in fields]
    for at, name in enumerate(order):
        if name not in names:
            yield f"{widget.at(*path, 'order', at)}: there is no field {name!r}; the schema has {_or(names)}{_meant(name, names)}"
    for name, ui in properties.items():
        here = (*path, "properties", name)
        found = next((f for f in fields if f.name == name), None)
        if found is None:
            yield f"{widget.at(*here, key=True)}: there is no field {name!r}; the schema has {_or(names)}{_meant(name, names)}"
            continue
        if ui.items is not None and found.item is None:
            yield f"{widget.at(*here, 'items', key=True)}: {name!r} is no list"
        elif ui.items is not None and found.item is not None:
            yield from _of_fields(widget, (*here, "items"), ui.items.order or [], ui.items.properties, found.item.fields)
        if found.kind != "array" or ui.items is None:
            inner = found.fields or (found.item.fields if found.item else [])
            yield from _of_fields(widget, here, ui.order or [], ui.properties, inner)
