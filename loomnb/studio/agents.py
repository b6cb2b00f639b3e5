"""`Agent`: a model with tools and instructions, as a notebook types it. Its turns are runs of the store that is the default."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from loomnb.agents import (
    AGENT_CONFIG,
    Actor,
    AgentRunDefinition,
    ApprovalRequirement,
    ApprovalRules,
    Budget,
    DefaultRolesPolicy,
    HistoryPolicy,
    InMemoryAgentStore,
    InputProcessor,
    JournalAgentStore,
    JournalMemories,
    JournalPricing,
    LoopDeps,
    Memories,
    Memory,
    MemoryProvider,
    OutputProcessor,
    Persona,
    QuotaProvider,
    QuotaStore,
    QuotaWindow,
    Retriever,
    RolesPolicy,
    Skill,
    SkillProvider,
    Skills,
    StoreQuotaProvider,
    ToolRegistry,
    ToolSpec,
    VendorModel,
    check_intake,
    check_text,
    fingerprint_of,
    know_agent,
    memories_of,
    model_of_name,
    origin_of,
    output_json_schema,
    skills_of,
    tool_of,
)
from loomnb.errors import DefinitionError, Refused
from loomnb.runtime import REGISTRY, ModelProvider, RunRecord
from loomnb.studio.agent_options import check_options
from loomnb.studio.chats import AgentRun, Chat
from loomnb.studio.colleagues import Colleagues
from loomnb.studio.process import default
from loomnb.studio.session import Loom
from loomnb.studio.threads import Threads
from loomnb.studio.turns import TurnRequested, run_tool, start_turn, store_of

__all__ = ["Agent"]

Model = str | ModelProvider


class Agent:
    """A model with tools and instructions.

    `await agent.run("…")` gives an `AgentResult`; `agent.chat()` as a cell's last line is a conversation. Every turn is a run: it
    is on the journal of the store, may be stopped and answered like any other, and goes on in the next kernel once the cell that
    makes the agent was run there.

    Args:
        model: `"anthropic:…"`, `"openai:…"`, `"google:…"`, …; the address of an endpoint that speaks OpenAI's protocol; or an
            object with `run_turn`, such as `loom.testing.ScriptedModel`. Nothing of a vendor is imported, and no key is looked
            for, before the first turn.
        tools: functions with annotations and a docstring (`read` tools), what `@loom.agent_tool` made, tools and workflows of
            `@loom.tool` and `@loom.workflow`, those of an MCP server.
        instructions: the system prompt, or a function that gives it.
        name: what its runs are found by.
        title: for people.
        description: what it is for: what other agents are told that may ask it.
        approvals: which actions are asked about: tool → `"ask"` or `"auto"`. Actions that are not named are asked about.
        approval_ttl: seconds an approval waits before it expires; None: for ever.
        output: what every turn must end with beside its text: what pydantic takes. The result has it as `object`.
        output_repairs: how often the model may correct that.
        max_steps: calls of the model in one turn.
        budget: what one run may use.
        models: others to pick from: label → model.
        history: what of the thread the model is told; None: all of it.
        follow_ups: suggestions of what to ask next.
        ask: whether the model may ask the person questions.
        intake: questions it begins with.
        personas: named variants of it.
        default_persona: the one that answers where none is named, for a turn or for its thread.
        agents: others that it may ask, and whose answers it waits for: agents, or the names of some that are made later. Each is
            a tool `ask_<name>`.
        detached: others that it may start, and whose answers come later, as messages of their own: tools `start_<name>`.
        max_delegation_depth: how deep agents may ask agents that ask agents.
        max_agent_appearances: how often one agent may take part in such a chain.
        skills: instructions that it reads when it needs them: a folder of Markdown files, several `Skill`, a provider, `Skills`.
        memory: what it remembers from one conversation to the next; True: in the store, for each person.
        retriever: finds passages for what was asked.
        input_processors: look at, and may change, what the model is told.
        output_processors: judge what it said before anybody reads it.
        quota: what a person may use: `[loom.QuotaWindow(period="month", limit_usd=5)]`, counted by what this store has on record;
            or tokens a day (`loom.InMemoryQuotaStore`), or a QuotaProvider of your own.
        roles_policy: who may use which tool; None: a tool without roles is for everybody.
        actor: on whose behalf it works.
        repeat_guard: from how many identical calls in a run on a person is asked whether that is meant; None: never.
        tool_timeout: seconds a tool may take.
        tool_timeouts: the same for single tools, by name.
        settings: what the provider takes beside: `{"temperature": 0}`.
        store: the store of its runs; None: the default one.

    Raises:
        DefinitionError: something of it cannot work; nothing is left behind.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[Any] = (),
        instructions: str | Callable[..., Any] = "",
        *,
        name: str = "assistant",
        title: str = "",
        description: str = "",
        approvals: Mapping[str, Literal["ask", "auto"] | ApprovalRequirement] | None = None,
        approval_ttl: float | timedelta | None = None,
        output: Any = None,
        output_repairs: int = 1,
        max_steps: int = 8,
        budget: Budget | None = None,
        models: Mapping[str, Model] | None = None,
        history: HistoryPolicy | None = None,
        follow_ups: int = 0,
        ask: bool = False,
        intake: Any = None,
        personas: Sequence[Persona] = (),
        default_persona: str | None = None,
        agents: Sequence[Agent | str] = (),
        detached: Sequence[Agent | str] = (),
        max_delegation_depth: int = 5,
        max_agent_appearances: int = 1,
        skills: str | os.PathLike[str] | Sequence[Skill] | SkillProvider | Skills | None = None,
        memory: bool | MemoryProvider | Memories = False,
        retriever: Retriever | None = None,
        input_processors: Sequence[InputProcessor] = (),
        output_processors: Sequence[OutputProcessor] = (),
        quota: QuotaStore | QuotaProvider | Sequence[QuotaWindow] | None = None,
        roles_policy: RolesPolicy | None = None,
        actor: Actor | str = "local",
        repeat_guard: int | None = 3,
        tool_timeout: float | None = None,
        tool_timeouts: Mapping[str, float] | None = None,
        settings: Mapping[str, Any] | None = None,
        store: Loom | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise DefinitionError(f"An agent's name is a text, not {name!r:.60}.", advice='Write name="assistant".')
        check_text("The name of an agent", name)
        ttl = approval_ttl.total_seconds() if isinstance(approval_ttl, timedelta) else approval_ttl
        options = {
            "title": title, "description": description, "instructions": instructions, "actor": actor, "tools": tools, "ask": ask,
            "approvals": approvals, "approval_ttl": ttl, "max_steps": max_steps, "budget": budget, "models": models,
            "history": history, "personas": personas, "default_persona": default_persona, "quota": quota, "settings": settings,
            "retriever": retriever, "input_processors": input_processors, "output_processors": output_processors,
            "roles_policy": roles_policy, "repeat_guard": repeat_guard, "tool_timeout": tool_timeout,
            "tool_timeouts": tool_timeouts,
        }  # fmt: skip
        check_options(name, options)
        if store is not None and not isinstance(store, Loom):
            raise DefinitionError(
                f"store= of the agent {name!r} is no store: {store!r:.60}.", advice="Give what loom.Loom(…) made, or nothing."
            )
        self.name, self.title, self.description = name, title or name.replace("_", " ").capitalize(), description
        self.instructions = inspect.cleandoc(instructions) if isinstance(instructions, str) else instructions
        self.actor = Actor(id=actor) if isinstance(actor, str) else actor
        self.model = model_of_name(model)
        self.models = {label: model_of_name(one) for label, one in (models or {}).items()}
        self.registry = ToolRegistry()
        frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # names that annotations use
        for thing in tools:
            spec, handler = self._tool(thing, {**frame.f_globals, **frame.f_locals})
            if self.registry.has(spec.name):
                raise DefinitionError(
                    f"The agent {name!r} has two tools called {spec.name!r}.", advice="Name one of them otherwise."
                )
            self.registry.register(spec, handler)
        self.colleagues = Colleagues(name, agents, detached, store)
        for spec, handler in self.colleagues.tools():
            if self.registry.has(spec.name):
                raise DefinitionError(
                    f"The agent {name!r} has two tools called {spec.name!r}.", advice="Name a tool, or an agent, otherwise."
                )
            self.registry.register(spec, handler)
        if default_persona is not None and all(default_persona != one.id for one in personas):
            raise DefinitionError(
                f"The agent {name!r} begins as {default_persona!r}, which is none of its personas.",
                advice=f"One of: {', '.join(one.id for one in personas) or 'it has none'}.",
            )
        self.default_persona = default_persona
        self._memory = memory if isinstance(memory, bool) else memories_of(memory)
        if output is not None:
            output_json_schema(output)
        self._store = store
        self._windows = tuple(quota) if isinstance(quota, (list, tuple)) else ()
        self._options: dict[str, Any] = {
            "roles_policy": roles_policy or DefaultRolesPolicy(),
            "approval_policy": ApprovalRules(approvals, ttl_ms=ttl * 1000 if ttl is not None else None),
            "output_schema": output,
            "output_repair_attempts": output_repairs,
            "max_steps": max_steps,
            "budget": budget,
            "history_policy": history,
            "follow_ups_count": follow_ups,
            "ask": ask,
            "intake": check_intake(intake),
            "personas": tuple(personas),
            "max_delegation_depth": max_delegation_depth,
            "max_agent_appearances": max_agent_appearances,
            "skills": skills_of(skills),
            "retriever": retriever,
            "input_processors": tuple(input_processors),
            "output_processors": tuple(output_processors),
            "quota": StoreQuotaProvider(InMemoryAgentStore(), *quota) if isinstance(quota, (list, tuple)) else quota,
            "repeat_guard": repeat_guard,
            "tool_timeout_ms": tool_timeout * 1000 if tool_timeout is not None else None,
            "tool_timeouts": {tool: seconds * 1000 for tool, seconds in (tool_timeouts or {}).items()},
            "model_settings": dict(settings or {}),
        }
        LoopDeps(  # every turn makes its own; this one only tells now what would be refused then
            model=self.model,
            store=InMemoryAgentStore(),
            registry=self.registry,
            system_prompt=self.instructions,
            day="2000-01-01",
            **self._options,
        )
        for named in approvals or {}:
            if not self.registry.has(named):
                raise DefinitionError(
                    f"approvals= names {named!r}, and the agent {name!r} has no such tool.",
                    advice=f"It has: {', '.join(s.name for s in self.registry.all_specs()) or 'none'}.",
                )
        module = str(frame.f_globals.get("__name__", "__main__"))
        self.definition = know_agent(
            AgentRunDefinition(
                name=name,
                title=self.title,
                origin=origin_of(module),
                fingerprint=self._fingerprint(),
                make=self._deps,
                start_agent=self._start_agent,
                nobody=self._nobody,
                description=description,
                agent=self,
            )
        )

    def _nobody(self, record: RunRecord) -> str:
        session = self.session
        return session.face().nobody_can_answer(AgentRun(record, session.runtime, session.face))

    @staticmethod
    def _tool(thing: Any, names: Mapping[str, Any]) -> tuple[ToolSpec, Any]:
        return run_tool(thing) or tool_of(thing, names)

    def _fingerprint(self) -> str:
        tools = [[s.name, s.kind, s.description] for s in self.registry.all_specs()]
        told = self.instructions if isinstance(self.instructions, str) else getattr(self.instructions, "__qualname__", "")
        return fingerprint_of([self.name, told, tools])

    def _deps(self, record: RunRecord, args: Mapping[str, Any], store: JournalAgentStore) -> LoopDeps:
        picked = args.get("model")
        model = self.model if picked is None else self._picked(picked)
        # Of the run and not of the agent: after its store was closed and opened again, a turn may begin before the agent is made
        # anew.
        pricing = JournalPricing(store.database, _names_of(model))
        own: dict[str, Any] = {}
        if self._windows:
            own["quota"] = StoreQuotaProvider(store, *self._windows, pricing=pricing, source=record.source)
        return LoopDeps(
            model=model,
            store=store,
            registry=self.registry,
            system_prompt=self.instructions,
            day=args.get("day") or record.source.now().date().isoformat(),
            model_id=picked or getattr(model, "model_id", None) or getattr(model, "name", None),
            pricing_store=pricing,
            source=record.source,
            host=self.session,
            memory=self._remembered(store),
            **{**self._options, **own},
        )

    def _remembered(self, store: JournalAgentStore) -> Memories | None:
        if isinstance(self._memory, bool):
            return Memories(provider=JournalMemories(store.database)) if self._memory else None
        return self._memory

    def _start_agent(
        self, name: str, args: Mapping[str, Any], *, key: str, run_id: str, fresh: bool, parent: RunRecord
    ) -> AgentRun:
        record = self.session.runtime.start(
            self.colleagues.definition(name),
            args,
            key=key,
            fresh=fresh,
            pipelined=parent.pipelined,
            config={AGENT_CONFIG: name},
            run_id=run_id,
            parent=parent,
        )
        return AgentRun(record, self.session.runtime, self.session.face)

    def _picked(self, label: str) -> ModelProvider:
        return self.models[label] if label in self.models else model_of_name(label)

    @property
    def given_store(self) -> Loom | None:
        """The store it was given; None: it takes the default one."""
        return self._store

    @property
    def session(self) -> Loom:
        """The store of its runs."""
        return self._store if self._store is not None else default()

    def check_current(self) -> None:
        """Refuse when another agent has this name by now: what is stored is taken up by name, and would be by the other one.

        Raises:
            DefinitionError: it has.
        """
        known = REGISTRY.get(self.name)
        if known is not self.definition:
            raise DefinitionError(
                f"Another agent called {self.name!r} was made after this one, and a stored turn is taken up again by its name.",
                advice='Give one of them a name of its own: loom.Agent(…, name="…"). To go on with this one, make it again.',
            )

    @property
    def tools(self) -> list[ToolSpec]:
        """What it can use."""
        return self.registry.all_specs()

    def has_persona(self, name: str) -> bool:
        """Whether there is a persona of this name."""
        return any(name == one.id or name in one.aliases for one in self._options["personas"])

    async def memories(self) -> list[Memory]:
        """What it remembers for its actor, in the scopes that count for them, the most specific first.

        Raises:
            Refused: it has no memory.
        """
        return await self._memories().of(self.actor)

    async def forget(self, memory: str) -> None:
        """Let it forget something.

        Args:
            memory: the key of a memory of its actor's own, or its id.

        Raises:
            Refused: it has no memory.
            NotFound: nothing is remembered so.
            MemoryForbidden: it is remembered for others too.
        """
        await self._memories().forget(self.actor, memory)

    def _memories(self) -> Memories:
        found = self._remembered(store_of(self.session))
        if found is None:
            raise Refused(f"The agent {self.name!r} remembers nothing.", advice="Make it with memory=True.")
        return found

    # -- turns --------------------------------------------------------------------------------------

    def run(
        self,
        text: str,
        *,
        thread: str | Chat | None = None,
        attachments: Sequence[Any] | None = None,
        model: str | None = None,
        persona: str | None = None,
        key: str | None = None,
        fresh: bool = False,
        labels: Sequence[str] = (),
        title: str | None = None,
        durability: Literal["sync", "pipelined"] | None = None,
        loop: Literal["thread", "kernel"] = "thread",
    ) -> AgentRun:
        """Say something, and return at once. As a cell's last line it is the live panel; awaiting it gives an `AgentResult`.

        In a transition or a step of a run it belongs to that: made again after a crash, it is found and not repeated.

        Args:
            text: what is said.
            thread: where: the id of a thread or a chat; None: a new one.
            attachments: files: paths, `(name, bytes)` pairs, or `{"name", "mediaType", "data" | "url"}`.
            model: another model for this turn: a label of `models`, or what names one.
            persona: a variant of the agent.
            key: find the stored turn of this key instead of a second one.
            fresh: with a key: a new one all the same.
            labels: free words to find it by.
            title: what people read above it; default: the agent's.
            durability: `pipelined` goes on while commits are in flight; default: the store's.
            loop: `kernel` makes the turn on the notebook's own loop, for async clients that its tools have from a cell.

        Raises:
            Refused: the text is none, or blank with nothing attached.
            NotFound: there is no such thread, or no such model or persona.
            Conflict: another turn is under way in the thread; or the key's turn was about something else.
        """
        asked = TurnRequested(
            text=text, thread=_thread_id(thread), may_begin=isinstance(thread, Chat), attachments=attachments, model=model,
            persona=persona, key=key, fresh=fresh, labels=labels, title=title, durability=durability, loop=loop,
        )  # fmt: skip
        return start_turn(self.session, self, asked)

    def regenerate(self, thread: str | Chat, *, model: str | None = None) -> AgentRun:
        """Answer the last thing that was said in a thread once more; what stood after it is taken away.

        Raises:
            NotFound: there is no such thread.
            Conflict: a turn is under way in it.
        """
        there = _thread_id(thread)
        if there is None:
            raise Refused("Which thread is to be answered?", advice="agent.threads() lists them.")
        return start_turn(self.session, self, TurnRequested(text="", thread=there, model=model, regenerate=True))

    def chat(self, thread: str | None = None) -> Chat:
        """A conversation with it. As a cell's last line it is the chat panel.

        Args:
            thread: the id of an earlier one; None: a new one, which is stored when something is said in it.

        Raises:
            NotFound: there is no such thread.
            Refused: the id is none.
        """
        return Chat(self, self.session, thread)

    def threads(self, search: str | None = None, limit: int = 50) -> Threads:
        """The conversations with it, the one that changed last first.

        Args:
            search: only those in whose title or messages this text stands, whatever its case.
            limit: how many at most.

        Raises:
            Refused: the text is none, or the limit is no whole number from 0 on.
        """
        check_text("search=", search, error=Refused)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit < 2**63:
            raise Refused(f"limit={limit!r:.60} is no whole number from 0 on.", advice="Write limit=50.")
        return Threads.of(self.session, self, search, limit)

    def __repr__(self) -> str:
        tools = ", ".join(spec.name for spec in self.tools) or "no tools"
        return f"<Agent {self.name}: {self.model!r}, {tools}>"


def _thread_id(thread: str | Chat | None) -> str | None:
    return thread.thread_id if isinstance(thread, Chat) else thread


def _names_of(model: ModelProvider) -> tuple[str, ...]:
    """What a vendor's model is called in price lists; nothing for a model that is none."""
    return (model.model_id, model.model) if isinstance(model, VendorModel) else ()
