"""What every store of agents' threads has to do, as tests that run against any `AgentStore`.

    from loomnb.testing.agent_store_contract import AgentStoreContract

    class TestMyStore(AgentStoreContract):
        def make_store(self, source):
            return MyStore(source=source)

pytest finds the tests in the class that is made of it. They use every method, also the optional ones; where a store lacks one on
purpose, replace the test by your own. To see what differs when one fails, call
`pytest.register_assert_rewrite("loomnb.testing.agent_store_contract", "loomnb.testing.agent_store_rows")` before this file is
imported.
"""

from __future__ import annotations

from typing import Any

from loomnb.agents import spi
from loomnb.errors import Conflict, InvalidRequest, NotFound
from loomnb.testing.agent_store_rows import AgentStoreRowsContract
from loomnb.testing.agent_store_stories import ANN, BEN, refused, told
from loomnb.testing.sources import StillSource

__all__ = ["AgentStoreContract"]


class AgentStoreContract(AgentStoreRowsContract):
    """The tests. Make a class of it whose name begins with `Test`, and say in `make_store(source)` how a store is made; in
    `close_store(store)`, how it is let go, where that is needed. Both may be coroutines."""

    # -- threads --

    def test_a_new_thread_has_the_titles_of_the_contract_and_belongs_to_its_actor(self) -> None:
        async def story(store: Any, source: StillSource) -> None:
            thread = await store.create_thread(actor=ANN, agent_name="helper", model="m-1")
            found = await store.get_thread(thread.id)

            assert (found.title, found.transient, found.actor_ref, found.tenant_ref) == ("New chat", False, "ann", "acme")
            assert (found.agent_name, found.model, list(found.messages)) == ("helper", "m-1", [])
            assert found.created_at == source.now()
            assert await store.owner_of_thread(thread.id) == "ann"

        self.play(story)

    def test_an_id_that_is_taken_is_refused_also_when_its_thread_was_deleted(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await refused(Conflict, store.create_thread(actor=BEN, id="t"))
            await store.soft_delete_thread("t")
            await refused(Conflict, store.create_thread(actor=ANN, id="t"))

        self.play(story)

    def test_threads_are_listed_newest_changed_first_and_only_ones_own(self) -> None:
        async def story(store: Any, source: StillSource) -> None:
            for name in ("a", "b", "c"):
                source.advance(1)
                await store.create_thread(actor=ANN, id=name)
            await store.create_thread(actor=BEN, id="other")
            await store.create_thread(actor=spi.Actor(id="ann", tenant_ref="else"), id="elsewhere")
            source.advance(1)
            await store.append_message("a", spi.ChatMessage(role="user", content="hi"))

            assert [thread.id for thread in await store.list_threads(ANN)] == ["a", "c", "b"]
            assert [thread.id for thread in await store.list_threads(ANN, limit=2)] == ["a", "c"]

        self.play(story)

    def test_a_transient_thread_is_listed_once_it_is_promoted(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t", transient=True)
            assert list(await store.list_threads(ANN)) == []

            await store.promote_thread("t")
            await store.promote_thread("t")

            assert [thread.id for thread in await store.list_threads(ANN)] == ["t"]

        self.play(story)

    def test_a_deleted_thread_is_gone_for_everybody(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await told(store, "t", "hello")
            await store.record_tool_call(spi.ToolCallRow(id="c", thread_id="t", tool_name="look"))
            await store.soft_delete_thread("t")
            await store.soft_delete_thread("t")

            assert await store.get_thread("t") is None
            assert list(await store.list_threads(ANN)) == []
            assert await store.owner_of_thread("t") is None
            assert await store.owner_of_tool_call("c") is None
            await refused(NotFound, store.append_message("t", spi.ChatMessage(role="user", content="more")))
            await refused(NotFound, store.set_title("t", "x"))

        self.play(story)

    def test_a_thread_is_changed_and_none_takes_away(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t", agent_name="helper", model="m-1")
            await store.set_title("t", "Plans")
            await store.update_thread("t", model=None, persona="strict")
            found = await store.get_thread("t")

            assert (found.title, found.agent_name, found.model, found.persona) == ("Plans", "helper", None, "strict")
            await refused(InvalidRequest, store.update_thread("t", actor_ref="ben"))

        self.play(story)

    def test_a_fork_begins_with_what_was_said_up_to_a_message_and_without_feedback(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t", agent_name="helper", model="m-1", title="Plans", transient=True)
            await store.append_message("t", spi.ChatMessage(role="user", content="one", id="m1"))
            await store.append_message("t", spi.ChatMessage(role="assistant", content="two", id="m2"))
            await store.append_message("t", spi.ChatMessage(role="user", content="three", id="m3"))
            await store.set_message_feedback("m2", "up")
            fork = await store.fork_thread("t", "m2")
            found, origin = await store.get_thread(fork.id), await store.get_thread("t")

            assert [(message.role, message.content) for message in found.messages] == [("user", "one"), ("assistant", "two")]
            assert [message.feedback for message in found.messages] == [None, None]
            assert not {message.id for message in found.messages} & {"m1", "m2", "m3"}
            assert (found.agent_name, found.model, found.transient, found.actor_ref) == ("helper", "m-1", False, "ann")
            assert [message.feedback for message in origin.messages] == [None, "up", None]
            await refused(NotFound, store.fork_thread("t", "nowhere"))

        self.play(story)

    # -- streams --

    def test_a_thread_streams_one_run_and_knows_whose_it_is(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await store.set_active_stream("t", "r1")
            assert (await store.owner_of_active_stream("r1"), await store.active_run_for_thread("t")) == ("ann", "r1")

            await store.set_active_stream("t", None)
            assert (await store.owner_of_active_stream("r1"), await store.active_run_for_thread("t")) == (None, None)

        self.play(story)

    def test_a_thread_is_claimed_by_one_run_at_a_time_and_released_by_that_one(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            assert await store.claim_active_stream("t", "r1")
            assert await store.claim_active_stream("t", "r1")
            assert not await store.claim_active_stream("t", "r2")
            assert not await store.release_active_stream("t", "r2")
            assert await store.claim_active_stream("t", "r2", instead_of="r1")
            assert not await store.claim_active_stream("t", "r3", instead_of="r1")
            assert await store.release_active_stream("t", "r2")
            assert await store.active_run_for_thread("t") is None

        self.play(story)

    # -- messages --

    def test_messages_come_back_as_they_were_said_and_in_their_order(self) -> None:
        async def story(store: Any, source: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            said = spi.ChatMessage(
                role="assistant",
                content="Here é \u2713",
                run_id="r1",
                agent_name="helper",
                persona="strict",
                tool_calls=[{"id": "c", "name": "look", "input": {"deep": [1, {"x": None}]}, "kind": "read"}],
                usage={"inputTokens": 3, "outputTokens": 4},
                cost_usd=0.25,
                model_id="m-1",
                reasoning="hm",
                reasoning_ms=12,
                ui=[{"id": "u", "component": "Text", "props": {"text": "x"}}],
                follow_ups=["and?"],
                native={"signature": "s"},
            )
            first = await store.append_message("t", spi.ChatMessage(role="user", content="hi", attachments=[{"name": "a.txt"}]))
            second = await store.append_message("t", said)
            found = (await store.get_thread("t")).messages

            assert [message.id for message in found] == [first, second]
            assert found[0].attachments == [{"name": "a.txt"}]
            assert found[0].created_at == source.now().isoformat()
            plain = found[1].to_json()
            assert {key: plain[key] for key in said.to_json()} == said.to_json()

        self.play(story)

    def test_a_message_that_is_there_already_is_not_stored_twice(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await store.create_thread(actor=ANN, id="u")
            for _ignored in range(2):
                assert await store.append_message("t", spi.ChatMessage(role="user", content="hi", id="m")) == "m"

            assert len((await store.get_thread("t")).messages) == 1
            await refused(Conflict, store.append_message("u", spi.ChatMessage(role="user", content="hi", id="m")))

        self.play(story)

    def test_results_components_and_feedback_replace_what_a_message_had(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await store.append_message(
                "t",
                spi.ChatMessage(role="assistant", id="m", tool_calls=[{"id": "c", "name": "look", "input": {}, "kind": "read"}]),
            )
            await store.set_message_tool_results("m", [{"id": "x", "name": "look", "output": 1}])
            await store.set_message_tool_results("m", [{"id": "c", "name": "look", "output": 2}])
            await store.set_message_ui("m", [{"id": "u", "component": "Text", "props": {}}])
            await store.set_message_feedback("m", "down")
            (found,) = (await store.get_thread("t")).messages

            assert found.tool_results == [{"id": "c", "name": "look", "output": 2}]
            assert found.ui == [{"id": "u", "component": "Text", "props": {}}]
            assert (found.feedback, await store.thread_of_message("m"), await store.thread_of_message("no")) == (
                "down",
                "t",
                None,
            )
            await refused(NotFound, store.set_message_tool_results("no", []))

        self.play(story)

    def test_what_a_caller_does_to_its_own_objects_later_changes_nothing(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            given: dict[str, Any] = {"id": "c", "name": "look", "input": {"x": 1}, "kind": "read"}
            await store.append_message("t", spi.ChatMessage(role="assistant", tool_calls=[given]))
            given["input"]["x"] = 2

            assert (await store.get_thread("t")).messages[0].tool_calls[0]["input"] == {"x": 1}

        self.play(story)

    def test_a_thread_is_cut_from_a_message_on(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            ids = await told(store, "t", "one", "two", "three")
            await store.truncate_from("t", ids[1])

            assert [message.content for message in (await store.get_thread("t")).messages] == ["one"]
            assert await store.thread_of_message(ids[2]) is None
            await refused(NotFound, store.truncate_from("t", ids[2]))

        self.play(story)

    def test_a_turn_loads_the_newest_messages_only(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await told(store, "t", "one", "two", "three")
            two = await store.load_thread_for_turn("t", message_limit=2)
            every = await store.load_thread_for_turn("t", message_limit=None)

            assert [message.content for message in two.messages] == ["two", "three"]
            assert [message.content for message in every.messages] == ["one", "two", "three"]
            assert await store.load_thread_for_turn("no", message_limit=None) is None

        self.play(story)

    def test_files_that_messages_still_need_are_known(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            for thread_id, media in (("t", "one"), ("gone", "two")):
                await store.create_thread(actor=ANN, id=thread_id)
                await store.append_message(thread_id, spi.ChatMessage(role="user", attachments=[{"name": "a", "mediaId": media}]))
            await store.soft_delete_thread("gone")

            assert list(await store.referenced_media_ids()) == ["one"]

        self.play(story)
