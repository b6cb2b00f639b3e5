"""Which actions somebody has to agree to: contracts/agents.md §1.7 (ApprovalPolicy), decisions.md Agents 1."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.agents import Actor
from loomnb.agents.policies import ApprovalRules, DefaultApprovalPolicy, can_decide
from loomnb.agents.spi import ApprovalRequirement, ToolSpec
from loomnb.errors import DefinitionError
from tests.agents.looping import ANN
from tests.helpers import plain_id


def asked(policy: Any, name: str = "send", kind: Any = "action") -> ApprovalRequirement:
    requirement: ApprovalRequirement = policy.requirement_for(
        ToolSpec(name=name, kind=kind), ANN, thread_id="t1", run_id="r1", agent_name=None
    )
    return requirement


@pytest.mark.parametrize(("kind", "required"), [("action", True), ("read", False)], ids=plain_id)
def test_by_default_the_requester_agrees_to_every_action_without_a_time_limit(kind: Any, required: bool) -> None:
    assert asked(DefaultApprovalPolicy(), kind=kind) == ApprovalRequirement(required=required, approver="requester", ttl_ms=None)


@pytest.mark.parametrize(
    ("rules", "required"),
    [
        ({"send": "auto"}, False),
        ({"send": False}, False),
        ({"send": "ask"}, True),
        ({"send": True}, True),
        ({"sen": "auto"}, True),
        ({}, True),
        (None, True),
        (lambda spec: "auto" if spec.name == "send" else "ask", False),
    ],
    ids=plain_id,
)
def test_a_rule_counts_for_the_tool_of_exactly_that_name(rules: Any, required: bool) -> None:
    assert asked(ApprovalRules(rules, ttl_ms=5)) == ApprovalRequirement(required=required, ttl_ms=5)


def test_a_rule_may_be_a_whole_requirement() -> None:
    rule = ApprovalRequirement(required=True, approver="admin", ttl_ms=9)

    assert asked(ApprovalRules({"send": rule})) is rule


def test_a_rule_that_is_none_is_refused_when_it_is_written_and_when_it_is_given() -> None:
    with pytest.raises(DefinitionError, match="'maybe'"):
        ApprovalRules({"send": "maybe"})  # type: ignore[dict-item]
    with pytest.raises(DefinitionError, match="None"):
        asked(ApprovalRules(lambda spec: None))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("actor", "approver", "may"),
    [
        (ANN, "requester", True),
        (Actor(id="eve"), "requester", False),
        (Actor(id="eve", roles=("admin",)), "requester", False),
        (Actor(id="eve", roles=("admin",)), "admin", True),
        (ANN, "admin", False),
        (Actor(id="eve"), "admin", False),
    ],
    ids=plain_id,
)
def test_the_requester_decides_on_their_own_calls_or_whoever_has_the_role(actor: Actor, approver: str, may: bool) -> None:
    assert can_decide(actor, approver=approver, requester_ref="ann") is may
