"""What every test of the headless core may ask for: a store of its own, definitions that go again, no network."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import loomnb as loom
from loomnb.runtime import REGISTRY

# A slow machine is no failure, and a failing example is found again without a folder of its own.
settings.register_profile("loomnb", deadline=None, database=None)
settings.load_profile("loomnb")

READY = {"ask", "ask_user", "confirm_user", "fan_out", "sequence"}
"""Definitions that are known from the first store on."""


@pytest.fixture(autouse=True)
def _own_definitions() -> Iterator[None]:
    """Workflows defined in a test are gone after it, so that two tests may use one name."""
    known = dict(REGISTRY._known)
    yield
    for name in REGISTRY._known.keys() - known.keys() - READY:
        del REGISTRY._known[name]
    REGISTRY._known.update(known)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this machine may be reached: kernels and browsers listen on its loopback."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0]
            if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
                raise RuntimeError(f"a test reached for the network: {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with nothing in the environment that speaks to loomnb."""
    for name in ("LOOMNB_ANSWERS", "LOOMNB_STORE", "LOOMNB_TRANSITION_TIMEOUT", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session(here: Path) -> Iterator[loom.Loom]:
    """A store of its own, closed afterwards; it is the default one of the test."""
    opened = loom.open(here / "s.duckdb")
    yield opened
    opened.close()
