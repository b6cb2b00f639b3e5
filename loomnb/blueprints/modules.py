"""Python files of a workflow folder, imported from their path, and names of modules that can be imported anyway.

A folder gets a private package, `_loomnb_folder_…`, and its files are modules of it, so that they may import one another
(`from ..schemas.notes import Notes`) and the folder stays off `sys.path`. They are read anew at each load and leave no compiled
file behind: in a notebook a file is edited and loaded again within one second, which the usual cache by time and size misses.
Importing runs a file's top level, and nothing else of it.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from loomnb.blueprints.diagnostics import Findings, Place, meant, one_line, short
from loomnb.blueprints.references import Reference

__all__ = ["MISSING", "Modules", "folder_modules"]

MISSING: Any = object()
"""What a reference leads to could not be had; why was told."""

_ONE_AT_A_TIME = threading.RLock()  # two loads of one folder would take each other's modules away


class _FreshLoader(SourceFileLoader):
    """Compiles a file at each import; the base would take a cached one for the same time and size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _FolderFinder(MetaPathFinder):
    """Finds the modules of folders by their private package. At the end of the path: nobody else knows these names."""

    def __init__(self) -> None:
        self.roots: dict[str, Path] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, *rest = fullname.split(".")
        root = self.roots.get(package)
        if root is None:
            return None
        place = root.joinpath(*rest)
        file = place.with_name(place.name + ".py")
        if rest and file.is_file():
            return spec_from_file_location(fullname, file, loader=_FreshLoader(fullname, str(file)))
        if not place.is_dir():
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = []  # empty, so that the usual finder with its cache finds nothing below it
        return spec


_FINDER = _FolderFinder()


@contextmanager
def folder_modules(root: Path, findings: Findings) -> Generator[Modules]:
    """The Python of a folder, as it is now; what an earlier load imported stays with those who have it."""
    package = "_loomnb_folder_" + hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:12]
    with _ONE_AT_A_TIME:
        for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
            del sys.modules[name]
        _FINDER.roots[package] = root.resolve()
        if _FINDER not in sys.meta_path:
            sys.meta_path.append(_FINDER)
        yield Modules(root, package, findings)


class Modules:
    """What references to Python lead to."""

    def __init__(self, root: Path, package: str, findings: Findings) -> None:
        self._root = root
        self._package = package
        self._findings = findings
        self._loaded: dict[str, ModuleType | None] = {}

    def value(self, ref: Reference, at: Place) -> Any:
        """What a reference names, or MISSING, told at its place, or at the line of the file that cannot be imported."""
        source = ref.file or ref.module
        if ref.file and not (self._root / ref.file).is_file():
            self._findings.tell("INVALID_REFERENCE", f"there is no file {ref.file}", at, "Make it, or correct the reference.")
            return MISSING
        module = self._file(ref.file) if ref.file else self._module(ref.module, at)
        if module is None:
            return MISSING
        try:
            return getattr(module, ref.name)
        except AttributeError:
            names = [n for n in vars(module) if not n.startswith("_")]
            message = f"{source} has no {ref.name!r}{meant(ref.name, names)}"
            self._findings.tell("INVALID_REFERENCE", message, at, f"Define it there, or say which one: {_as_written(ref)}:name.")
            return MISSING

    def _file(self, file: str) -> ModuleType | None:
        if file not in self._loaded:
            self._findings.opened(file)
            name = ".".join([self._package, *file.removesuffix(".py").split("/")])
            try:
                self._loaded[file] = importlib.import_module(name)
            except (Exception, SystemExit) as exc:  # noqa: BLE001  # a file's top level may raise anything; it is told, not raised
                self._loaded[file] = None
                self._tell(exc, file)
        return self._loaded[file]

    def _module(self, name: str, at: Place) -> ModuleType | None:
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as exc:  # noqa: BLE001  # as above
            self._findings.tell("INVALID_REFERENCE", f"the module {name!r} cannot be imported: {_error(exc)}", at)
            return None

    def _tell(self, exc: BaseException, file: str) -> None:
        if isinstance(exc, SyntaxError) and exc.filename is not None and self._of_folder(exc.filename):
            at = Place(self._of_folder(exc.filename), exc.lineno or 1, exc.offset or 1)
            self._findings.tell("SOURCE_PARSE_FAILED", f"this is not valid Python: {one_line(exc.msg)}", at)
            return
        place, trace = Place(file, 1, 1), exc.__traceback__
        while trace is not None:  # the innermost line of the folder's own is what a person can change
            if found := self._of_folder(trace.tb_frame.f_code.co_filename):
                place = Place(found, trace.tb_lineno, 1)
            trace = trace.tb_next
        self._findings.tell("INVALID_REFERENCE", f"the file cannot be imported: {_error(exc)}", place)

    def _of_folder(self, filename: str) -> str:
        """A file's path in the folder; empty for one elsewhere."""
        try:
            return Path(filename).relative_to(self._root.resolve()).as_posix()
        except ValueError:
            return ""


def _error(exc: BaseException) -> str:
    text = one_line(str(exc))
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _as_written(ref: Reference) -> str:
    return short("@" + ref.file.removesuffix(".py") if ref.file else ref.module)[1:-1]
