"""The libraries of a vendor are imported beside the loop: meanwhile, other runs go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, json, sys, threading
import loomnb as loom
from loomnb.testing import ProtocolServer, Reply

where = {}

class Watch:
    def find_spec(self, name, path=None, target=None):
        where.setdefault(name, set()).add(threading.current_thread().name)

with ProtocolServer([Reply(text="Hello.")]) as server, loom.Loom(sys.argv[2], headless=True) as store:
    kind = sys.argv[1]
    if kind == "address":
        model = loom.openai_compatible(server.url, model="m")
    else:
        model = loom.VendorModel(kind, api_key="k", base_url=server.url)
    sys.meta_path.insert(0, Watch())
    agent = loom.Agent(model, name="a", store=store)

    async def main():
        return (await agent.run("Hi.")).text

    told = asyncio.run(main())
print(json.dumps({"text": told, "where": {name: sorted(threads) for name, threads in where.items()}}))
"""


@pytest.mark.parametrize(
    ("kind", "library"),
    [("address", "openai"), ("openai:gpt-6-astra", "openai"), ("anthropic:claude-opus-5-5", "anthropic")],
)
def test_a_first_turn_imports_its_vendor_beside_the_loop(tmp_path: Path, kind: str, library: str) -> None:
    command = [sys.executable, "-c", PROGRAM, kind, str(tmp_path / "a.duckdb")]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)

    assert told["text"] == "Hello."
    assert "loom loop" not in {*told["where"]["pydantic_ai"], *told["where"][library]}
