"""Whether a blueprint may start: what is checked before there is a run. Rules: contracts/blueprints.md §2.3, §2.9."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loomnb.blueprints.folder import load_folder
from loomnb.blueprints.model import Blueprint, WorkflowModule
from loomnb.blueprints.project import ProjectFiles
from loomnb.blueprints.shapes import is_blank
from loomnb.blueprints.storage_rules import check_name
from loomnb.blueprints.table import BlueprintDefinition, compile_blueprint, know_blueprint
from loomnb.errors import InvalidRequest, NotFound, StoreBusy
from loomnb.ids import Source
from loomnb.runtime import FINISHED, MODELS, REGISTRY, ModelProvider, RunRecord, Status, model_of

__all__ = [
    "admit",
    "blueprint_of",
    "check_intent",
    "check_models",
    "check_project",
    "check_source",
    "known_blueprint",
    "models_of",
    "new_run_id",
    "titled",
]

_ROLES = ("default", "reasoning", "coding", "review")


def known_blueprint(given: Blueprint | WorkflowModule | str | os.PathLike[str]) -> BlueprintDefinition:
    """The definition of what `loom.flow` was given, known from now on.

    Raises:
        BlueprintInvalid: it cannot work.
        NotFound: no flow has this name, and no folder.
        InvalidRequest: the name is blank.
    """
    definition = blueprint_of(given)
    return definition if REGISTRY.get(definition.name) is definition else know_blueprint(definition)


def blueprint_of(given: Blueprint | WorkflowModule | str | os.PathLike[str]) -> BlueprintDefinition:
    """The same, without making it known.

    Raises:
        BlueprintInvalid: it cannot work.
        NotFound: no flow has this name, and no folder.
        InvalidRequest: the name is blank.
    """
    if isinstance(given, str):
        known = REGISTRY.get(given)
        if isinstance(known, BlueprintDefinition):
            return known
        if not (_is_there(given) or os.sep in given or given.endswith((".yaml", ".yml"))):
            check_name(given, "the name of the flow")
            return _need(given)
    if isinstance(given, (str, os.PathLike)):
        given = load_folder(given)
    return compile_blueprint(given)


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, a NUL in it, half a surrogate pair: no path
        return False


def _need(name: str) -> BlueprintDefinition:
    try:
        known = REGISTRY.need(name)
    except NotFound as exc:
        raise NotFound(f"No blueprint is called {name!r}, and there is no folder {name!r} here.", advice=exc.advice) from None
    if not isinstance(known, BlueprintDefinition):
        raise InvalidRequest(f"{name!r} is no blueprint but a workflow.", advice=f"Start it with loom.start({name!r}, …).")
    return known


def check_intent(intent: object) -> None:
    """Refuse an intent that is no text, or blank.

    Raises:
        InvalidRequest: it is.
    """
    if not isinstance(intent, str) or is_blank(intent):
        raise InvalidRequest("The intent is a text that is not blank.", advice='Write intent="what is to be done".')
    try:
        intent.encode()
    except UnicodeEncodeError as exc:
        raise InvalidRequest("The intent holds half of a surrogate pair: it is no valid text.", cause=exc) from exc


def check_source(source: object) -> str:
    """Who starts a run.

    Raises:
        InvalidRequest: it is none of the three.
    """
    if source not in ("cli", "studio", "agent_ide"):
        raise InvalidRequest(f"source={source!r:.60} is not known.", advice="Use 'cli', 'studio' or 'agent_ide'.")
    return str(source)


def check_project(project: str | os.PathLike[str], store: str) -> str:
    """The resolved root of a project.

    Raises:
        InvalidRequest: it is no folder.
    """
    return str(ProjectFiles(project, private=[store]).root)


def check_models(
    definition: BlueprintDefinition, models: Mapping[str, ModelProvider] | ModelProvider | None
) -> Mapping[str, ModelProvider] | None:
    """The models of a run by role.

    Raises:
        InvalidRequest: a role is not known, or an agent's has no model.
    """
    given: dict[str, Any] | None = None
    if models is not None:
        given = dict(models) if isinstance(models, Mapping) else {"default": models}
        for role, model in given.items():
            if not callable(getattr(model, "run_turn", None)):
                raise InvalidRequest(f"The model of {role!r:.40} has no run_turn.", advice="Give a loom.ModelProvider.")
        unknown = [role for role in given if role not in _ROLES]
        if unknown:
            raise InvalidRequest(f"{unknown[0]!r} is no role of a model.", advice=f"Use one of: {', '.join(_ROLES)}.")
    with models_of(given):
        for agent in definition.agents:
            if model_of(agent.llm) is None:
                raise InvalidRequest(
                    f"The agent {agent.name!r} of {definition.name!r} needs a model for the role {agent.llm!r}.",
                    advice="Give one: loom.flow(…, models=model), or for the whole notebook: loom.use_models(model).",
                )
    return given


@contextlib.contextmanager
def models_of(given: Mapping[str, ModelProvider] | None) -> Generator[None]:
    """Let these models play in the runs that are started meanwhile."""
    token = MODELS.set(given) if given is not None else None
    try:
        yield
    finally:
        if token is not None:
            MODELS.reset(token)


def admit(definition: BlueprintDefinition, live: Sequence[RunRecord]) -> None:
    """Judge whether a run may start beside those that are active.

    Raises:
        StoreBusy: one of them, or this one, is exclusive.
    """
    for record in live:
        # One that goes on by itself as soon as its definition is known is active; one that waits for a person's decision is not.
        stands = record.changed or (record.call is not None and record.call.is_lost)
        is_active = record.stamped and record.status not in FINISHED and not (record.status is Status.INTERRUPTED and stands)
        if is_active and (definition.exclusive or (record.config or {}).get("exclusive", False)):
            what = f"{definition.name!r} runs alone" if definition.exclusive else f"{record.workflow!r} runs alone"
            raise StoreBusy(
                f"{what}, and the run {record.id} of {record.workflow!r} is {record.status}.",
                advice=f"Let it end, or stop it: loom.run({record.id!r}).cancel().",
            )


_INTENT_SHOWN = 60


def titled(title: str, intent: str) -> str:
    """What people read above a run: what it is, and what for."""
    told = " ".join(intent.split())
    if not told:
        return title
    return f"{title}: {told if len(told) <= _INTENT_SHOWN else told[: _INTENT_SHOWN - 1] + '…'}"


def new_run_id(source: Source) -> str:
    """`RUN-<time>-<21 characters>`."""
    now = source.now()
    return source.new_id(f"RUN-{now.strftime('%Y%m%dT%H%M%S')}{now.microsecond // 1000:03d}Z")
