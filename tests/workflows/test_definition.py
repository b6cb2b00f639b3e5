"""What is refused when a workflow class is defined, and the name it gets when it is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.runtime import REGISTRY
from loomnb.workflows import definition_of
from tests.helpers import at_rest


def class_named(name: str) -> type[Any]:
    def go(self: Any) -> None: ...

    return type(name, (loom.BaseWorkflow,), {"go": loom.transition(to="end")(go)})


@pytest.mark.case("workflows:A01")
@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("ChatWorkflow", "chat"),
        ("AgentExampleWorkflow", "agent_example"),
        ("MyCustomFlow", "my_custom_flow"),
        ("HTTPCallWorkflow", "http_call"),
        ("V2Workflow", "v2"),
        ("Workflow", "workflow"),
    ],
)
def test_a_workflow_is_named_by_its_class(class_name: str, name: str) -> None:
    loom.workflow(class_named(class_name))

    assert REGISTRY.need(name).name == name


def test_a_name_may_be_given() -> None:
    assert definition_of(loom.workflow(name="mine")(class_named("Other"))).name == "mine"


def test_a_title_is_made_of_the_name() -> None:
    assert definition_of(loom.workflow(class_named("MeetingNotesWorkflow"))).title == "Meeting notes"


def test_a_subclass_without_options_gets_a_name_of_its_own() -> None:
    parent = loom.workflow(name="parent", title="Parent")(class_named("Parent"))
    child = loom.workflow(type("Child", (parent,), {}))

    assert (definition_of(child).name, definition_of(child).title) == ("child", "Child")


def test_a_subclass_that_is_not_decorated_is_no_workflow(session: loom.Loom) -> None:
    parent = loom.workflow(class_named("Parent"))

    with pytest.raises(loom.DefinitionError, match="Child"):
        session.start(type("Child", (parent,), {}))


def test_a_class_run_again_replaces_itself() -> None:
    def define() -> type[Any]:
        @loom.workflow
        class Again(loom.BaseWorkflow):
            @loom.transition(to="end")
            def go(self) -> None: ...

        return Again

    define()
    second = define()

    assert REGISTRY.need("again").cls is second  # type: ignore[attr-defined]


def test_a_name_that_another_module_has_is_refused() -> None:
    loom.workflow(name="taken")(class_named("One"))
    other = class_named("Two")
    other.__module__ = "elsewhere"

    with pytest.raises(loom.DefinitionError, match="taken") as caught:
        loom.workflow(name="taken")(other)

    assert "elsewhere.Two" in str(caught.value)


def test_what_is_no_workflow_class_is_refused() -> None:
    with pytest.raises(loom.DefinitionError, match="BaseWorkflow"):
        loom.workflow(type("Bare", (), {}))


def test_a_workflow_may_be_started_by_its_name(session: loom.Loom) -> None:
    loom.workflow(class_named("ByName"))

    assert at_rest(session.start("by_name")).status == "completed"


def test_an_unknown_name_lists_those_there_are(session: loom.Loom) -> None:
    loom.workflow(class_named("Known"))

    with pytest.raises(loom.NotFound, match="known"):
        session.start("unknown")


# -- what cannot work ---------------------------------------------------------------------------------


def refused(body: Callable[[], Any], match: str) -> None:
    with pytest.raises(loom.DefinitionError, match=match) as caught:
        body()

    assert "Flow" in str(caught.value)


@pytest.mark.case("workflows:A09")
def test_two_unguarded_starts_are_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="end")
            def one(self) -> None: ...

            @loom.transition(to="end")
            def two(self) -> None: ...

    refused(define, "one and two")


@pytest.mark.case("workflows:A10")
def test_no_start_is_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(from_="middle", to="end")
            def one(self) -> None: ...

    refused(define, "start")


@pytest.mark.case("workflows:A10")
def test_only_guarded_starts_are_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="end")
            @loom.guard("may")
            def one(self) -> None: ...

            def may(self) -> bool:
                return True

    refused(define, "guarded")


def test_no_transition_at_all_is_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            pass

    refused(define, "no transition")


@pytest.mark.case("workflows:A11")
def test_two_unguarded_transitions_from_one_place_are_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="middle")
            def go(self) -> None: ...

            @loom.transition(from_="middle", to="end", priority=5)
            def one(self) -> None: ...

            @loom.transition(from_="middle", to="end")
            def two(self) -> None: ...

    refused(define, "middle")


@pytest.mark.case("workflows:A12")
def test_a_guard_that_is_no_method_is_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="end")
            def go(self) -> None: ...

            @loom.transition(to="end")
            @loom.guard("is_redy")
            def other(self) -> None: ...

    refused(define, "is_redy")


@pytest.mark.case("workflows:C11")
@pytest.mark.parametrize(
    "options", [{"to": "nowhere"}, {"to": "end", "retry_target": "nowhere"}, {"to": "end", "error_place": "nowhere"}], ids=str
)
def test_a_place_that_nothing_leaves_is_refused(options: dict[str, Any]) -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(**options)
            def go(self) -> None: ...

    refused(define, "nowhere")


def test_waiting_at_the_start_is_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="end")
            def go(self) -> None: ...

            @loom.transition(to="end", wait=True)
            def ask(self) -> None: ...

    refused(define, "ask")


def test_a_schema_on_an_automatic_transition_is_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="middle")
            def go(self) -> None: ...

            @loom.transition(from_="middle", to="end", schema=int)
            def on(self) -> None: ...

    refused(define, "schema")


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": -1},
        {"timeout": float("nan")},
        {"retry_delay": "1s"},
        {"retry_max_delay": timedelta(seconds=-1)},
        {"retry_backoff": "linear"},
        {"to": ""},
        {"from_": None},
    ],
    ids=str,
)
def test_an_option_that_means_nothing_is_refused_with_the_method(options: dict[str, Any]) -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(**({"to": "end"} | options))
            def go(self) -> None: ...

    refused(define, "go")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "10"], ids=repr)
def test_a_step_limit_that_is_no_count_is_refused(limit: Any) -> None:
    with pytest.raises(loom.DefinitionError, match="step_limit"):
        loom.workflow(step_limit=limit)(class_named("Flow"))


def test_a_method_that_takes_too_much_is_refused_with_what_it_gets() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="end")
            def go(self, state: Any, input: Any, ctx: Any) -> None: ...  # noqa: A002

    refused(define, r"\(state, ctx\)")


def test_one_method_leaving_one_place_twice_is_refused() -> None:
    def define() -> None:
        @loom.workflow
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="middle")
            def go(self) -> None: ...

            @loom.transition(from_="middle", to="end", wait=True)
            @loom.transition(from_="middle", to="start", wait=True)
            def ask(self) -> None: ...

    refused(define, "twice")


def test_a_refused_class_takes_no_name() -> None:
    def define() -> None:
        @loom.workflow(name="broken")
        class Flow(loom.BaseWorkflow):
            @loom.transition(to="nowhere")
            def go(self) -> None: ...

    refused(define, "nowhere")

    assert REGISTRY.get("broken") is None


def test_a_cycle_of_automatic_transitions_is_allowed() -> None:
    @loom.workflow
    class Cycle(loom.BaseWorkflow):
        @loom.transition(to="a")
        def go(self) -> None: ...

        @loom.transition(from_="a", to="b")
        def there(self) -> None: ...

        @loom.transition(from_="b", to="a")
        def back(self) -> None: ...


# -- inheriting and stacking --------------------------------------------------------------------------


@pytest.mark.case("workflows:A14")
def test_an_override_runs_with_its_parents_options(session: loom.Loom) -> None:
    class Base(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def first(self) -> None:
            self.assign_state(by="parent")

        @loom.transition(from_="middle", to="end")
        def second(self) -> None:
            self.assign_state(second=True)

    @loom.workflow
    class Child(Base):
        def first(self) -> None:
            self.assign_state(by="child")

    run = session.start(Child)
    at_rest(run)

    assert run.status == "completed"
    assert run.state == {"by": "child", "second": True}


def test_an_override_keeps_its_parents_guard(session: loom.Loom) -> None:
    class Base(loom.BaseWorkflow):
        @loom.transition(to="end")
        def plain(self) -> None:
            self.set_result("plain")

        @loom.transition(to="end", priority=1)
        @loom.guard("never")
        def guarded(self) -> None:
            self.set_result("guarded")

        def never(self) -> bool:
            return False

    @loom.workflow
    class Child(Base):
        def guarded(self) -> None:
            self.set_result("overridden")

    run = session.start(Child)
    at_rest(run)

    assert run.result == "plain"


def test_a_parents_transition_may_be_taken_away(session: loom.Loom) -> None:
    class Base(loom.BaseWorkflow):
        @loom.transition(to="end")
        def one(self) -> None:
            self.set_result("one")

    @loom.workflow
    class Child(Base):
        one = None  # type: ignore[assignment]

        @loom.transition(to="end")
        def two(self) -> None:
            self.set_result("two")

    run = session.start(Child)
    at_rest(run)

    assert run.result == "two"


@pytest.mark.case("workflows:A15")
def test_a_method_with_two_transitions_runs_at_both_places(session: loom.Loom) -> None:
    @loom.workflow
    class Stacked(loom.BaseWorkflow):
        @loom.transition(to="a")
        def go(self) -> None: ...

        @loom.transition(from_="a", to="b")
        @loom.transition(from_="b", to="end")
        def both(self, state: Any, ctx: Any) -> None:
            self.assign_state(seen=[*state.get("seen", []), ctx.execution.place])

    run = session.start(Stacked)
    at_rest(run)

    assert run.state["seen"] == ["a", "b"]


def test_of_several_guards_the_outermost_counts(session: loom.Loom) -> None:
    @loom.workflow
    class Guards(loom.BaseWorkflow):
        @loom.transition(to="end")
        def plain(self) -> None:
            self.set_result("plain")

        @loom.transition(to="end", priority=1)
        @loom.guard("yes")
        @loom.guard("no")
        def guarded(self) -> None:
            self.set_result("guarded")

        def yes(self) -> bool:
            return True

        def no(self) -> bool:
            return False

    run = session.start(Guards)
    at_rest(run)

    assert run.result == "guarded"


@pytest.mark.case("workflows:E20")
@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [(None, 300_000), ("0", 300_000), ("soon", 300_000), ("-5", 300_000), ("", 300_000), ("1500", 1500)],
    ids=repr,
)
def test_the_default_time_out_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str | None, milliseconds: float
) -> None:
    monkeypatch.delenv("LOOMNB_TRANSITION_TIMEOUT", raising=False)
    if value is not None:
        monkeypatch.setenv("LOOMNB_TRANSITION_TIMEOUT", value)

    (move,) = definition_of(loom.workflow(class_named("Timed"))).moves_from("start") or ()

    assert move.timeout == milliseconds


@pytest.mark.case("workflows:E20")
@pytest.mark.parametrize(("timeout", "milliseconds"), [(0, 0), (250, 250), (timedelta(seconds=2), 2000)], ids=str)
def test_a_time_out_may_be_given(timeout: Any, milliseconds: float) -> None:
    def go(self: Any) -> None: ...

    cls = type("Timed", (loom.BaseWorkflow,), {"go": loom.transition(to="end", timeout=timeout)(go)})
    (move,) = definition_of(loom.workflow(cls)).moves_from("start") or ()

    assert move.timeout == milliseconds


@pytest.mark.case("workflows:E21")
@pytest.mark.parametrize(
    ("options", "attempts"), [({}, -1), ({"error_place": "end"}, 0), ({"error_place": "end", "retry_attempts": 2}, 2)], ids=str
)
def test_an_error_place_alone_means_no_automatic_retry(options: dict[str, Any], attempts: int) -> None:
    def go(self: Any) -> None: ...

    cls = type("Tried", (loom.BaseWorkflow,), {"go": loom.transition(to="end", **options)(go)})
    (move,) = definition_of(loom.workflow(cls)).moves_from("start") or ()

    assert move.retry_attempts == attempts


class Approval(BaseModel):
    """What pydantic says of it."""

    ok: bool


def ask_of(session: loom.Loom, schema: Any, doc: str | None) -> loom.Ask:
    def approve_it(self: Any) -> None: ...

    approve_it.__doc__ = doc

    def go(self: Any) -> None: ...

    body = {
        "go": loom.transition(to="middle")(go),
        "approve_it": loom.transition(from_="middle", to="end", wait=True, schema=schema)(approve_it),
    }
    run = session.start(loom.workflow(type("Asking", (loom.BaseWorkflow,), body)))
    at_rest(run)
    (ask,) = run.pending
    return ask


def test_no_schema_gives_a_button(session: loom.Loom) -> None:
    ask = ask_of(session, None, None)

    assert (ask.kind, ask.form, ask.label) == ("button", None, "Approve it")


def test_a_flat_schema_gives_a_form(session: loom.Loom) -> None:
    ask = ask_of(session, Approval, None)

    assert ask.kind == "form"
    assert ask.form
    assert [(f.name, f.kind) for f in ask.form.fields] == [("ok", "boolean")]


def test_the_schemas_own_title_is_the_label(session: loom.Loom) -> None:
    class Titled(BaseModel):
        model_config = {"title": "Shall we?"}
        ok: bool

    assert ask_of(session, Titled, "Not this.").label == "Shall we?"


def test_else_the_docstrings_first_line_is_the_label(session: loom.Loom) -> None:
    assert ask_of(session, Approval, "Approve the notes\n\nOr do not.").label == "Approve the notes"
