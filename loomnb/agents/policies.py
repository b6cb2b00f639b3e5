"""Which actions somebody has to agree to, and who may decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from loomnb.agents.amounts import is_amount
from loomnb.agents.spi import Actor, ApprovalRequirement, ToolSpec
from loomnb.agents.words import check_texts
from loomnb.errors import DefinitionError

__all__ = ["ApprovalRules", "DefaultApprovalPolicy", "can_decide"]


@dataclass(frozen=True, slots=True)
class DefaultApprovalPolicy:
    """Every action is asked about, the requester decides, and there is no time limit.

    Raises:
        DefinitionError: `approver` is no role, or `ttl_ms` no number of milliseconds.
    """

    approver: str = "requester"
    ttl_ms: float | None = None

    def __post_init__(self) -> None:
        check_texts("The approver of a policy", [self.approver])
        _check_ttl(self.ttl_ms)

    def requirement_for(
        self, tool: ToolSpec, actor: Actor, *, thread_id: str, run_id: str, agent_name: str | None
    ) -> ApprovalRequirement:
        """It is required, for every action."""
        return ApprovalRequirement(required=tool.kind == "action", approver=self.approver, ttl_ms=self.ttl_ms)


Rule = Literal["ask", "auto"] | bool | ApprovalRequirement


class ApprovalRules:
    """A rule for each tool, by its exact name; actions without one are asked about.

    Args:
        rules: tool → `"ask"` (or True), `"auto"` (or False), or a whole ApprovalRequirement; or a function of the tool that
            gives one.
        ttl_ms: how long a question stands; None: for ever.

    Raises:
        DefinitionError: a rule is none of these, or `ttl_ms` no number of milliseconds.
    """

    def __init__(
        self, rules: Mapping[str, Rule] | Callable[[ToolSpec], Rule] | None = None, *, ttl_ms: float | None = None
    ) -> None:
        _check_ttl(ttl_ms)
        if rules is not None and not callable(rules) and not isinstance(rules, Mapping):
            raise DefinitionError(
                f"The approval rules {rules!r:.60} are none.",
                advice='Write {"tool": "ask" or "auto"}, or a function of the tool.',
            )
        self._rules = rules
        self._ttl_ms = ttl_ms
        if isinstance(rules, Mapping):
            for name, rule in rules.items():
                self._requirement(name, rule)

    def requirement_for(
        self, tool: ToolSpec, actor: Actor, *, thread_id: str, run_id: str, agent_name: str | None
    ) -> ApprovalRequirement:
        """What the rule of this tool says."""
        rule: Rule = self._rules(tool) if callable(self._rules) else (self._rules or {}).get(tool.name, "ask")
        return self._requirement(tool.name, rule)

    def _requirement(self, name: str, rule: Rule) -> ApprovalRequirement:
        if isinstance(rule, ApprovalRequirement):
            return rule
        if rule in ("ask", "auto", True, False):
            return ApprovalRequirement(required=rule in ("ask", True), ttl_ms=self._ttl_ms)
        raise DefinitionError(
            f"The approval rule {rule!r} of {name!r} is none.", advice='Use "ask", "auto" or a loom.ApprovalRequirement.'
        )


def _check_ttl(ttl_ms: object) -> None:
    if ttl_ms is not None and not is_amount(ttl_ms):
        raise DefinitionError(f"ttl_ms={ttl_ms!r:.60} is no number of milliseconds.", advice="Give one from 0 up, or None.")


def can_decide(actor: Actor, *, approver: str, requester_ref: str) -> bool:
    """Whether somebody may decide: the requester on their own calls, else whoever holds the role that is named."""
    return actor.id == requester_ref if approver == "requester" else approver in (actor.roles or ())
