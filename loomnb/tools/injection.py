"""Constructor injection: who needs what, one instance per class and app, and what stands in for it.

A class says what it needs in the annotations of its constructor. A `Container` makes each class once, when it is first
needed, and everything it needs before it. Which container that is follows from where the code runs: every app has its own,
with what it provides, and inside `overrides(...)` there are others again. Both are carried by context variables, which a
run takes along from where it was started; so two apps, two tests or two runs never see one another's replacements.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import inspect
import sys
import threading
import types
import typing
import weakref
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from loomnb.errors import DefinitionError, Refused
from loomnb.runtime import APP

__all__ = ["INJECTABLE", "Provide", "check_needs", "checked", "container", "overrides", "provide_for_app", "resolve", "supersede"]

T = TypeVar("T")

Provide = Mapping[Any, Any]
"""Class (or function tool) → what stands in for it: an instance, a class to make, or a function that makes one."""

INJECTABLE = "__loom_injectable__"
"""On tools, workflows and interceptors: these are also injected into annotated attributes."""


@dataclass(frozen=True, slots=True)
class _Need:
    name: str
    wanted: type
    is_attribute: bool = False
    is_positional: bool = False
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class _Made:
    instance: Any
    uses: frozenset[type]
    """The class and all it was made of, so that it is made anew when one of them is."""


class Container:
    """The instances of one app, or of one `overrides(...)`."""

    def __init__(self, replacements: Provide) -> None:
        self._replacements = replacements
        self._made: dict[type, _Made] = {}
        self._given: dict[Any, _Made] = {}
        self._lock = threading.RLock()
        _CONTAINERS.add(self)

    def get(self, wanted: type[T]) -> T:
        """The instance of a class, or what stands in for it.

        Raises:
            DefinitionError: it cannot be made; the message names the class, the parameter and the fix.
        """
        with self._lock:
            instance: T = self._find(wanted, ()).instance
            return instance

    def own(self, cls: type[T]) -> T:
        """The instance of exactly this class: what stands in for it is for those who need it, not for itself."""
        made = self._made.get(cls)
        if made is None:
            with self._lock:
                made = self._make(cls, ())
        instance: T = made.instance
        return instance

    def replacement(self, key: Any) -> Any:
        """What stands in for a function tool; None for nothing."""
        return self._replacements.get(key)

    def forget(self, cls: type) -> None:
        """A class was defined anew: make again what used it."""
        with self._lock:
            for made in (self._made, self._given):
                for key in [key for key, value in made.items() if cls in value.uses]:
                    del made[key]

    def _find(self, wanted: type, path: tuple[tuple[type, str], ...]) -> _Made:
        wanted = _newest(wanted)
        given = self._given.get(wanted)
        if given is not None:
            return given
        for key, value in self._replacements.items():
            if isinstance(key, type) and _newest(key) is wanted and value is not key:
                if isinstance(value, type):
                    return self._make(_newest(value), path)
                instance = value() if isinstance(value, types.FunctionType) else value
                return self._given.setdefault(wanted, _Made(instance, frozenset((wanted,))))
        return self._make(wanted, path)

    def _make(self, cls: type, path: tuple[tuple[type, str], ...]) -> _Made:
        made = self._made.get(cls)
        if made is not None:
            return made
        if any(cls is above for above, _ in path):
            round_trip = " → ".join([*(f"{c.__qualname__}({name})" for c, name in path), cls.__qualname__])
            raise DefinitionError(
                f"These need one another, so none can be made first: {round_trip}.",
                advice="Move what both need into a class of its own, for each to take. A workflow starts itself by self.run(…).",
            )
        uses = {cls}
        positional: list[Any] = []
        named: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        _refuse_unmakeable(cls, path)
        for need in needs_of(cls):
            if need.has_default and not self._replaces(need.wanted):
                continue
            part = self._find(need.wanted, (*path, (cls, need.name)))
            uses |= part.uses
            if need.is_positional:
                positional.append(part.instance)
            else:
                (attributes if need.is_attribute else named)[need.name] = part.instance
        make: Any = cls
        if attributes:
            instance = make.__new__(cls)
            for name, value in attributes.items():  # before the constructor, which may use or replace them
                setattr(instance, name, value)
            instance.__init__(*positional, **named)
        else:
            instance = make(*positional, **named)
        return self._made.setdefault(cls, _Made(instance, frozenset(uses)))

    def _replaces(self, wanted: type) -> bool:
        return any(isinstance(key, type) and _newest(key) is _newest(wanted) for key in self._replacements)


def _refuse_unmakeable(cls: type, path: tuple[tuple[type, str], ...]) -> None:
    why = "is abstract" if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False) else ""
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        why = "is a class of the standard library, which knows nothing of yours"  # Path() would be "." without a word
    if why:
        by = f"{path[-1][0].__qualname__}.__init__: {path[-1][1]}: " if path else ""
        raise DefinitionError(
            f"{by}{cls.__qualname__} {why}, so none is made.",
            advice=f"Say which: @loom.studio_app(provide={{{cls.__name__}: …}}) or loom.overrides({{{cls.__name__}: …}}).",
        )


# -- what a class needs ---------------------------------------------------------------------------

_NEEDS: weakref.WeakKeyDictionary[type, tuple[_Need, ...]] = weakref.WeakKeyDictionary()


def check_needs(cls: type, namespace: Mapping[str, Any]) -> None:
    """Judge the constructor of a class when it is defined, and keep what it needs.

    Args:
        cls: the class.
        namespace: the names visible where it is defined: annotations may be text.

    Raises:
        DefinitionError: a parameter has no annotation, or one that nothing can be injected for.
    """
    with contextlib.suppress(NameError):  # it names a class that is defined further down: looked at when it is first made
        _NEEDS[cls] = _read_needs(cls, namespace)


def needs_of(cls: type) -> tuple[_Need, ...]:
    """What must be made for a class, in order.

    Raises:
        DefinitionError: see `check_needs`; also for an annotation that names nothing.
    """
    found = _NEEDS.get(cls)
    if found is None:
        try:
            found = _read_needs(cls, {})
        except NameError as exc:
            raise DefinitionError(
                f"{cls.__qualname__}.__init__: {exc}, but an annotation names it.",
                advice="Import or define that class before this one, at the top level of its module.",
            ) from exc
        _NEEDS[cls] = found
    return found


def _read_needs(cls: type, namespace: Mapping[str, Any]) -> tuple[_Need, ...]:
    needs: list[_Need] = []
    owner = next((base for base in cls.__mro__ if "__init__" in vars(base)), cls)
    try:
        parameters = list(inspect.signature(cls).parameters.values()) if owner is not object else []
    except ValueError:  # a class written in C without a signature: it is made without arguments
        parameters = []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        has_default = p.default is not p.empty
        wanted = _wanted(cls, p, owner, namespace, has_default)
        if wanted is not None:
            needs.append(_Need(p.name, wanted, is_positional=p.kind is p.POSITIONAL_ONLY, has_default=has_default))
    return (*_attributes(cls, namespace), *needs)


def _wanted(cls: type, p: inspect.Parameter, owner: type, namespace: Mapping[str, Any], has_default: bool) -> type | None:
    where = f"{cls.__qualname__}.__init__"
    if p.annotation is p.empty:
        if has_default:
            return None
        raise DefinitionError(
            f"{where}: the parameter {p.name!r} has no annotation, so nothing can be injected for it.",
            advice=f"Annotate it with the class it needs, `{p.name}: SomeTool`, or give it a default.",
        )
    try:
        annotation = _evaluated(p.annotation, owner, namespace)
    except NameError:
        if has_default:
            return None
        raise
    wanted = _class_of(annotation)
    if wanted is not None:
        return wanted
    if has_default:
        return None
    _refuse_function(annotation, f"{where}: {p.name!r}")
    raise DefinitionError(
        f"{where}: {p.name!r} is annotated with {_text(annotation)}; only tools, workflows and classes of services are injected.",
        advice=f"Give {p.name!r} a default, or put it into a settings class of its own and annotate it with that.",
    )


def _attributes(cls: type, namespace: Mapping[str, Any]) -> Iterator[_Need]:
    if not getattr(cls, INJECTABLE, False):
        return
    seen: set[str] = set()
    for base in cls.__mro__:
        for name, annotation in inspect.get_annotations(base).items():
            if name in seen or hasattr(cls, name):
                continue
            seen.add(name)
            wanted = meant = None
            with contextlib.suppress(NameError, TypeError):  # any annotation may stand in a class: most are not about injection
                meant = _evaluated(annotation, base, namespace)
                wanted = _class_of(meant)
            _refuse_function(meant, f"{cls.__qualname__}: {name!r}")
            if wanted is not None and getattr(wanted, INJECTABLE, False):
                yield _Need(name, wanted, is_attribute=True)


def _refuse_function(annotation: Any, where: str) -> None:
    if getattr(annotation, INJECTABLE, False) and not isinstance(annotation, type):
        name = getattr(annotation, "__name__", "tool")
        raise DefinitionError(
            f"{where} is annotated with {_text(annotation)}, which is a function: there is no instance of it to inject.",
            advice=f"Call it by its name: await {name}.call({{…}}). loom.overrides({{{name}: …}}) holds for it too.",
        )


def _evaluated(annotation: Any, owner: type, namespace: Mapping[str, Any]) -> Any:
    module = sys.modules.get(owner.__module__)
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, vars(module) if module is not None else {}, dict(namespace))["it"]


def _class_of(annotation: Any) -> type | None:
    """The class an annotation means, if something of it can be made: `Tool[int]` is a Tool; a str is nobody's service."""
    origin = typing.get_origin(annotation)
    if isinstance(origin, type):
        annotation = origin
    plain = isinstance(annotation, type) and (annotation.__module__ in (builtins.__name__, "typing", "types", "collections.abc"))
    return annotation if isinstance(annotation, type) and not plain else None


def _text(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


# -- classes that are defined anew ----------------------------------------------------------------

_CONTAINERS: weakref.WeakSet[Container] = weakref.WeakSet()
_NEWER: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def supersede(old: type, new: type) -> None:
    """A cell was run again: who needs the old class gets the new one from now on."""
    if old is not new:
        _NEWER[old] = new
        for known in list(_CONTAINERS):
            known.forget(old)


def _newest(cls: type) -> type:
    while cls in _NEWER:
        cls = _NEWER[cls]
    return cls


# -- which container ------------------------------------------------------------------------------


class _Layer:
    """Replacements, and the container they make for each app."""

    def __init__(self, replacements: Provide) -> None:
        self.replacements = replacements
        self._containers: dict[str, tuple[Provide, Container]] = {}
        self._lock = threading.Lock()

    def container(self) -> Container:
        app = APP.get()
        provided = _PROVIDED.get(app, _NOTHING)
        found = self._containers.get(app)
        if found is None or found[0] is not provided:  # an app that is defined anew may provide something else
            with self._lock:
                found = self._containers.get(app)
                if found is None or found[0] is not provided:
                    found = provided, Container({**provided, **self.replacements})
                    self._containers[app] = found
        return found[1]


_NOTHING: Provide = {}
_PROVIDED: dict[str, Provide] = {}
_BASE = _Layer(_NOTHING)
_LAYER: contextvars.ContextVar[_Layer] = contextvars.ContextVar("loom_overrides", default=_BASE)  # it is shared


def container() -> Container:
    """The container of the code that asks."""
    return _LAYER.get().container()


def provide_for_app(app: str, provide: Provide) -> None:
    """What stands in for what in the runs of an app."""
    _PROVIDED[app] = checked(provide)


@contextlib.contextmanager
def overrides(replacements: Provide) -> Generator[None, None, None]:
    """Put something in the place of tools, sub-workflows and services: `with loom.overrides({MailTool: FakeMail}): ...`.

    Holds for what runs in the block, and for the runs started in it to their end, wherever they move; for nothing else.
    Everything that needs a replaced class is made anew for them, so no instance is shared with the world outside.

    Args:
        replacements: class → an instance, a class to make, or a function that makes one; function tool → a function to call
            instead, or another tool.

    Raises:
        Refused: a key is neither.
    """
    layer = _Layer({**_LAYER.get().replacements, **checked(replacements)})
    token = _LAYER.set(layer)
    try:
        yield
    finally:
        _LAYER.reset(token)


def resolve(cls: type[T]) -> T:
    """The instance of a tool, workflow or service class that others get injected: for cells, scripts and tests.

    Raises:
        DefinitionError: it cannot be made; the message names the class, the parameter and the fix.
    """
    if not isinstance(cls, type):
        raise Refused(f"{cls!r} is no class.", advice="loom.resolve(SomeTool) takes one; a function tool is called as it is.")
    return container().get(cls)


def checked(replacements: Provide) -> Provide:
    """A copy of replacements that can be made.

    Raises:
        Refused: a key is neither a class nor a function tool.
    """
    for key in replacements:
        if not isinstance(key, type) and not getattr(key, INJECTABLE, False):
            raise Refused(
                f"{key!r} cannot be replaced: it is neither a class nor a function tool.",
                advice="Write {TheClass: what_stands_in_for_it}.",
            )
    return dict(replacements)
