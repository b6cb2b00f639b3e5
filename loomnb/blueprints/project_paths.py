"""Which paths a project gives access to, and how its folders are walked: never through a link, not even one put there meanwhile.

A path is walked folder by folder, each opened within the one before and never followed when it is a link. What was opened
stays what it was, so nobody can swap a folder for a link between a check and a use. Rules: contracts/blueprints.md §1.12.
Where the platform cannot open a file within an opened folder (Windows), every part is looked at right before its use
instead; a link that is put there in just that moment is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Generator
from typing import TypeAlias

__all__ = [
    "IS_WINDOWS",
    "TEMPORARY",
    "Folder",
    "Parts",
    "ProjectError",
    "checked_text",
    "folder_at",
    "is_excluded",
    "is_link",
    "is_private",
    "parts_of",
    "shown",
]

Parts: TypeAlias = tuple[str, ...]

_NAMES = frozenset(
    {".git", ".intloom", "intloom", "node_modules", "dist", "coverage", ".turbo", "intloom.yaml", "intloom.config.yaml"}
)
TEMPORARY = ".loomnb-write-"
"""What a write in flight is called. Excluded by name, because a process that is killed leaves it behind."""
_BEGINNINGS = (".env", ".dev.vars", TEMPORARY)

HAS_DIR_FD = (
    {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
)
_IGNORES_CASE = sys.platform in ("darwin", "win32")  # there `.GIT` opens `.git`
IS_WINDOWS = sys.platform == "win32"

_EVERY_OPEN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class ProjectError(Exception):
    """The project refuses, or its files or its command could not be reached. No code: it is as plain as the contract says."""


def shown(path: str) -> str:
    """A path in a message: quoted, and not longer than a line."""
    return repr(path if len(path) <= 120 else f"{path[:60]}…{path[-59:]}")


# -- rules of names --------------------------------------------------------------------------------


def parts_of(path: object, private: frozenset[Parts] = frozenset(), *, what: str = "path") -> Parts:
    """The names a path goes through, once it keeps the rules; none when it is the root itself (`.`, `./`).

    Raises:
        ProjectError: it is no relative path below the root, or goes through an excluded name.
    """
    text = checked_text(path, what)
    if not text:
        raise ProjectError(f"The {what} is empty. Give one below the project's root, such as 'src/main.py'.")
    if text[0] in "/\\" or re.match(r"[A-Za-z]:(?:[/\\]|$)", text):
        raise ProjectError(f"The {what} {shown(text)} is absolute. Give it from the project's root, such as 'src/main.py'.")
    names = re.split(r"[/\\]", text)
    if ".." in names:
        raise ProjectError(f"The {what} {shown(text)} has a '..' in it. Give the way from the project's root without going up.")
    parts = tuple(name for name in names if name not in ("", "."))
    for depth, name in enumerate(parts, 1):
        if is_excluded(name) or is_private(parts[:depth], private):
            raise ProjectError(
                f"The {what} {shown(text)} goes through {shown(name)}, which is private or generated. Steps have no access to it."
            )
        if IS_WINDOWS and (":" in name or name[-1] in ". "):  # a stream of a file, or another spelling of one
            raise ProjectError(
                f"The {what} {shown(text)} has a name that Windows reads as another one: {shown(name)}. Rename it."
            )
    return parts


def checked_text(value: object, what: str) -> str:
    """A text that a file system or a program can be given.

    Raises:
        ProjectError: it is none.
    """
    if not isinstance(value, str):
        raise ProjectError(f"The {what} is a {type(value).__name__}. Give a text.")
    if "\0" in value:
        raise ProjectError(f"The {what} {shown(value)} has a NUL character in it. Take it out.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ProjectError(f"The {what} {shown(value)} is no Unicode text: half a surrogate pair. Take it out.") from None
    return value


def is_excluded(name: str) -> bool:
    """Whether a file or folder of this name is private or generated, wherever it is."""
    name = name.casefold() if _IGNORES_CASE else name
    return name in _NAMES or name.startswith(_BEGINNINGS)


def is_private(parts: Parts, private: frozenset[Parts]) -> bool:
    """Whether the host keeps a file or folder to itself: it is one of these, or stands beside one under its name and a dot."""
    if _IGNORES_CASE:
        parts = tuple(name.casefold() for name in parts)
        private = frozenset(tuple(name.casefold() for name in one) for one in private)
    return any(parts == one or (parts[:-1] == one[:-1] and parts[-1].startswith(f"{one[-1]}.")) for one in private if one)


# -- folders ---------------------------------------------------------------------------------------


class Folder:
    """An opened folder of a project. Its methods take a name in it, and never follow a link of that name."""

    __slots__ = ("_fd", "_path", "parts")

    def __init__(self, path: str, fd: int | None, parts: Parts) -> None:
        self._path = path
        self._fd = fd
        self.parts = parts

    @classmethod
    def root(cls, path: str) -> Folder:
        """The root, which was resolved when access to it was given.

        Raises:
            ProjectError: it is not there any more, or was replaced by a link.
        """
        try:
            if HAS_DIR_FD:
                return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | _EVERY_OPEN), ())
            if _is_folder(os.lstat(path)):
                return cls(path, None, ())
        except OSError as exc:
            raise ProjectError(
                f"The project's root {shown(path)} cannot be opened: {exc.strerror}. Open the project anew."
            ) from exc
        raise ProjectError(f"The project's root {shown(path)} is no folder any more. Open the project anew.")

    @property
    def chdir_path(self) -> str:
        """A path to make it the current folder of a new process: of this very folder, where the platform has such paths."""
        by_number = f"/proc/self/fd/{self._fd}"
        return by_number if self._fd is not None and os.path.isdir(by_number) else self._path  # noqa: PTH112  # one call of many

    def named(self, name: str) -> str:
        """A name in it as a path of the project, for a message."""
        return shown("/".join((*self.parts, name)))

    def enter(self, name: str) -> Folder:
        """A folder in it.

        Raises:
            FileNotFoundError: there is none.
            ProjectError: it is a link or a file.
        """
        path, parts = os.path.join(self._path, name), (*self.parts, name)  # noqa: PTH118
        if self._fd is not None:
            return Folder(path, self.open(name, os.O_RDONLY | os.O_DIRECTORY), parts)
        self._look(name, os.lstat(path), wants_folder=True)
        return Folder(path, None, parts)

    def make(self, name: str) -> None:
        """Make a folder in it, if nothing of that name is there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._fd)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a file in it.

        Raises:
            ProjectError: it is a link, or a folder where a file is wanted, or the other way round.
        """
        try:
            if self._fd is None and not flags & os.O_EXCL:
                self._look(name, self.lstat(name), wants_folder=False)
            return os.open(self._at(name), flags | _EVERY_OPEN, mode, dir_fd=self._fd)
        except OSError as exc:
            # What it says of a link differs by platform and flags (ELOOP, ENOTDIR, EMLINK): whatever it says, look.
            if exc.errno not in (errno.ENOENT, errno.EEXIST):
                with contextlib.suppress(FileNotFoundError):
                    self._look(name, self.lstat(name), wants_folder=bool(flags & getattr(os, "O_DIRECTORY", 0)))
            if exc.errno == errno.ELOOP:  # swapped back before we looked
                raise self._link(name) from exc
            raise

    def lstat(self, name: str) -> os.stat_result:
        """What is there under a name, a link for itself."""
        return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        """Remove a file, or a link for itself."""
        os.unlink(self._at(name), dir_fd=self._fd)

    def replace(self, name: str, by: str) -> None:
        """Put one file of it in the place of another, or of a link for itself."""
        os.replace(self._at(by), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def entries(self) -> list[os.DirEntry[str]]:
        """What is in it, by name."""
        with os.scandir(self._path if self._fd is None else self._fd) as found:
            return sorted(found, key=lambda e: e.name)

    def close(self) -> None:
        """Let go of it. Once."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def file(self, name: str, found: os.stat_result) -> os.stat_result:
        """What was found, when it is a regular file.

        Raises:
            ProjectError: it is anything else.
        """
        self._look(name, found, wants_folder=False)
        return found

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)  # noqa: PTH118

    def _link(self, name: str) -> ProjectError:
        return ProjectError(f"{self.named(name)} is a link, and links are not followed in a project. Name what it leads to.")

    def _look(self, name: str, found: os.stat_result, *, wants_folder: bool) -> None:
        if is_link(found):
            raise self._link(name)
        if wants_folder and not stat.S_ISDIR(found.st_mode):
            raise ProjectError(f"{self.named(name)} is no folder. Give a path that goes through folders only.")
        if not wants_folder and not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise ProjectError(f"{self.named(name)} is {what}. Give the path of a file.")


def is_link(found: os.stat_result) -> bool:
    # The second is a junction of Windows: a link to a folder that is not called one.
    return stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == 0xA0000003


def _is_folder(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and not is_link(found)


@contextlib.contextmanager
def folder_at(root: str, parts: Parts, *, make: bool = False) -> Generator[Folder]:
    """The folder that these names lead to from the root; missing ones are made if wanted."""
    folder = Folder.root(root)
    try:
        for name in parts:
            try:
                inner = folder.enter(name)
            except FileNotFoundError:
                if not make:
                    raise
                folder.make(name)
                inner = folder.enter(name)
            folder.close()
            folder = inner
        yield folder
    finally:
        folder.close()
