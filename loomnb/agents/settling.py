"""What is written about a run that died: nobody waits for its calls any more, and its thread is free again.

Straight on the store, without a checkpoint: also a run whose journal can no longer be replayed has to be put to rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomnb.agents.spi import AgentStore, ChatMessage, optional, settled

__all__ = ["DEAD_CALL", "announce_end", "settle_dead_run"]

DEAD_CALL = "The run ended before anybody decided on this call. It never started."


async def settle_dead_run(
    store: AgentStore, run_id: str, failure: Mapping[str, str] | None = None, thread_id: str | None = None
) -> int:
    """Settle what a run left behind; to do so twice is to do it once.

    Its calls that wait for somebody are failed. With a failure the run's row is ended too and its thread is released, when this
    run still has it. What the store has no methods for is left as it is.

    Args:
        store: where the run is on record.
        run_id: the run.
        failure: why it ended, `{"code", "message"}`; the code `cancelled` ends it as cancelled, without an error. None: the row
            and the thread are left alone.
        thread_id: its thread; looked up unless given, where the store can.

    Returns:
        How many calls were failed.
    """
    fail = optional(store, "fail_unsettled_tool_calls")
    count = 0 if fail is None else int(await settled(fail(run_id, DEAD_CALL)))
    if failure is None:
        return count
    if (end := optional(store, "record_run_end")) is not None:
        if failure.get("code") == "cancelled":
            await settled(end(run_id, status="cancelled"))
        else:
            await settled(end(run_id, status="failed", error_code=failure.get("code"), error_message=failure.get("message")))
    if thread_id is None and (find := optional(store, "thread_of_run")) is not None:
        thread_id = await settled(find(run_id))
    if thread_id is not None and await _active_run(store, thread_id) == run_id:
        await store.set_active_stream(thread_id, None)
    return count


async def announce_end(store: AgentStore, run_id: str, agent: str, args: Mapping[str, Any], failure: Mapping[str, str]) -> None:
    """Say in the conversation that started an agent that it came to no answer, as its answer would have been said there.

    Once for a run: one that is taken up again and fails again is not told of anew; its answer, if it has one, is. Nothing is said
    where the conversation is gone, or where nobody waits for an answer to come into one.

    Args:
        store: where the conversation is.
        run_id: the run of the agent that was started.
        agent: its name.
        args: of the run; `deliver` says where its answer goes, `parent` which run started it.
        failure: as for `settle_dead_run`.
    """
    to = args.get("deliver")
    thread = await store.get_thread(to["threadId"]) if to is not None else None
    if to is None or thread is None or any(message.run_id == run_id for message in thread.messages):
        return
    is_stopped = failure.get("code") == "cancelled"
    why = "it was stopped" if is_stopped else failure.get("message") or str(failure.get("code"))
    text = f"{agent} came to no answer: {why}"
    await store.append_message(to["threadId"], ChatMessage(role="assistant", content=text, agent_name=agent, run_id=run_id))
    output = {"detached": True, "status": "canceled" if is_stopped else "failed", "agent": agent, "runId": run_id, "text": text}
    update, parent = optional(store, "update_call_of_run"), args.get("parent")
    if update is not None and parent is not None:
        await settled(update(to["threadId"], parent, to["toolCallId"], {"output": output}))
    else:
        await store.update_tool_call(to["toolCallId"], {"output": output})


async def _active_run(store: AgentStore, thread_id: str) -> str | None:
    """Which run a thread streams: a later turn may have taken it over, and must not lose it."""
    if (active := optional(store, "active_run_for_thread")) is not None:
        return await settled(active(thread_id))
    thread = await store.get_thread(thread_id)
    return None if thread is None else thread.active_stream
