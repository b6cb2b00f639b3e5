"""Templates: Jinja2 in a sandbox, read anew whenever the file has changed. Jinja2 is loaded when the first one is rendered."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel

from loomnb.errors import DefinitionError, NotFound, Refused

__all__ = ["render"]


def render(owner: type, path: str | os.PathLike[str], data: Mapping[str, Any] | BaseModel | None = None) -> str:
    """The text of a template file.

    Args:
        owner: the class that uses it: a relative path starts at its file, else at those of its bases; for a class of a
            notebook at the working directory.
        path: the file. In one that ends in `.html` values are escaped, in every other they are not.
        data: its variables; a missing one is empty.

    Raises:
        NotFound: there is no such file.
        DefinitionError: the template is wrong; names file and line.
        Refused: it does what a template may not.
    """
    import jinja2  # noqa: PLC0415  # costs 30 ms; most programs render nothing

    file = _found(owner, Path(path))
    values = data.model_dump() if isinstance(data, BaseModel) else dict(data or {})
    try:
        return str(_environment(file.parent).get_template(file.name).render(values))
    except jinja2.TemplateSyntaxError as exc:
        raise DefinitionError(f"{exc.filename or file}, line {exc.lineno}: {exc.message}.") from exc
    except jinja2.TemplateNotFound as exc:
        raise NotFound(f"{file} needs {exc.name!r}, which is not there.", advice=f"Paths in it start at {file.parent}.") from exc
    except jinja2.exceptions.SecurityError as exc:
        raise Refused(f"{file}: {exc}", advice="A template may only read what it is given.") from exc


def _found(owner: type, path: Path) -> Path:
    places = [path] if path.is_absolute() else list(dict.fromkeys(folder / path for folder in _folders(owner)))
    for place in places:
        if place.is_file():
            return place.resolve()
    raise NotFound(
        f"There is no template {str(path)!r}.",
        advice=f"Looked for: {', '.join(map(str, places))}. A relative path starts at the file of the class that renders it, "
        "in a notebook at the working directory.",
    )


def _folders(owner: type) -> Iterator[Path]:
    for cls in owner.__mro__:
        if cls.__module__.partition(".")[0] == __name__.partition(".")[0] and cls is not owner:
            continue  # our own base classes have no templates
        if cls.__module__ in ("builtins", "abc", "typing", "typing_extensions"):
            continue  # nor has Generic, a base of them all
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if file is not None:
            yield Path(file).parent
        elif cls.__module__ == "__main__":
            yield Path.cwd()


@lru_cache(maxsize=64)
def _environment(folder: Path) -> Any:
    import jinja2  # noqa: PLC0415  # see above
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    def load(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        inner = PurePath(name)  # it may come from the data: `{% include kind ~ ".md" %}`
        if inner.anchor or ".." in inner.parts:
            raise jinja2.exceptions.SecurityError(f"{name!r} is not below {folder}, where its includes are.")
        file = folder / inner
        source = _text(file)
        # By its text, not its time stamp: an edit right after a rendering may carry the same one.
        return None if source is None else (source, str(file), lambda: _text(file) == source)

    def refuse(obj: Any, attribute: str) -> Any:
        # By default it would be an undefined value, which is empty here: a guard that nobody hears.
        raise jinja2.exceptions.SecurityError(f"access to attribute {attribute!r} of a {type(obj).__name__} is not allowed.")

    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.ChainableUndefined,
        autoescape=lambda name: name is not None and name.lower().endswith(".html"),
        keep_trailing_newline=True,
        trim_blocks=True,  # a line that only holds a block leaves no empty line behind, as in Handlebars
        lstrip_blocks=True,
    )
    environment.unsafe_undefined = refuse  # type: ignore[method-assign]  # a subclass could not be written before Jinja2 is loaded
    return environment


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None
