"""The older form of `response_format`, which llama-cpp-python's server takes (tried by hand with the real one)."""

from __future__ import annotations

import asyncio

from loomnb.agents.providers import openai_compatible
from loomnb.runtime import TurnRequest
from loomnb.testing import ProtocolServer

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def test_an_output_schema_goes_as_a_json_object_with_a_schema() -> None:
    with ProtocolServer(['{"name": "Bern"}']) as server:
        model = openai_compatible(server.url, "small", native_output="json_object")
        request = TurnRequest(system="", messages=[{"role": "user", "content": "A city?"}], output_schema=SCHEMA)

        result = asyncio.run(model.run_turn(request))

    sent = server.requests[0].body["response_format"]
    assert (result.object, sent["type"], sent["schema"]["required"]) == ({"name": "Bern"}, "json_object", ["name"])
