"""What every agent store has to do with the rows of tool calls, usage and runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from loomnb.agents import spi
from loomnb.errors import InvalidRequest, NotFound
from loomnb.testing.agent_store_stories import ANN, StoreStories, refused
from loomnb.testing.sources import StillSource

__all__ = ["AgentStoreRowsContract"]


class AgentStoreRowsContract(StoreStories):
    """The tests of rows; a part of `AgentStoreContract`."""

    # -- tool calls --

    def test_a_message_tells_what_became_of_approvals(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            calls: list[dict[str, Any]] = [
                {"id": name, "name": "act", "input": {}, "kind": "action"} for name in ("auto", "open", "no", "late", "yes")
            ]
            await store.append_message("t", spi.ChatMessage(role="assistant", tool_calls=calls))
            rows: dict[str, dict[str, Any]] = {
                "auto": {"status": "executed"},
                "open": {"status": "pending_approval", "approver": "requester", "expires_at": "2026-01-02T04:00:00+00:00"},
                "no": {
                    "status": "rejected",
                    "approver": "admin",
                    "decided_by": "ben",
                    "decided_via": "web",
                    "reason": "too early",
                },
                "late": {"status": "expired", "approver": "admin"},
                "yes": {"status": "failed", "approver": "admin", "decided_by": "ben", "reason": "unsaid", "remember": True},
            }
            for name, row in rows.items():
                await store.record_tool_call(spi.ToolCallRow(id=name, thread_id="t", tool_name="act", tool_type="action", **row))
            (found,) = (await store.get_thread("t")).messages
            approvals = {call["id"]: call.get("approval") for call in found.tool_calls}

            assert approvals == {
                "auto": None,
                "open": {"status": "pending", "approver": "requester", "expiresAt": "2026-01-02T04:00:00+00:00"},
                "no": {"status": "rejected", "approver": "admin", "decidedBy": "ben", "decidedVia": "web", "reason": "too early"},
                "late": {"status": "expired", "approver": "admin"},
                "yes": {"status": "approved", "approver": "admin", "decidedBy": "ben", "remember": True},
            }

        self.play(story)

    def test_a_tool_call_is_recorded_changed_and_found(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            row = spi.ToolCallRow(
                id="c", thread_id="t", run_id="r1", tool_name="act", status="pending_approval", approver="admin", input={"x": 1}
            )
            await store.record_tool_call(row)
            approval = await store.tool_call_approval("c")
            await store.update_tool_call("c", {"status": "executed", "output": {"done": True}, "executed_by_ref": "ben"})

            assert (await store.owner_of_tool_call("c"), await store.run_for_tool_call("c")) == ("ann", "r1")
            assert (approval["approver"], approval["requesterRef"], approval["status"]) == ("admin", "ann", "pending_approval")
            assert await store.tool_call_input("c") == {"x": 1}
            assert await store.tool_call_outcomes(["c", "no"]) == {"c": {"status": "executed", "output": {"done": True}}}
            await refused(NotFound, store.update_tool_call("no", {"status": "failed"}))
            await refused(InvalidRequest, store.update_tool_call("c", {"thread_id": "other"}))

        self.play(story)

    def test_a_call_without_a_run_belongs_to_the_run_its_thread_streams(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await store.record_tool_call(spi.ToolCallRow(id="c", thread_id="t", tool_name="look"))
            await store.set_active_stream("t", "r9")

            assert await store.run_for_tool_call("c") == "r9"
            assert await store.run_for_tool_call("no") is None

        self.play(story)

    def test_the_outcome_of_a_call_tells_whether_it_gave_anything(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            rows: dict[str, dict[str, Any]] = {
                "running": {"status": "auto_executed"},
                "nothing": {"status": "executed"},
                "broke": {"status": "failed", "error": "boom"},
                "no": {"status": "rejected", "reason": "too early"},
                "agreed": {"status": "pending_approval", "approver": "requester", "decided_by": "ann"},
            }
            for name, row in rows.items():
                await store.record_tool_call(spi.ToolCallRow(id=name, thread_id="t", tool_name="act", **row))

            assert await store.tool_call_outcomes(list(rows)) == {
                "running": {"status": "auto_executed"},
                "nothing": {"status": "executed", "output": None},
                "broke": {"status": "failed", "error": "boom"},
                "no": {"status": "rejected", "reason": "too early"},
                "agreed": {"status": "pending_approval", "decided": True},
            }

        self.play(story)

    def test_the_outcome_of_a_runs_call_is_not_that_of_another_call_of_the_same_id(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            if spi.optional(store, "outcomes_of_run") is None:
                return  # a store may do without
            for thread, run in (("t", "r1"), ("u", "r2")):
                await store.create_thread(actor=ANN, id=thread)
                await store.record_run_start(run_id=run, thread_id=thread, actor_ref="ann")
                message = spi.ChatMessage(role="assistant", content=run, id=f"m-{run}", run_id=run)
                await store.append_message(thread, message)
            await store.record_tool_call(spi.ToolCallRow(id="c", thread_id="t", run_id="r1", tool_name="act"))
            done: dict[str, Any] = {"status": "executed", "output": "hers"}
            await store.record_tool_call(spi.ToolCallRow(id="c", thread_id="u", run_id="r2", tool_name="act", **done))
            fork = await store.fork_thread("u", "m-r2")

            assert await store.outcomes_of_run("t", "r1", ["c", "no"]) == {"c": {"status": "auto_executed"}}
            assert await store.outcomes_of_run("u", "r2", ["c"]) == {"c": done}
            assert await store.outcomes_of_run(fork.id, "r2", ["c"]) == {"c": done}
            assert await store.outcomes_of_run("t", "r2", ["no"]) == {}

        self.play(story)

    def test_only_a_runs_own_waiting_calls_are_failed_and_only_once(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            for name, run, status in (("a", "r1", "pending_approval"), ("b", "r1", "executed"), ("c", "r2", "pending_approval")):
                await store.record_tool_call(
                    spi.ToolCallRow(id=name, thread_id="t", run_id=run, tool_name="act", status=status)  # type: ignore[arg-type]
                )

            assert (await store.fail_unsettled_tool_calls("r1", "gone"), await store.fail_unsettled_tool_calls("r1", "gone")) == (
                1,
                0,
            )
            assert await store.tool_call_outcomes(["a", "b", "c"]) == {
                "a": {"status": "failed", "error": "gone"},
                "b": {"status": "executed", "output": None},
                "c": {"status": "pending_approval"},
            }

        self.play(story)

    def test_calls_of_one_id_in_several_runs_of_a_thread_are_told_apart(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            rows: dict[str, dict[str, Any]] = {
                "r1": {"tool_name": "send", "status": "executed", "decided_by": "ann", "remember": True},
                "r2": {"tool_name": "pay", "status": "rejected", "decided_by": "ann"},
                "r3": {"tool_name": "pay", "status": "executed", "decided_by": "ann"},
            }
            for run, row in rows.items():
                call = {"id": "c", "name": row["tool_name"], "input": {}, "kind": "action"}
                await store.append_message("t", spi.ChatMessage(role="assistant", tool_calls=[call], run_id=run))
                await store.record_tool_call(spi.ToolCallRow(id="c", thread_id="t", run_id=run, approver="requester", **row))
            told = [call["approval"]["status"] for m in (await store.get_thread("t")).messages for call in m.tool_calls]

            assert told == ["approved", "rejected", "approved"]
            assert list(await store.remembered_approvals("t")) == ["send"]

        self.play(story)

    def test_remembered_approvals_are_of_one_thread_and_of_calls_that_were_agreed_to(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            for name in ("t", "u"):
                await store.create_thread(actor=ANN, id=name)
            rows = [
                ("a", "t", "send", "executed"),
                ("b", "t", "drop", "rejected"),
                ("c", "t", "send", "executed"),
                ("d", "u", "pay", "executed"),
            ]
            for id_, thread_id, tool, status in rows:
                await store.record_tool_call(
                    spi.ToolCallRow(id=id_, thread_id=thread_id, tool_name=tool, status=status, remember=True)  # type: ignore[arg-type]
                )

            assert list(await store.remembered_approvals("t")) == ["send"]

        self.play(story)

    # -- usage and runs --

    def test_usage_is_summed_for_an_actor_and_a_utc_day(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            rows = [
                ("ann", {"inputTokens": 10, "outputTokens": 5}, 0.5, "2026-01-02T00:00:00+00:00"),
                ("ann", {"inputTokens": 1, "outputTokens": 1}, None, "2026-01-02T23:59:59.999000+00:00"),
                ("ann", {"inputTokens": 100}, 9.0, "2026-01-03T00:00:00+00:00"),
                ("ben", {"inputTokens": 100}, 9.0, "2026-01-02T12:00:00+00:00"),
                ("ann", {}, None, "2026-01-02T12:00:00+00:00"),
            ]
            for actor, usage, cost, at in rows:
                row = spi.UsageRow(thread_id="t", actor_ref=actor, model_id="m-1", usage=usage, cost_usd=cost, at=at)
                await store.record_usage(row)

            assert await store.quota_today(ANN, "2026-01-02") == {"usedTokens": 17, "costUsd": 0.5}
            assert await store.quota_today(ANN, "2026-01-04") == {"usedTokens": 0, "costUsd": 0}

        self.play(story)

    def test_usage_between_two_moments_tells_what_nobody_priced(self) -> None:
        async def story(store: Any, source: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            now = source.now()
            for usage, cost in (({"inputTokens": 10, "outputTokens": 5}, 0.5), ({"inputTokens": 7, "outputTokens": 1}, None)):
                row = spi.UsageRow(thread_id="t", actor_ref="ann", model_id="m-1", usage=usage, cost_usd=cost)
                await store.record_usage(row)
            found = await store.usage_between(ANN, now, now + timedelta(seconds=1))
            before = await store.usage_between(ANN, now - timedelta(days=1), now)

            assert (found["usedTokens"], found["costUsd"]) == (23, 0.5)
            assert found["unreported"] == {"m-1": {"inputTokens": 7, "outputTokens": 1}}
            assert (before["usedTokens"], before["costUsd"]) == (0, 0)

        self.play(story)

    def test_a_run_is_recorded_from_its_start_to_its_first_end(self) -> None:
        async def story(store: Any, source: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await store.record_run_start(run_id="r1", thread_id="t", actor_ref="ann", agent_name="helper", prompt_hash="h")
            await store.bump_run_retries("r1")
            source.advance(2)
            await store.record_run_end("r1", status="failed", error_code="run_failed", error_message="boom")
            await store.record_run_end("r1", status="completed")
            await store.record_run_end("no", status="completed")
            await store.bump_run_retries("no")
            (row,) = store.runs()

            assert (row.run_id, row.status, row.error_code, row.error_message) == ("r1", "failed", "run_failed", "boom")
            assert (row.retries, row.duration_ms, row.agent_name, row.prompt_hash) == (1, 2000, "helper", "h")
            assert await store.thread_of_run("r1") == "t"

        self.play(story)

    def test_a_cancelled_run_has_no_error(self) -> None:
        async def story(store: Any, _: StillSource) -> None:
            await store.create_thread(actor=ANN, id="t")
            await store.record_run_start(run_id="r1", thread_id="t", actor_ref="ann")
            await store.record_run_end("r1", status="cancelled", error_code="cancelled", error_message="x", duration_ms=5)
            (row,) = store.runs()

            assert (row.status, row.error_code, row.error_message, row.duration_ms) == ("cancelled", None, None, 5)

        self.play(story)
