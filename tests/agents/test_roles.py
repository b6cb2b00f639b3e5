"""Who may use which tool, and whether the agents that work is handed over to are there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents.agent_registry import AgentRegistry
from loomnb.agents.roles import ClosedRolesPolicy, DefaultRolesPolicy, close_empty_roles
from loomnb.agents.spi import Actor, AgentDefinition, Persona, ToolSpec
from loomnb.errors import DefinitionError

ANN = Actor(id="ann", roles=("sales", "staff"))
BOB = Actor(id="bob")


def tool(**more: Any) -> ToolSpec:
    return ToolSpec(name="look", **more)


@pytest.mark.parametrize(
    ("roles", "ann", "bob"),
    [(["sales", "finance"], True, False), (["finance"], False, False), ([], True, True), (None, True, True)],
    ids=["one-of", "none-of", "empty", "absent"],
)
def test_one_role_in_common_is_enough_and_no_roles_are_open(roles: Any, ann: bool, bob: bool) -> None:
    policy = DefaultRolesPolicy()

    assert (policy.can(ANN, tool(roles=roles)), policy.can(BOB, tool(roles=roles))) == (ann, bob)


def test_default_roles_are_those_of_tools_that_name_none() -> None:
    policy = DefaultRolesPolicy(["staff"])

    assert [policy.can(ANN, tool()), policy.can(BOB, tool()), policy.can(BOB, tool(roles=[]))] == [True, False, True]


@pytest.mark.parametrize("policy", [ClosedRolesPolicy(), DefaultRolesPolicy(empty_roles="deny")], ids=["closed", "deny"])
def test_a_closed_policy_refuses_a_tool_without_roles(policy: Any) -> None:
    assert [policy.can(ANN, tool()), policy.can(ANN, tool(roles=[])), policy.can(ANN, tool(roles=["sales"]))] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "policy",
    [DefaultRolesPolicy(), DefaultRolesPolicy(["staff"]), ClosedRolesPolicy(["staff"])],
    ids=["open", "default", "closed"],
)
def test_an_ability_without_roles_is_refused(policy: Any) -> None:
    assert policy.can(ANN, tool(ability="refund")) is False
    assert policy.can(ANN, tool(ability="refund", roles=[])) is False
    assert policy.can(ANN, tool(ability="refund", roles=["staff"])) is True


def test_any_policy_can_be_closed_for_tools_without_roles() -> None:
    class Everybody:
        async def can(self, actor: Actor, tool: ToolSpec) -> bool:
            return True

    closed = close_empty_roles(Everybody())

    def can(**more: Any) -> bool:
        async def ask() -> bool:
            return bool(await closed.can(ANN, tool(**more)))  # type: ignore[misc]

        return asyncio.run(ask())

    assert [can(), can(roles=[]), can(roles=["finance"])] == [False, False, True]


def test_what_an_empty_list_means_has_to_be_a_known_word() -> None:
    with pytest.raises(DefinitionError, match="perhaps"):
        DefaultRolesPolicy(empty_roles="perhaps")  # type: ignore[arg-type]

    with pytest.raises(DefinitionError, match="admin"):
        DefaultRolesPolicy("admin")


def test_agents_are_known_by_name_in_their_order() -> None:
    agents = AgentRegistry()
    for name in ("b", "a"):
        agents.register(AgentDefinition(name=name))
    again = agents.register(AgentDefinition(name="b", description="New."))

    assert [one.name for one in agents.list()] == ["b", "a"]
    assert (agents.get("b"), agents.has("a"), agents.get("c"), agents.has("c")) == (again, True, None, False)


def test_a_handover_to_nobody_is_found_at_the_start() -> None:
    agents = AgentRegistry()
    agents.register(AgentDefinition(name="desk", delegates_to=["billing", "stock"]))
    agents.register(AgentDefinition(name="stock", delegates_to=["desk"]))

    with pytest.raises(DefinitionError, match="'desk' hands over to 'billing'"):
        agents.check()

    agents.register(AgentDefinition(name="billing"))
    agents.check()


@pytest.mark.parametrize(
    "definition",
    [
        AgentDefinition(name=" "),
        AgentDefinition(name="a", personas=[Persona(id="x"), Persona(id="x")]),
        AgentDefinition(name="a", default_persona="x"),
    ],
    ids=["name", "double", "default"],
)
def test_an_agent_that_cannot_work_is_refused(definition: AgentDefinition) -> None:
    agents = AgentRegistry()

    with pytest.raises(DefinitionError):
        agents.register(definition)

    assert agents.list() == []
