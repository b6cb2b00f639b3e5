# ruff: noqa: S608  # what is put into these statements is the text of other statements here, and names from fixed lists
"""The views of agents over the journal: threads, messages, tool calls, what models used, and the runs of agents.

A thread's rows stand in the journal under the thread's id. What is added later to a message or a call (`….changed`) is merged
into it in order, as a JSON merge patch (RFC 7396), which DuckDB does by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["AGENT_VIEWS", "MEMORY_VIEWS", "THREADS_VIEW"]


def _merged(first: str, kinds: str, key: str, *whole: str) -> str:
    """One JSON object for each key: its first row, with all later ones merged in. `whole` are fields that are taken as they were
    said last: a merge patch would take the nulls within for removals."""
    said = "".join(f", arg_max(body->'{name}', seq) filter (where (body->'{name}') is not null) as {name}" for name in whole)
    return f"""
        select run_id{said}, {key} as id, min(seq) as first_seq, max(seq) as seq, min(ts) as ts, max(ts) as updated_at,
               list_reduce(list(body order by seq), lambda a, b: json_merge_patch(a, b)) as body
        from journal where kind in ({kinds}) group by run_id, {key}
        having bool_or(kind = '{first}')"""


_THREADS = f"""
    with merged as ({_merged("thread.created", "'thread.created', 'thread.changed'", "run_id")}),
    last as (
        select run_id, max(seq) as seq, max(ts) as ts, count(*) filter (where kind = 'message.added') as messages
        from journal where kind in ('thread.created', 'thread.changed', 'message.added', 'message.removed') group by run_id
    )
    select m.run_id as thread_id, m.body->>'actorRef' as actor_ref, m.body->>'tenantRef' as tenant_ref,
           m.body->>'title' as title, m.body->>'agentName' as agent_name, m.body->>'model' as model,
           coalesce((m.body->>'transient')::boolean, false) as is_transient,
           coalesce((m.body->>'deleted')::boolean, false) as is_deleted,
           m.ts as created_at, last.ts as updated_at, last.messages, last.seq
    from merged m join last using (run_id) order by m.first_seq"""

# What a person sees in a conversation: what they said, and the answers. No steps that only call tools, nothing edited away.
_SEEN = """
        select j.run_id, count(*) as messages from journal j left join (
            select run_id, id, max(seq) as seq
            from (select run_id, unnest((body->'ids')::varchar[]) as id, seq from journal where kind = 'message.removed')
            group by run_id, id
        ) gone on gone.run_id = j.run_id and gone.id = j.body->>'id'
        where j.kind = 'message.added' and not coalesce(gone.seq > j.seq, false) and (j.body->>'role' = 'user'
            or (j.body->>'role' = 'assistant' and coalesce(json_array_length(j.body->'toolCalls'), 0) = 0))
        group by j.run_id"""

_THREADS_SEEN = f"""
    with merged as ({_merged("thread.created", "'thread.created', 'thread.changed'", "run_id")}),
    last as (
        select run_id, max(seq) as seq, max(ts) as ts
        from journal where kind in ('thread.created', 'thread.changed', 'message.added', 'message.removed') group by run_id
    ),
    seen as ({_SEEN})
    select m.run_id as thread_id, m.body->>'actorRef' as actor_ref, m.body->>'tenantRef' as tenant_ref,
           m.body->>'title' as title, m.body->>'agentName' as agent_name, m.body->>'model' as model,
           coalesce((m.body->>'transient')::boolean, false) as is_transient,
           coalesce((m.body->>'deleted')::boolean, false) as is_deleted,
           m.ts as created_at, last.ts as updated_at, coalesce(seen.messages, 0) as messages, last.seq
    from merged m join last using (run_id) left join seen using (run_id) order by m.first_seq"""

_MESSAGE_KINDS = "'message.added', 'message.changed'"

_MESSAGES = f"""
    with merged as ({_merged("message.added", _MESSAGE_KINDS, "body->>'id'", "toolCalls", "toolResults", "ui")}),
    removed as (
        select run_id, id, max(seq) as seq
        from (select run_id, unnest((body->'ids')::varchar[]) as id, seq from journal where kind = 'message.removed')
        group by run_id, id
    )
    select m.id as message_id, m.run_id as thread_id, m.body->>'runId' as run_id,
           (row_number() over (partition by m.run_id order by m.first_seq) - 1)::integer as index,
           m.body->>'role' as role, m.body->>'content' as content, m.body->>'agentName' as agent_name,
           m.body->>'persona' as persona, m.toolCalls as tool_calls, m.toolResults as tool_results,
           m.body->>'reasoning' as reasoning, (m.body->>'reasoningMs')::double as reasoning_ms, m.ui as ui,
           m.body->'followUps' as follow_ups, m.body->>'modelId' as model_id, m.body->'usage' as usage,
           (m.body->>'costUsd')::double as cost_usd, m.body->>'feedback' as feedback,
           coalesce(removed.seq > m.first_seq, false) as is_deleted, m.ts as created_at, m.first_seq as seq
    from merged m left join removed on removed.run_id = m.run_id and removed.id = m.id order by m.first_seq"""

_CALL_KINDS = "'toolcall.recorded', 'toolcall.changed'"
_CALL_KEY = "body->>'id' || chr(9) || coalesce(body->>'runId', '')"

_TOOL_CALLS = f"""
    select body->>'id' as tool_call_id, run_id as thread_id, body->>'messageId' as message_id, body->>'runId' as run_id,
           body->>'toolName' as tool_name, body->>'toolType' as tool_type, input, output,
           body->>'status' as status, body->>'error' as error, body->>'reason' as reason, body->>'approver' as approver,
           (body->>'expiresAt')::timestamptz as expires_at, body->>'decidedBy' as decided_by,
           body->>'decidedVia' as decided_via, coalesce((body->>'remember')::boolean, false) as remember,
           body->>'executedByRef' as executed_by, (body->>'durationMs')::double as duration_ms,
           ts as recorded_at, updated_at, first_seq as seq
    from ({_merged("toolcall.recorded", _CALL_KINDS, _CALL_KEY, "input", "output")}) order by first_seq"""

_MODEL_USAGE = """
    select body->>'runId' as run_id, run_id as thread_id, body->>'actorRef' as actor_ref, body->>'modelId' as model_id,
           body->>'purpose' as purpose, try_cast(body->>'$.usage.inputTokens' as bigint) as input_tokens,
           try_cast(body->>'$.usage.outputTokens' as bigint) as output_tokens,
           try_cast(body->>'$.usage.cacheReadTokens' as bigint) as cache_read_tokens,
           try_cast(body->>'$.usage.cacheWriteTokens' as bigint) as cache_write_tokens,
           try_cast(body->>'$.usage.reasoningTokens' as bigint) as reasoning_tokens, (body->>'costUsd')::double as cost_usd,
           coalesce((body->>'at')::timestamptz, ts) as at, seq
    from journal where kind = 'usage.recorded' order by seq"""

_AGENT_RUNS = """
    select body->>'runId' as run_id, run_id as thread_id, body->>'actorRef' as actor_ref, body->>'agentName' as agent_name,
           body->>'parentRunId' as parent_run_id, body->>'status' as status, body->>'errorCode' as error_code,
           body->>'errorMessage' as error_message, coalesce((body->>'retries')::integer, 0) as retries,
           (body->>'startedAt')::timestamptz as started_at, (body->>'endedAt')::timestamptz as ended_at,
           (body->>'durationMs')::double as duration_ms, body->>'promptHash' as prompt_hash, seq
    from (
        select run_id, arg_max(body, seq) as body, min(seq) as seq
        from journal where kind = 'agent.run' group by run_id, body->>'runId'
    ) order by seq"""

_MODEL_PRICES = """
    select body->>'modelId' as model_id, (body->>'inputPricePer1m')::double as input_price_per_1m,
           (body->>'outputPricePer1m')::double as output_price_per_1m,
           (body->>'cacheWritePricePer1m')::double as cache_write_price_per_1m,
           (body->>'cacheReadPricePer1m')::double as cache_read_price_per_1m, ts as set_at
    from (
        select arg_max(body, seq) as body, max(ts) as ts from journal where kind = 'price.set' group by body->>'modelId'
    ) order by model_id"""

# What a provider did not price itself is estimated: contracts/agents.md §1.11. NULL: neither is known.
_COSTS = """
    select u.*, coalesce(u.cost_usd, (
        (greatest(u.input_tokens - coalesce(u.cache_write_tokens, 0) - coalesce(u.cache_read_tokens, 0), 0) * p.input_price_per_1m
        + coalesce(u.cache_write_tokens, 0) * coalesce(p.cache_write_price_per_1m, p.input_price_per_1m)
        + coalesce(u.cache_read_tokens, 0) * coalesce(p.cache_read_price_per_1m, p.input_price_per_1m)
        + u.output_tokens * p.output_price_per_1m) / 1e6
    )) as estimated_usd
    from model_usage u left join model_prices p using (model_id)"""

_MEMORIES = """
    select body->>'scope' as scope, body->>'key' as key, body->>'fact' as fact,
           coalesce((body->>'pinned')::boolean, false) as pinned, body->>'at' as said_at, ts as written_at, seq
    from (
        select arg_max(body, seq) as body, arg_max(kind, seq) as kind, max(ts) as ts, max(seq) as seq
        from journal where run_id = 'memories' and kind in ('memory.written', 'memory.forgotten')
        group by body->>'scope', body->>'key'
    ) where kind = 'memory.written' order by seq"""

AGENT_VIEWS: Mapping[str, tuple[str, str]] = {
    "threads": (_THREADS, "One row a conversation: whose it is, what it is called, when it changed last."),
    "messages": (_MESSAGES, "Every message of every conversation; is_deleted marks those that were edited away."),
    "tool_calls": (_TOOL_CALLS, "Every call of a tool that a model asked for, who decided on it and what came of it."),
    "model_usage": (_MODEL_USAGE, "One row a call of a model: tokens, and the cost if the provider said so."),
    "agent_runs": (_AGENT_RUNS, "One row a run of an agent: how it ended, how long it took."),
    "model_prices": (_MODEL_PRICES, "What models cost, in USD for a million tokens: see loom.set_model_prices."),
    "model_costs": (_COSTS, "model_usage with estimated_usd: the cost as reported, else by model_prices, else NULL."),
}
"""View → its query and what it is. A view stands after those it reads."""

THREADS_VIEW = (
    _THREADS_SEEN,
    "One row a conversation: whose it is, what it is called, when it changed last, and how many messages a person sees in it.",
)
"""`threads` since migration 7: before, it counted every message that was ever added."""

MEMORY_VIEWS: Mapping[str, tuple[str, str]] = {
    "memories": (_MEMORIES, "What agents remember, and for whom: one row a fact that was not forgotten."),
}
"""As `AGENT_VIEWS`."""
