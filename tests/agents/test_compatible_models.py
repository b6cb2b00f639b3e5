"""A model behind an address: any service that speaks OpenAI's chat completions, with a key or without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from loomnb.agents.providers import ModelAuthFailed, ModelError, ModelResponseInvalid, openai_compatible
from loomnb.errors import InvalidRequest
from loomnb.testing import ProtocolServer, Reply
from tests.agents.providing import KEY, OUTCOME, asked


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with ProtocolServer(["x"] * 5, models=("small", "large")) as made:
        yield made


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"], ids=["bare", "slash", "v1", "v1 slash"])
def test_an_address_is_taken_with_its_path_or_without(server: ProtocolServer, path: str) -> None:
    asked(openai_compatible(server.root + path, "m"))

    assert server.requests[0].path == "/v1/chat/completions"


def test_a_path_of_its_own_is_kept(server: ProtocolServer) -> None:
    asked(openai_compatible(f"{server.root}/gateway/openai", "m"))

    assert server.requests[0].path == "/gateway/openai/chat/completions"


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://h:99999", "http://[", "file:///etc/passwd", None], ids=repr
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(InvalidRequest):
        openai_compatible(url)


def test_without_a_name_the_first_that_is_listed_is_meant(server: ProtocolServer) -> None:
    model = openai_compatible(server.root)
    asked(model)

    assert server.requests[0].body["model"] == "small"
    assert model.model_id == "small"


def test_the_models_of_a_service_are_listed(server: ProtocolServer) -> None:
    assert asyncio.run(openai_compatible(server.root).list_models()) == ["small", "large"]


def test_a_service_without_a_model_says_so() -> None:
    with ProtocolServer(models=()) as server, pytest.raises(ModelError, match="has no model"):
        asked(openai_compatible(server.root))


def test_a_service_that_is_not_there_says_so_when_models_are_listed() -> None:
    with ProtocolServer() as server:
        model = openai_compatible(server.root)
    with pytest.raises(ModelError, match="could not be reached") as caught:
        asyncio.run(model.list_models())

    assert caught.value.retryable is True


def test_a_key_is_sent_where_there_is_one(server: ProtocolServer) -> None:
    asked(openai_compatible(server.root, "m", KEY))

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_output_schema_goes_as_response_format_and_in_words() -> None:
    with ProtocolServer([Reply(text='{"outcome": "done"}')]) as server:
        asked(openai_compatible(server.root, "m"), output_schema=OUTCOME)
        body = server.requests[0].body

    assert body["response_format"]["json_schema"]["schema"]["properties"] == OUTCOME["properties"]
    assert '"outcome"' in json.dumps(body["messages"][0]["content"]).replace("\\", "")
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_a_name_with_a_colon_is_one_name(server: ProtocolServer) -> None:
    asked(openai_compatible(server.root, "qwen3:0.6b"))
    asked(openai_compatible(server.root, "small"), model="llama3:8b")

    assert [request.body["model"] for request in server.requests] == ["qwen3:0.6b", "llama3:8b"]


@pytest.mark.parametrize(
    ("listed", "error"),
    [(Reply(status=401), ModelAuthFailed), (Reply(status=500), ModelError), (Reply(body="{}"), ModelResponseInvalid)],
    ids=["401", "500", "no list"],
)
def test_a_list_that_cannot_be_had_is_an_error_of_ours(listed: Reply, error: type[ModelError]) -> None:
    with ProtocolServer(listing=listed) as server, pytest.raises(ModelError) as caught:
        asyncio.run(openai_compatible(server.root, api_key=KEY).list_models())

    assert type(caught.value) is error
    assert KEY not in str(caught.value)
