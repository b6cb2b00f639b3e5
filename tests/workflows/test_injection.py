"""Constructor injection: who gets what, what is refused, and what stands in for what."""

from __future__ import annotations

import abc
import asyncio
import threading
from pathlib import Path
from typing import Any, Protocol

import pytest

import loomnb as loom
from tests.helpers import at_rest, status_is


@loom.tool(name="injected_counter")
class CounterTool(loom.BaseTool):
    """Counts its calls; one instance serves every run."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self) -> loom.ToolEnvelope[int]:
        self.count += 1
        return loom.ToolEnvelope(data=self.count)


class Greeter:
    def __init__(self, counter: CounterTool, word: str = "hello") -> None:
        self.counter = counter
        self.word = word


class LoudGreeter(Greeter):
    def __init__(self, counter: CounterTool) -> None:
        super().__init__(counter, "HELLO")


@loom.workflow(name="injected_child")
class ChildWorkflow(loom.BaseWorkflow):
    @loom.transition(to="end")
    def go(self) -> None:
        self.set_result("child")


@loom.workflow(name="injected_parent")
class ParentWorkflow(loom.BaseWorkflow):
    made = 0

    def __init__(self, counter: CounterTool, greeter: Greeter, child: ChildWorkflow) -> None:
        type(self).made += 1
        self.counter, self.greeter, self.child = counter, greeter, child

    @loom.transition(to="waiting")
    async def begin(self) -> None:
        count = await self.counter.call()
        self.child.run(callback={"transition": "done"})
        self.assign_state(word=self.greeter.word, same=self.greeter.counter is self.counter, count=count.data)

    @loom.transition(from_="waiting", to="end", wait=True)
    @loom.guard("is_word")
    def done(self, state: Any, input: Any) -> None:  # noqa: A002  # the seed's word
        self.set_result([state["word"], state["same"], input.data])

    def is_word(self, state: Any) -> bool:
        return bool(state["word"] == self.greeter.word)


def result_of(run: loom.Run) -> Any:
    async def end() -> Any:
        return await asyncio.wait_for(_await(run), 20)

    return asyncio.run(end())


async def _await(run: loom.Run) -> Any:
    return await run


def test_tools_services_and_sub_workflows_are_injected_and_shared(session: loom.Loom) -> None:
    assert result_of(session.start(ParentWorkflow)) == ["hello", True, "child"]
    assert loom.resolve(ParentWorkflow).child is loom.resolve(ChildWorkflow)


def test_a_workflow_is_made_when_it_first_moves_and_once(session: loom.Loom) -> None:
    made: list[int] = []

    @loom.workflow
    class Lazy(loom.BaseWorkflow):
        def __init__(self) -> None:
            made.append(1)

        @loom.transition(to="end")
        def go(self) -> None: ...

    assert made == []
    at_rest(session.start(Lazy))
    at_rest(session.start(Lazy))

    assert made == [1]


def test_annotated_attributes_are_injected_before_the_constructor_runs(session: loom.Loom) -> None:
    class Attributed(loom.BaseWorkflow):
        counter: CounterTool
        child: ChildWorkflow
        limit: int
        note: str = "mine"

        def __init__(self) -> None:
            self.seen = (type(self.counter), type(self.child), hasattr(self, "limit"))

        @loom.transition(to="end")
        def go(self) -> None: ...

    made = loom.resolve(loom.workflow(Attributed))

    assert made.seen == (CounterTool, ChildWorkflow, False)
    assert made.note == "mine"


# -- what stands in -------------------------------------------------------------------------------


class FakeGreeter:
    word = "fake"
    counter = None


def test_overrides_hold_in_their_block_and_nowhere_else(session: loom.Loom) -> None:
    with loom.overrides({Greeter: FakeGreeter()}):
        inside = session.start(ParentWorkflow)
    outside = session.start(ParentWorkflow)

    assert result_of(inside) == ["fake", False, "child"]
    assert result_of(outside) == ["hello", True, "child"]


def test_overrides_nest() -> None:
    with loom.overrides({Greeter: LoudGreeter}):
        loud = loom.resolve(Greeter)
        with loom.overrides({CounterTool: "a counter"}):
            both = loom.resolve(Greeter)
    assert (loud.word, both.word, both.counter) == ("HELLO", "HELLO", "a counter")
    assert loom.resolve(Greeter).word == "hello"


def test_inside_overrides_everything_is_made_anew() -> None:
    plain = loom.resolve(CounterTool)
    with loom.overrides({}):
        fresh = loom.resolve(CounterTool)

        assert fresh is loom.resolve(CounterTool)
    assert fresh is not plain


def test_a_function_makes_what_stands_in_once_and_late() -> None:
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return FakeGreeter()

    with loom.overrides({Greeter: make}):
        assert made == []
        assert loom.resolve(Greeter) is loom.resolve(Greeter)

    assert made == [1]


def test_a_parameter_with_a_default_keeps_it_unless_something_stands_in() -> None:
    class Options:
        kind = "real"

    class Fake(Options):
        kind = "fake"

    class Needy:
        def __init__(self, options: Options | None = None, other: Options = Options()) -> None:  # noqa: B008  # what is tested
            self.options, self.other = options, other

    globals().update(Options=Options)
    try:
        assert loom.resolve(Needy).other.kind == "real"
        with loom.overrides({Options: Fake}):
            assert loom.resolve(Needy).other.kind == "fake"
            assert loom.resolve(Needy).options is None
    finally:
        del globals()["Options"]


def test_a_run_in_overrides_keeps_them_while_it_waits(session: loom.Loom) -> None:
    @loom.workflow
    class Waiting(loom.BaseWorkflow):
        greeter: Greeter

        def __init__(self, greeter: Greeter) -> None:
            self.g = greeter

        @loom.transition(to="asking")
        def begin(self) -> None: ...

        @loom.transition(from_="asking", to="end", wait=True)
        @loom.guard("allows")
        def answer(self) -> None:
            self.set_result(self.g.word)

        def allows(self) -> bool:
            return self.g.word == "fake"

    with loom.overrides({Greeter: FakeGreeter()}):
        run = session.start(Waiting)
    at_rest(run)
    run.answer("answer")

    assert result_of(run) == "fake"


def test_a_stand_in_for_a_sub_workflow_is_started_instead(session: loom.Loom) -> None:
    @loom.workflow(name="fake_child")
    class FakeChild(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            self.set_result("fake child")

    with loom.overrides({ChildWorkflow: FakeChild}):
        parent, child = session.start(ParentWorkflow), session.start(ChildWorkflow)

    assert result_of(parent)[2] == "fake child"
    assert result_of(child) == "child", "what stands in for a class is for those who need it"


def test_a_fake_tool_need_not_be_decorated(session: loom.Loom) -> None:
    class FakeCounter(CounterTool):
        def handle(self) -> loom.ToolEnvelope[int]:
            return loom.ToolEnvelope(data=42)

    with loom.overrides({CounterTool: FakeCounter}):
        run = session.start(ParentWorkflow)
    result_of(run)

    assert run.state["count"] == 42


def test_only_classes_and_function_tools_can_be_replaced() -> None:
    with pytest.raises(loom.Refused, match="'counter' cannot be replaced"), loom.overrides({"counter": 1}):
        pass


def test_two_threads_make_one_instance() -> None:
    class Slow:
        made = 0

        def __init__(self) -> None:
            type(self).made += 1
            started.wait(0.2)

    started = threading.Event()
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(loom.resolve(Slow))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    assert (Slow.made, len({id(x) for x in got})) == (1, 1)


# -- what is refused ------------------------------------------------------------------------------


def flow_with(init: Any) -> Any:
    def go(self: Any) -> None: ...

    return type("Flow", (loom.BaseWorkflow,), {"__init__": init, "go": loom.transition(to="end")(go), "__module__": __name__})


def _bare(self: Any, mail) -> None: ...  # type: ignore[no-untyped-def]


def _text(self: Any, name: str) -> None: ...


def _listed(self: Any, tools: list[CounterTool]) -> None: ...


def _optional(self: Any, tool: CounterTool | None) -> None: ...


@pytest.mark.parametrize(
    ("init", "said"),
    [
        (_bare, r"Flow\.__init__: the parameter 'mail' has no annotation"),
        (_text, r"Flow\.__init__: 'name' is annotated with str"),
        (_listed, r"Flow\.__init__: 'tools' is annotated with list"),
        (_optional, r"Flow\.__init__: 'tool' is annotated with .*CounterTool"),
    ],
)
def test_a_constructor_nobody_can_call_is_refused_when_defined(init: Any, said: str) -> None:
    with pytest.raises(loom.DefinitionError, match=said) as caught:
        loom.workflow(flow_with(init))

    assert caught.value.advice


def _unknown(self: Any, tool: NoSuchTool) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # what is tested


def test_an_annotation_that_names_nothing_is_refused_when_it_is_needed(session: loom.Loom) -> None:
    flow = loom.workflow(flow_with(_unknown))
    failure = at_rest(session.start(flow)).failure

    assert failure is not None
    assert "Flow.__init__: name 'NoSuchTool' is not defined" in failure.message


class Hen:
    def __init__(self, egg: Egg) -> None: ...


class Egg:
    def __init__(self, hen: Hen) -> None: ...


def test_a_cycle_is_told_with_its_way() -> None:
    with pytest.raises(loom.DefinitionError, match=r"Hen\(egg\) → Egg\(hen\) → Hen"):
        loom.resolve(Hen)


class Mailer(Protocol):
    def send(self, text: str) -> None: ...


class Base(abc.ABC):
    @abc.abstractmethod
    def work(self) -> None: ...


class NeedsMailer:
    def __init__(self, mailer: Mailer) -> None:
        self.mailer = mailer


class NeedsBase:
    def __init__(self, base: Base) -> None: ...


class NeedsFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (NeedsMailer, r"NeedsMailer\.__init__: mailer: Mailer is abstract"),
        (NeedsBase, r"NeedsBase\.__init__: base: Base is abstract"),
        (NeedsFolder, r"NeedsFolder\.__init__: folder: Path is a class of the standard library"),
    ],
)
def test_what_cannot_be_made_must_be_provided(cls: Any, said: str) -> None:
    with pytest.raises(loom.DefinitionError, match=said) as caught:
        loom.resolve(cls)

    assert "loom.overrides({" in caught.value.advice


def test_what_is_provided_need_not_be_made() -> None:
    with loom.overrides({Path: Path("data"), Mailer: "a mailer"}):
        assert loom.resolve(NeedsFolder).folder == Path("data")
        assert loom.resolve(NeedsMailer).mailer == "a mailer"


def test_an_error_in_a_constructor_is_the_runs_and_unchanged(session: loom.Loom) -> None:
    @loom.workflow
    class Broken(loom.BaseWorkflow):
        tries = 0

        def __init__(self) -> None:
            type(self).tries += 1
            if self.tries == 1:
                raise ConnectionError("no server")

        @loom.transition(to="end")
        def go(self) -> None:
            self.set_result("made")

    run = session.start(Broken)
    at_rest(run)
    with pytest.raises(loom.RunFailed) as caught:
        result_of(run)
    assert isinstance(caught.value.__cause__, ConnectionError)

    run.retry()
    status_is(run, "completed")

    assert run.result == "made"


def test_resolve_takes_a_class() -> None:
    with pytest.raises(loom.Refused, match="is no class"):
        loom.resolve("counter")  # type: ignore[arg-type]


def test_a_re_run_cell_keeps_the_instances_that_do_not_need_it(session: loom.Loom) -> None:
    def cell(word: str) -> Any:
        @loom.workflow(name="re_run")
        class ReRun(loom.BaseWorkflow):
            counter: CounterTool

            @loom.transition(to="end")
            async def go(self) -> None:
                self.set_result([word, (await self.counter.call()).data])

        return ReRun

    first = result_of(session.start(cell("one")))
    second = result_of(session.start(cell("two")))

    assert (first[0], second[0]) == ("one", "two")
    assert second[1] == first[1] + 1


def test_a_function_tool_is_not_injected_and_the_advice_says_how_it_is_called() -> None:
    @loom.tool
    def halve(n: int) -> int:
        """Halve it."""
        return n // 2

    class Constructed(loom.BaseWorkflow):
        def __init__(self, halve: halve) -> None: ...  # type: ignore[valid-type]

        @loom.transition(to="end")
        def go(self) -> None: ...

    class Annotated(loom.BaseWorkflow):
        halved: halve  # type: ignore[valid-type]

        @loom.transition(to="end")
        def go(self) -> None: ...

    Constructed.__init__.__annotations__["halve"] = Annotated.__annotations__["halved"] = halve
    for cls in (Constructed, Annotated):
        with pytest.raises(loom.DefinitionError, match="a function: there is no instance") as caught:
            loom.workflow(cls)
        assert "await halve.call" in caught.value.advice
