"""The agents of a process by name, and whether what they hand over to is there."""

from __future__ import annotations

from loomnb.agents.spi import AgentDefinition
from loomnb.errors import DefinitionError

__all__ = ["AgentRegistry"]


class AgentRegistry:
    """Agents by name. What is registered again replaces the former one of its name and keeps its place."""

    def __init__(self) -> None:
        self._agents: dict[str, AgentDefinition] = {}

    def register(self, definition: AgentDefinition) -> AgentDefinition:
        """Make an agent known; it is given back.

        Raises:
            DefinitionError: it has no name, two of its personas share one, or its default persona is none of them.
        """
        name = definition.name
        if not name.strip():
            raise DefinitionError("An agent needs a name.", advice="Give it one that says what it does: name='billing'.")
        personas = [persona.id for persona in definition.personas]
        double = next((one for one in personas if personas.count(one) > 1), None)
        if double is not None:
            raise DefinitionError(f"The agent {name!r} has two personas {double!r}.", advice="Give each an id of its own.")
        if definition.default_persona is not None and definition.default_persona not in personas:
            raise DefinitionError(
                f"The agent {name!r} begins as {definition.default_persona!r}, which is none of its personas.",
                advice=f"One of: {', '.join(personas) or 'it has none'}.",
            )
        self._agents[name] = definition
        return definition

    def get(self, name: str) -> AgentDefinition | None:
        """The agent of a name; None if there is none."""
        return self._agents.get(name)

    def has(self, name: str) -> bool:
        """Whether there is one."""
        return name in self._agents

    def list(self) -> list[AgentDefinition]:
        """All of them, in the order in which they were registered."""
        return [*self._agents.values()]

    def check(self) -> None:
        """Whether everybody that work is handed over to is there. For the start, once all are registered.

        Raises:
            DefinitionError: somebody is missing; all that are missing are named, and who names them.
        """
        missing = [
            f"{agent.name!r} hands over to {target!r}"
            for agent in self._agents.values()
            for target in agent.delegates_to
            if target not in self._agents
        ]
        if missing:
            raise DefinitionError(
                f"Some agents are not there: {'; '.join(missing)}.",
                advice=f"Register them, or correct the name. Known: {', '.join(self._agents)}.",
            )
