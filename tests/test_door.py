"""The front door: every name resolves, and the stub says the same names to type checkers."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import loomnb as loom

STUB = ast.parse((Path(loom.__file__).parent / "__init__.pyi").read_text(encoding="utf-8"))


def stub_names() -> dict[str, tuple[str, str]]:
    """Public name → (module, name there), of each `from m import x as y` in the stub."""
    return {
        alias.asname: (node.module, alias.name)
        for node in STUB.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname
    }


def stub_all() -> list[str]:
    found = next(
        n for n in STUB.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id == "__all__"
    )
    names: list[str] = ast.literal_eval(found.value)
    return names


@pytest.mark.parametrize("name", loom.__all__)
def test_a_public_name_resolves(name: str) -> None:
    assert getattr(loom, name) is not None


def test_the_stub_imports_exactly_the_public_names() -> None:
    assert sorted(stub_names()) == loom.__all__


def test_the_stub_lists_exactly_the_public_names() -> None:
    assert sorted(stub_all()) == loom.__all__


@pytest.mark.parametrize("name", loom.__all__)
def test_the_stub_points_at_the_same_object(name: str) -> None:
    module, there = stub_names()[name]

    assert getattr(import_module(module), there) is getattr(loom, name)


def test_an_unknown_name_is_an_attribute_error_that_says_it() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        loom.no_such_thing  # noqa: B018


@pytest.mark.parametrize(("former", "now"), [("Query", "StorageQuery"), ("SnapshotCategory", "StorageCategory")])
def test_a_former_name_still_works_and_warns(former: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=now) as warned:
        found = getattr(loom, former)

    assert found is getattr(loom, now)
    assert warned[0].filename == __file__


def test_storage_is_that_of_the_default_store(session: loom.Loom) -> None:
    assert loom.storage is session.storage


def test_dir_lists_every_public_name() -> None:
    assert set(loom.__all__) <= set(dir(loom))


def test_no_public_name_is_a_rooms_name() -> None:
    """Importing the submodule would overwrite the name."""
    rooms = {path.stem for path in Path(loom.__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()}

    assert rooms.isdisjoint(loom.__all__)
