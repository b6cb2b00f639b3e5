"""What calls of models used and cost, as a table and a chart."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

from loomnb.errors import Refused, Unavailable
from loomnb.store import Relation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Costs", "CostsBy", "costs_of"]

CostsBy = Literal["model", "thread", "agent", "day"]

_KEYS = {
    "model": "c.model_id",
    "thread": "coalesce(t.title, c.thread_id)",
    "agent": "coalesce(r.agent_name, '(default)')",
    "day": "strftime(c.\"at\" at time zone 'UTC', '%Y-%m-%d')",
}
_GROUPS = {"thread": "c.thread_id, coalesce(t.title, c.thread_id)"}


class Costs:
    """What calls of models used and cost, one row for each model, thread, agent or day, the dearest first.

    `cost_usd` is what providers reported, else estimated by `loom.set_model_prices`; calls of which neither is known are in no
    sum, and `unknown` counts them: a cost of NULL is unknown, and not 0.

    Attributes:
        relation: the rows.
    """

    def __init__(self, relation: Relation, by: str) -> None:
        self.relation = relation
        self._by = by

    def chart(self) -> Any:
        """A bar chart of the costs, by Altair.

        Raises:
            Unavailable: Altair is not installed.
        """
        try:
            altair: Any = importlib.import_module("altair")  # optional, and heavy
        except ImportError as exc:
            raise Unavailable("A chart needs Altair.", advice="pip install altair", retryable=False) from exc
        names = (self._by, "calls", "input_tokens", "output_tokens", "cost_usd", "unknown")
        rows = [dict(zip(names, row, strict=True)) for row in self.relation.fetchall()]
        order = None if self._by == "day" else "-x"
        bars = altair.Chart(altair.Data(values=rows)).mark_bar()
        return bars.encode(
            x=altair.X("cost_usd:Q", title="USD"),
            y=altair.Y(f"{self._by}:N", sort=order, title=self._by),
            tooltip=[f"{name}:{'N' if name == self._by else 'Q'}" for name in names],
        )

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows: key, calls, input tokens, output tokens, USD, calls whose cost is unknown."""
        return self.relation.fetchall()

    def df(self) -> Any:
        """The rows as a pandas frame."""
        return self.relation.df()

    def __repr__(self) -> str:
        return repr(self.relation)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        del options
        return self.relation.static_bundle()


def costs_of(ask: Callable[[str], Relation], by: str) -> Costs:
    """The costs in a store.

    Args:
        ask: runs a query.
        by: what a row is for.

    Raises:
        Refused: there is no such grouping.
    """
    key = _KEYS.get(by) if isinstance(by, str) else None
    if key is None:
        raise Refused(f"Costs are not told by {by!r:.60}.", advice=f"One of: {', '.join(_KEYS)}.")
    order = "1" if by == "day" else "cost_usd desc nulls last, 1"
    sql = f"""
        select {key} as "{by}", count(*) as calls, sum(input_tokens)::bigint as input_tokens,
               sum(output_tokens)::bigint as output_tokens, sum(estimated_usd) as cost_usd,
               count(*) filter (where estimated_usd is null) as unknown
        from model_costs c left join threads t using (thread_id) left join agent_runs r on r.run_id = c.run_id
        group by {_GROUPS.get(by, key)} order by {order}"""  # noqa: S608  # of the fixed texts above
    return Costs(ask(sql), by)
