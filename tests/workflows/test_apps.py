"""Studio apps: their names, what they list, how they start, and the services of their runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter

import loomnb as loom
from loomnb.workflows import APPS
from tests.helpers import at_rest, status_is


class GreetArgs(BaseModel):
    name: str = Field(title="Whom")
    tone: Literal["kind", "<b>loud</b>"] = "kind"


class Voice:
    word = "hello"


class LoudVoice(Voice):
    word = "HELLO"


@loom.workflow(name="app_greet", title="Greet", schema=GreetArgs)
class GreetWorkflow(loom.BaseWorkflow):
    """Says hello to <somebody>."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice

    @loom.transition(to="asking")
    def begin(self, state: Any, ctx: Any) -> None:
        self.assign_state(text=f"{self.voice.word} {ctx.args.name}")

    @loom.transition(from_="asking", to="end", wait=True)
    @loom.guard("has_voice")
    def done(self, state: Any) -> None:
        self.set_result([state["text"], self.voice.word])

    def has_voice(self, state: Any) -> bool:
        return bool(state["text"].startswith(self.voice.word))


@loom.workflow(name="app_idle")
class IdleWorkflow(loom.BaseWorkflow):
    @loom.transition(to="end")
    def go(self) -> None: ...


def hello_app(**options: Any) -> loom.App:
    return loom.studio_app(title="Hello <app>", **{"workflows": [GreetWorkflow, IdleWorkflow], **options})(
        type("HelloModule", (), {"__doc__": "Greets.", "__module__": __name__})
    )


@pytest.mark.case("workflows:A05")
@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("HelloModule", "hello_app"),
        ("CodeAgentAppModule", "code_agent_app"),
        ("FooApp", "foo_app"),
        ("Foo", "foo"),
        ("AppModule", "app_app"),
    ],
)
def test_an_app_is_called_after_its_class(class_name: str, name: str) -> None:
    assert loom.studio_app(title="T")(type(class_name, (), {})).name == name
    assert loom.studio_app(title="T", app="mine")(type(class_name, (), {})).name == "mine"


def test_it_lists_its_workflows_with_their_forms() -> None:
    greet, idle = hello_app().workflows

    assert (greet.name, greet.title, greet.description) == ("app_greet", "Greet", "Says hello to <somebody>.")
    assert greet.form is not None
    assert [(f.name, f.required) for f in greet.form.fields] == [("name", True), ("tone", False)]
    assert (idle.name, idle.title, idle.form) == ("app_idle", "App idle", None)


@pytest.mark.case("workflows:A13")
def test_a_transforming_schema_is_listed_by_its_input_side(session: loom.Loom) -> None:
    class Stored(BaseModel):
        words: list[str]

    def split(value: Any) -> Any:
        return {"words": value["text"].split()} if isinstance(value, dict) and "text" in value else value

    class Given(BaseModel):
        text: str

    transforming = TypeAdapter(Annotated[Stored, BeforeValidator(split, json_schema_input_type=Given)])

    @loom.workflow(name="transforming", schema=transforming)
    class Transforming(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self, state: Any, ctx: Any) -> None:
            self.set_result(ctx.args.words)

    app = hello_app(workflows=[Transforming])
    (listed,) = app.workflows
    run = app.start("transforming", {"text": "a b"})
    at_rest(run)

    assert listed.form is not None
    assert [f.name for f in listed.form.fields] == ["text"]
    assert "text" in repr(app).lower()
    assert run.result == ["a", "b"], run.error


def test_a_schema_json_cannot_describe_is_listed_all_the_same() -> None:
    def anything(value: Any) -> Any:
        return value

    @loom.workflow(name="undescribed", schema=Annotated[complex, BeforeValidator(anything)])
    class Undescribed(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None: ...

    (listed,) = hello_app(workflows=[Undescribed]).workflows

    assert listed.form is not None


def test_its_static_forms_list_everything_and_run_nothing() -> None:
    bundle = hello_app()._repr_mimebundle_()

    assert bundle["text/plain"].splitlines() == [
        "Hello <app>: Greets.",
        "  Greet: Says hello to <somebody>.",
        "    Whom (text)",
        "    Tone (kind / <b>loud</b>, optional)",
        "    start with: .start('app_greet', {'name': …})",
        "  App idle",
        "    start with: .start('app_idle')",
    ]
    assert "<app>" not in bundle["text/html"]
    assert "<b>loud" not in bundle["text/html"]
    assert "Hello &lt;app&gt;" in bundle["text/html"]
    assert "<b>loud" not in bundle["text/markdown"]
    assert "**Greet**" in bundle["text/markdown"]


def test_it_starts_only_what_it_lists(session: loom.Loom) -> None:
    app = hello_app(workflows=[GreetWorkflow])
    run = app.start("app_greet", {"name": "Ada"}, labels=["x"])
    other = app.start(GreetWorkflow, {"name": "Bob"})
    at_rest(run)
    at_rest(other)

    assert (run.state["text"], run.labels, other.state["text"]) == ("hello Ada", ("x",), "hello Bob")
    assert run.record.app_name == "hello_app"
    assert run.record.workspace_id == other.record.workspace_id != session.start(IdleWorkflow).record.workspace_id
    with pytest.raises(loom.Refused, match=r"'hello_app' has no workflow 'app_idle'\.\nIt has: app_greet"):
        app.start(IdleWorkflow)
    with pytest.raises(loom.ArgsInvalid):
        app.start("app_greet", {})


def test_a_re_run_cell_replaces_the_app_and_a_clash_is_refused() -> None:
    hello_app()
    second = hello_app(workflows=[])

    assert APPS.need("hello_app") is second
    assert "has no workflows" in repr(second)
    with pytest.raises(loom.DefinitionError, match=r"'hello_app' is taken") as caught:
        loom.studio_app(title="T")(type("HelloModule", (), {"__module__": "elsewhere"}))
    assert "@loom.studio_app(name=…)" in caught.value.advice or "@loom.studio_app" in caught.value.advice


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"title": " "}, "has no title"),
        ({"workflows": [GreetWorkflow, GreetWorkflow]}, "lists a workflow twice"),
        ({"workflows": [Voice]}, "'Voice' is no workflow"),
        ({"ui": {"widgets": [{"wdget": "x"}]}}, "is no widget of an app"),
    ],
)
def test_an_app_that_cannot_work_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(loom.DefinitionError, match=said):
        loom.studio_app(**{"title": "T", **options})(type("SomeApp", (), {}))


def test_its_runs_get_what_it_provides_and_others_do_not(session: loom.Loom) -> None:
    loud = hello_app(provide={Voice: LoudVoice})
    mine, plain = loud.start("app_greet", {"name": "Ada"}), session.start(GreetWorkflow, {"name": "Ada"})
    with loom.overrides({Voice: type("Test", (Voice,), {"word": "test"})}):
        tested = loud.start("app_greet", {"name": "Ada"})
    for run in (mine, plain, tested):
        at_rest(run)
        run.answer("done", None)
        status_is(run, "completed")

    assert [r.result[0] for r in (mine, plain, tested)] == ["HELLO Ada", "hello Ada", "test Ada"]


def test_a_key_finds_no_run_with_other_services(session: loom.Loom) -> None:
    session.start(GreetWorkflow, {"name": "Ada"}, key="k")

    with pytest.raises(loom.Conflict, match="was started by 'no app'"):
        hello_app(provide={Voice: LoudVoice}).start("app_greet", {"name": "Ada"}, key="k")


def test_what_it_provides_must_be_for_classes() -> None:
    with pytest.raises(loom.Refused, match="'voice' cannot be replaced"):
        hello_app(provide={"voice": LoudVoice})
    assert APPS.get("hello_app") is None


def test_after_a_restart_its_runs_wait_for_the_app_and_get_the_same(session: loom.Loom) -> None:
    run = hello_app(provide={Voice: LoudVoice}).start("app_greet", {"name": "Ada"})
    at_rest(run)
    session.close()
    loom.runtime.REGISTRY.apps.discard("hello_app")  # a new kernel, in which the app's cell did not run yet
    with loom.open(session.path) as again:
        stored = again.run(run.id)
        with pytest.raises(loom.AnswerRefused, match="Run the cell that defines the app 'hello_app'"):
            stored.answer("done", None)
        hello_app(provide={Voice: LoudVoice})
        stored.answer("done", None)
        status_is(stored, "completed")

        assert stored.result == ["HELLO Ada", "HELLO"]
