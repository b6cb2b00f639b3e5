"""`@loom.code`: a function as a step's code, with what goes on after a restart as a second function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from loomnb.errors import DefinitionError
from loomnb.names import cell_name

__all__ = ["Code", "called_by", "code", "code_name", "latest", "on_replaced", "recover_of"]

F = TypeVar("F", bound=Callable[..., Any])


_SIGNATURE = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in ("input", "access")])


class _Latest:
    """The newest code of each name that a cell has made: running the cell again replaces the code, also where a blueprint of
    another cell holds the old one. A function of the same name in another cell is another code."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Code[Any]] = {}
        self._listeners: list[Callable[[Code[Any]], None]] = []

    def note(self, made: Code[Any]) -> None:
        """A code was made."""
        if made.cell and "<" not in made.__qualname__:  # neither a lambda nor one made in a function
            key = made.cell, made.__qualname__
            is_new = key not in self._known
            self._known[key] = made
            if not is_new:
                self.tell(made)

    def of(self, code: Any) -> Any:
        """The newest one of its name; whatever it is itself, where it has none."""
        return self._known.get((code.cell, code.__qualname__), code) if isinstance(code, Code) else code

    def listen(self, call: Callable[[Code[Any]], None]) -> None:
        """Call something with each code that replaced another, and again when it got its `recover`."""
        self._listeners.append(call)

    def tell(self, made: Code[Any]) -> None:
        """Call them."""
        for call in self._listeners:
            call(made)


_LATEST = _Latest()


class Code(Generic[F]):
    """A step's code. Calling it calls the function.

    Attributes:
        function: what the step does.
        recovery: what goes on after a question when the kernel died while it was open; None where nothing can.
    """

    def __init__(self, function: F, recovery: Callable[..., Any] | None = None) -> None:
        self.function = function
        self.recovery = recovery
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", "")
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.cell = cell_name() if self.__module__ == "__main__" else ""
        self.__signature__ = _SIGNATURE  # how it is called, whatever its function takes
        self._names = _names(function, ("input", "access"))
        if recovery is not None:
            self.recover(recovery)
        _LATEST.note(self)

    def __call__(self, input: None, access: Any) -> Any:  # noqa: A002  # the contract's word
        """What the function gives. It is handed only what it asks for: `(input, access)`, `(access)` or nothing."""
        given = {"input": input, "access": access}
        return self.function(*(given[name] for name in self._names))

    def recover(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate what goes on with the answer when the kernel died while a question of this code was open.

        It is given `(saved, access)`: `saved.action` and `saved.answer` (`saved.confirmation`, `saved.answers`), and a new access
        with the State as it was. Local variables of the code itself are gone.
        """
        names = _names(function, ("saved", "access"))

        def recovery(saved: Any, access: Any) -> Any:
            given = {"saved": saved, "access": access}
            return function(*(given[name] for name in names))

        recovery.__wrapped__ = function  # type: ignore[attr-defined]  # inspect looks for it
        recovery.function = function  # type: ignore[attr-defined]  # and we for this: see called_by
        self.recovery = recovery
        if _LATEST.of(self) is self:
            _LATEST.tell(self)
        return function

    def __repr__(self) -> str:
        return f"<code {self.__qualname__}{', recovers' if self.recovery is not None else ''}>"


def _names(function: Callable[..., Any], known: tuple[str, str]) -> tuple[str, ...]:
    """Which of the two a function asks for: by their names, else by their number."""
    try:
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        ]
    except (TypeError, ValueError):
        return known
    if len(parameters) == 2:
        return known
    if len(parameters) == 1:
        return (parameters[0].name,) if parameters[0].name in known else (known[1],)
    if not parameters:
        return ()
    raise DefinitionError(
        f"The code {getattr(function, '__qualname__', function)!r} takes {len(parameters)} arguments; it is given {known[0]} and "
        f"{known[1]}.",
        advice=f"Write `async def name({known[0]}, {known[1]})`, or only `{known[1]}`.",
    )


@overload
def code(function: F, /) -> Code[F]: ...
@overload
def code(*, recover: Callable[..., Any] | None = None) -> Callable[[F], Code[F]]: ...
def code(function: Callable[..., Any] | None = None, /, *, recover: Callable[..., Any] | None = None) -> Any:
    """Make a function a step's code.

    It takes `(input, access)`, or only `access`, and returns a `StepResult` (or `{"outcome": …}`). To ask, to write State or
    Storage it has to be an `async def`. `@name.recover` on a second function says how it goes on after a restart.

    Args:
        function: the function, when used without parentheses.
        recover: the same as `@name.recover`.

    Raises:
        DefinitionError: it takes other arguments.
    """
    if function is not None:
        return Code(function)
    return lambda f: Code(f, recover)


def latest(executable: Any) -> Any:
    """The newest code of its name, where a notebook's cell was run again; else itself."""
    return _LATEST.of(executable)


def on_replaced(call: Callable[[Code[Any]], None]) -> None:
    """Call something with each code that replaced another of its name."""
    _LATEST.listen(call)


def recover_of(executable: Any) -> Callable[..., Any] | None:
    """What a code goes on with after a restart; None when nothing can. Looked up without calling anything of it."""
    if isinstance(executable, Code):
        return executable.recovery
    found = getattr(executable, "recover", None)
    return found if callable(found) else None


def called_by(executable: Any) -> Any:
    """The user's own function in a code or recovery of ours; anything else is what it is."""
    if isinstance(executable, Code):
        return called_by(executable.function)
    return getattr(executable, "function", executable) if inspect.isfunction(executable) else executable


def code_name(executable: Any) -> str:
    """How a code is called in messages."""
    return str(getattr(executable, "__qualname__", type(executable).__qualname__))
