"""The conversations with an agent, as a list that a cell can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loomnb.present import escape
from loomnb.studio.chats import Chat
from loomnb.studio.transcripts import named

if TYPE_CHECKING:
    from loomnb.studio.agents import Agent
    from loomnb.studio.session import Loom

__all__ = ["Threads"]


class Threads(Sequence[Chat]):
    """Conversations, the one that changed last first. As a cell's last line they are listed."""

    def __init__(self, chats: Sequence[Chat], told: Sequence[Mapping[str, Any]], search: str | None = None) -> None:
        self._chats = tuple(chats)
        self._told = tuple(told)
        self._search = search

    @classmethod
    def of(cls, session: Loom, agent: Agent, search: str | None, limit: int) -> Threads:
        """Those of an agent's actor with this agent."""
        rows = session.runtime.database.read(
            "with mine as (select thread_id, title, messages as n, seq from threads where actor_ref = $actor and not is_deleted "
            "and not is_transient and agent_name = $agent), "
            "said as (select * from messages where not is_deleted and thread_id in (select thread_id from mine)), "
            "begun as (select thread_id, arg_min(content, index) filter (where role = 'user') as first from said group by all) "
            "select thread_id, title, n, coalesce(first, '') from mine left join begun using (thread_id) "
            "where $text is null or contains(lower(title), lower($text)) or exists (select 1 from said "
            "where said.thread_id = mine.thread_id and contains(lower(said.content), lower($text))) "
            "order by seq desc limit $limit",
            {"actor": agent.actor.id, "agent": agent.name, "text": search, "limit": max(limit, 0)},
        )
        waiting = {
            record.args.get("thread")
            for record in session.runtime.live()
            if isinstance(record.args, Mapping) and record.view.asks
        }
        told = [
            {"threadId": id_, "title": named(title, first), "messages": count, "waiting": id_ in waiting}
            for id_, title, count, first in rows
        ]
        return cls([Chat(agent, session, str(one["threadId"])) for one in told], told, search)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What a list shows of each: `{"threadId", "title", "messages", "waiting"}`. `messages` counts what was said and the
        answers; `waiting` is whether it waits for a person."""
        return [dict(one) for one in self._told]

    def __getitem__(self, index: Any) -> Any:
        return self._chats[index]

    def __len__(self) -> int:
        return len(self._chats)

    @property
    def _none(self) -> str:
        return f"No conversation fits “{self._search}”." if self._search else "No conversations yet."

    def __repr__(self) -> str:
        return "\n".join(f"{n}. {one['title']} ({_about(one)})" for n, one in enumerate(self._told)) or self._none

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(one['title'])} <small>({_about(one)})</small></li>" for one in self._told)
        return f'<ol start="0">{items}</ol>' if items else f"<p>{escape(self._none)}</p>"


def _about(one: Mapping[str, Any]) -> str:
    count = one["messages"]
    return ("1 message" if count == 1 else f"{count:,} messages") + (", waits for you" if one["waiting"] else "")
