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
from loomnb.tools import INTERCEPTORS, TOOLS
from loomnb.workflows import APPS

# A slow machine is no failure, and a failing example is found again without a folder of its own.
settings.register_profile("loomnb", deadline=None, database=None)
settings.load_profile("loomnb")

READY = {
    *("ask", "ask_user", "confirm_user", "fan_out", "sequence", "agent", "chat_agent"),
    *("llm_generate_text", "llm_generate_object", "llm_delegate_tool_calls", "llm_update_tool_result"),
    *("ask_clarification", "ask_for_approval", "agent_finish"),
}
"""Definitions, of workflows and of tools, that are known from the first store on."""


@pytest.fixture(autouse=True)
def _own_definitions() -> Iterator[None]:
    """What a test defines is gone after it, so that two tests may use one name, and no interceptor sees another test's calls."""
    registries: list[Any] = [REGISTRY, TOOLS, INTERCEPTORS, APPS]
    known = [dict(registry._known) for registry in registries]
    apps = set(REGISTRY.apps)
    yield
    REGISTRY.apps.intersection_update(apps)
    for registry, before in zip(registries, known, strict=True):
        for name in registry._known.keys() - before.keys() - READY:
            del registry._known[name]
        registry._known.update(before)


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
