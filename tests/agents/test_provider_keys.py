"""Keys: where they are found, in which order, and that they show nowhere."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from loomnb.agents.providers import Key, ModelKeyMissing, VendorModel, ask_key, forget_keys, openai_compatible
from loomnb.errors import InvalidRequest
from loomnb.testing import ProtocolServer
from tests.agents.providing import KEY, asked

VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    forget_keys()


def sent_key(**options: Any) -> str:
    """The key that a service was sent."""
    with ProtocolServer(["x"]) as server:
        asked(VendorModel("anthropic:claude-opus-5-5", base_url=server.root, **options))
    return server.requests[0].headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("given", [KEY, Key(KEY)], ids=["text", "Key"])
def test_a_given_key_is_sent(given: str | Key) -> None:
    assert sent_key(api_key=given) == KEY


def test_a_key_of_a_variable_of_ones_own_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key.of_environment("MY_OWN_KEY")
    monkeypatch.setenv("MY_OWN_KEY", KEY)

    assert sent_key(api_key=key) == KEY


def test_a_variable_of_ones_own_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_OWN_KEY", raising=False)
    with pytest.raises(ModelKeyMissing) as caught:
        sent_key(api_key=Key.of_environment("MY_OWN_KEY"))

    assert caught.value.variable == "MY_OWN_KEY"


def test_the_vendors_key_is_not_sent_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ProtocolServer(["x"] * 3) as server:
        asked(VendorModel("anthropic:claude-opus-5-5", base_url=server.root))
        asked(openai_compatible(server.root, "m"))
        asked(VendorModel("openai:gpt-6-astra", base_url=server.url))

    assert [KEY in str(request.headers) for request in server.requests] == [False, False, False]


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY"),
        ("openai:gpt-6-astra", "OPENAI_API_KEY"),
        ("openai-chat:gpt-6-astra", "OPENAI_API_KEY"),
        ("google:gemini-4-argon", "GOOGLE_API_KEY"),
        ("groq:x", "GROQ_API_KEY"),
    ],
)
def test_a_missing_key_names_its_variable_at_the_first_turn(model: str, variable: str) -> None:
    made = VendorModel(model)
    with pytest.raises(ModelKeyMissing) as caught:
        asked(made)

    assert (caught.value.variable, caught.value.code, caught.value.retryable) == (variable, "LLM_KEY_MISSING", False)
    assert variable in str(caught.value)


def test_a_vendor_whose_library_alone_knows_its_variable_names_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEBIUS_API_KEY", raising=False)
    with pytest.raises(ModelKeyMissing) as caught:
        asked(VendorModel("nebius:x"))

    assert caught.value.variable == "NEBIUS_API_KEY"


def test_a_key_that_was_typed_in_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from loomnb.agents.providers.keys import key_of

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
    ask_key("anthropic", ask=lambda text: KEY)
    found = key_of("anthropic")

    assert found is not None
    assert found.reveal() == KEY


def test_typing_it_in_says_for_whom_and_shows_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    prompts: list[str] = []

    def ask(text: str) -> str:
        prompts.append(text)
        return f"  {KEY}\n"

    key = ask_key("anthropic", ask=ask)

    assert prompts == ["Key for anthropic: "]
    assert key.reveal() == KEY
    assert KEY not in "".join([repr(key), str(key), f"{key}", caplog.text, *capfd.readouterr()])


@pytest.mark.parametrize("typed", ["", "   ", "two words", "schlüssel"], ids=["nothing", "blanks", "words", "umlaut"])
def test_what_is_no_key_is_refused_without_being_quoted(typed: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ask_key("anthropic", ask=lambda text: typed)

    assert not typed.strip() or typed not in str(caught.value)


def test_a_key_shows_neither_in_a_model_nor_in_its_fields() -> None:
    model = VendorModel("anthropic:x", api_key=KEY)

    assert KEY not in repr(model) + str(model) + repr(vars(model))
    assert KEY not in repr(openai_compatible("http://127.0.0.1:1", "m", KEY))


@pytest.mark.parametrize("store", [pickle.dumps, copy.deepcopy], ids=["pickle", "copy"])
def test_a_key_is_not_stored(store: Any) -> None:
    with pytest.raises(InvalidRequest, match="not stored"):
        store(Key(KEY))


def test_forgotten_keys_are_gone() -> None:
    ask_key("anthropic", ask=lambda text: KEY)
    forget_keys()
    with pytest.raises(ModelKeyMissing):
        asked(VendorModel("anthropic:claude-opus-5-5"))
