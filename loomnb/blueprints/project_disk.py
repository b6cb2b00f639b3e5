"""Reads, writes, removes and lists a project's files, within folders that `project_paths` has opened. Blocks: not on a loop."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator

from loomnb.blueprints.project_paths import (
    IS_WINDOWS,
    TEMPORARY,
    Folder,
    Parts,
    ProjectError,
    folder_at,
    is_excluded,
    is_link,
    is_private,
    shown,
)

__all__ = ["FILES", "FILE_BYTES", "TEXT_BYTES", "digest_of", "each_file", "kept_text", "read_text", "remove_file", "write_text"]

FILES = 10_000
FILE_BYTES = 16 * 2**20
TEXT_BYTES = 2**20
_DEPTH = 200
"""Folders within one another that a snapshot goes down; each holds a file descriptor, of which a process has about a thousand."""
_CHUNK = 2**20

# A pipe would block whoever opens it until somebody writes; what was opened is looked at before it is read.
_TO_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_TO_LOOK = os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_TO_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def read_text(root: str, parts: Parts) -> str:
    """The text of a file of at most 1 MiB, as it is: line ends and a byte order mark stay."""
    with folder_at(root, parts[:-1]) as folder:
        data = b"".join(_chunks(folder, parts[-1], TEXT_BYTES, "which is what a step may read"))
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        path = shown("/".join(parts))
        raise ProjectError(f"{path} is no UTF-8 text (byte {exc.start}). Read it with a command instead.") from None


def write_text(root: str, parts: Parts, data: bytes) -> None:
    """Put a file there, whole or not at all. The permissions of one that was there are kept."""
    name, temporary = parts[-1], f"{TEMPORARY}{secrets.token_hex(8)}"
    with folder_at(root, parts[:-1], make=True) as folder:
        mode = _mode_to_keep(folder, name)
        fd = folder.open(temporary, _TO_MAKE, 0o666 if mode is None else 0o600)  # not readable before it is as private as the old
        try:
            with os.fdopen(fd, "wb") as file:
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(fd, mode)
                file.write(data)
                file.flush()
                os.fsync(fd)  # or a machine that loses its power may keep the new name and not the content
            folder.replace(name, by=temporary)
        except BaseException:
            with contextlib.suppress(OSError):
                folder.unlink(temporary)
            raise


def _mode_to_keep(folder: Folder, name: str) -> int | None:
    # Opened to be written, though it is replaced: who made a file read-only does not want it replaced either.
    try:
        fd = folder.open(name, _TO_LOOK)
    except FileNotFoundError:
        return None
    try:
        return folder.file(name, os.fstat(fd)).st_mode & 0o777
    finally:
        os.close(fd)


def remove_file(root: str, parts: Parts) -> None:
    """Remove one regular file."""
    with folder_at(root, parts[:-1]) as folder:
        folder.file(parts[-1], folder.lstat(parts[-1]))
        folder.unlink(parts[-1])


def each_file(root: str, private: frozenset[Parts]) -> Iterator[tuple[Folder, str]]:
    """Each regular file that is not excluded: the folder it is in, opened, and its name.

    Raises:
        ProjectError: there is a link, or a name that no path of a project can have, or too much.
    """
    folder = Folder.root(root)
    way: list[tuple[Folder, Iterator[os.DirEntry[str]]]] = []
    count = 0
    try:
        way.append((folder, iter(folder.entries())))
        while way:
            folder, rest = way[-1]
            entry = next(rest, None)
            if entry is None:
                folder.close()
                way.pop()
                continue
            name = entry.name
            if is_excluded(name) or is_private((*folder.parts, name), private):
                continue
            _check_name(folder, entry)
            if entry.is_dir(follow_symlinks=False):
                if len(way) > _DEPTH:
                    raise ProjectError(f"{folder.named(name)} is more than {_DEPTH} folders deep. Move it up.")
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile, and so not in it
                    folder = folder.enter(name)
                    way.append((folder, iter(folder.entries())))
            elif entry.is_file(follow_symlinks=False):
                count += 1
                if count > FILES:
                    raise ProjectError(f"The project has more than {FILES:,} files. Move what no step needs out of its root.")
                yield folder, name
    finally:
        folder.close()
        for folder, _ in way:
            folder.close()


def _check_name(folder: Folder, entry: os.DirEntry[str]) -> None:
    name = entry.name
    if entry.is_symlink() or (IS_WINDOWS and is_link(entry.stat(follow_symlinks=False))):
        raise ProjectError(
            f"{folder.named(name)} is a link, and a project with links has no snapshot. Remove it, or what leads there."
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ProjectError(f"{folder.named(name)} is a name that is no UTF-8, so no path can name it. Rename it.") from None
    if "\\" in name:
        raise ProjectError(f"{folder.named(name)} has a backslash, which paths read as a folder's end. Rename it.")


def digest_of(folder: Folder, name: str, keep: int = 0) -> tuple[str, bytes | None] | None:
    """The SHA-256 of a file, and its bytes if there are at most `keep`; None when it was removed meanwhile."""
    digest, kept, size = hashlib.sha256(), list[bytes](), 0
    try:
        for chunk in _chunks(folder, name, FILE_BYTES, "and a snapshot takes none that is bigger"):
            digest.update(chunk)
            size += len(chunk)
            if size <= keep:
                kept.append(chunk)
    except FileNotFoundError:
        return None
    return digest.hexdigest(), b"".join(kept) if size <= keep else None


def kept_text(data: bytes | None) -> str | None:
    """The text that bytes are, if they are one."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _chunks(folder: Folder, name: str, limit: int, why: str) -> Iterator[bytes]:
    fd = folder.open(name, _TO_READ)
    try:
        size = folder.file(name, os.fstat(fd)).st_size
        left = limit
        while True:
            # One byte more than is expected tells the end of a file that grows; the first read nearly always takes all.
            chunk = os.read(fd, min(size + 1, left + 1, _CHUNK)) if size <= limit else b""
            left -= len(chunk)
            if size > limit or left < 0:
                raise ProjectError(
                    f"{folder.named(name)} has more than {limit // 2**20} MiB, {why}. Make it smaller, or move it out."
                )
            if not chunk:
                return
            yield chunk
    finally:
        os.close(fd)
