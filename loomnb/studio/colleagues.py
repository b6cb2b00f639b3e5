"""The agents that an agent may ask: given as objects, or by the names of such as are made later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loomnb.agents import AgentRunDefinition, ToolHandler, ToolSpec, delegation_tool
from loomnb.errors import DefinitionError, NotFound
from loomnb.runtime import REGISTRY

if TYPE_CHECKING:
    from loomnb.studio.agents import Agent
    from loomnb.studio.session import Loom

__all__ = ["Colleagues"]


class Colleagues:
    """Whom an agent may ask.

    Args:
        asking: its name.
        agents: those whose answers it waits for.
        detached: those whose answers come later.
        store: the store it was given.

    Raises:
        DefinitionError: one is no agent, is of another store, or shares its name with another.
    """

    def __init__(self, asking: str, agents: Sequence[Agent | str], detached: Sequence[Agent | str], store: Loom | None) -> None:
        self._asking = asking
        self._definitions: dict[str, AgentRunDefinition] = {}
        self._awaited = self._names(agents, "agents", store)
        self._detached = self._names(detached, "detached", store)

    def _names(self, agents: Sequence[Agent | str], where: str, store: Loom | None) -> list[str]:
        if isinstance(agents, str) or not isinstance(agents, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"{where}= is a list of agents.", advice=f"Write {where}=[writer].")
        names: list[str] = []
        for one in agents:
            name = one if isinstance(one, str) else self._known(one, where, store)
            if not name.strip() or name in names:
                raise DefinitionError(
                    f"The agent {self._asking!r} has two agents {name!r} in {where}=.", advice="Give each a name of its own."
                )
            names.append(name)
        return names

    def _known(self, agent: Agent, where: str, store: Loom | None) -> str:
        definition = getattr(agent, "definition", None)
        if not isinstance(definition, AgentRunDefinition):
            raise DefinitionError(f"{where}= of {self._asking!r}: a {type(agent).__name__} is no agent.")
        if agent.given_store is not store:
            raise DefinitionError(
                f"{self._asking!r} and {agent.name!r} are agents of different stores.",
                advice="Give both the same store=, or none.",
            )
        known = self._definitions.setdefault(definition.name, definition)
        if known is not definition:
            raise DefinitionError(
                f"The agent {self._asking!r} was given two agents called {definition.name!r}.", advice="Name one otherwise."
            )
        return definition.name

    def tools(self) -> list[tuple[ToolSpec, ToolHandler]]:
        """The tools by which they are asked."""
        awaited = [delegation_tool(name, self._about(name)) for name in self._awaited]
        return awaited + [delegation_tool(name, self._about(name), detached=True) for name in self._detached]

    def _about(self, name: str) -> Callable[[], str | None]:
        def about() -> str | None:
            found = self._found(name)
            return found.description if found is not None else None

        return about

    def _found(self, name: str) -> AgentRunDefinition | None:
        """The newest agent of a name: a cell that is run again makes it anew."""
        known = REGISTRY.get(name)
        return known if isinstance(known, AgentRunDefinition) else self._definitions.get(name)

    def definition(self, name: str) -> AgentRunDefinition:
        """What a run of an agent is made of.

        Raises:
            NotFound: there is no such agent here.
        """
        found = self._found(name)
        if found is None:
            raise NotFound(f"There is no agent {name!r} in this kernel.", advice="Run the cell that makes it.")
        return found
