"""The State of a stage: its schema, and the access a step has to it. Rules: contracts/blueprints.md §1.5."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any, Literal

from pydantic import ValidationError

from loomnb.asks import Schema
from loomnb.blueprints.access import ABSENT
from loomnb.errors import DefinitionError, LoomError, NotJson, StepError, fields_from_pydantic
from loomnb.jsonvalue import FrozenDict, freeze, thaw
from loomnb.runtime import LiveCall, is_stopping

__all__ = ["State", "StateSchema"]

What = Literal["create", "update", "clear"]


class StateSchema:
    """Judges a State. What pydantic's TypeAdapter takes, or an object with `parse(value)`, sync or async.

    Raises:
        DefinitionError: pydantic cannot build it.
    """

    def __init__(self, source: Any, owner: str) -> None:
        own = None if isinstance(source, type) else getattr(source, "parse", None)
        self._parse = own if callable(own) else None
        self._schema = Schema(source, owner) if self._parse is None else None
        if self._parse is not None and isinstance(source, str):
            raise DefinitionError(f"{owner}: a text is no schema.", advice="Use a pydantic model or a plain type such as str.")

    @property
    def parser(self) -> Any:
        """Its own `parse`; None for what pydantic takes."""
        return self._parse

    async def parse(self, value: Any) -> Any:
        """What the schema makes of an input, as frozen JSON.

        Raises:
            StepError: it does not fit, or what it gives is no JSON (STAGE_STATE_INVALID).
        """
        try:
            if self._schema is not None:
                return freeze(self._schema.dump(self._schema.parse(thaw(value))), None, "State")
            assert self._parse is not None
            parsed = self._parse(thaw(value))
            return freeze(await parsed if inspect.isawaitable(parsed) else parsed, None, "State")
        except ValidationError as exc:
            fields = "; ".join(f"{name or 'the whole'}: {text}" for name, text in fields_from_pydantic(exc).items())
            raise _invalid(f"The State does not fit its schema: {fields}.", exc) from exc
        except NotJson as exc:
            raise _invalid(f"The State is no JSON: {exc.message}", exc) from exc
        except BaseException as exc:  # whatever it is: a SystemExit would end the loop of every run
            if is_stopping(exc):
                raise
            raise _invalid(f"The schema of the State raised {type(exc).__name__}.", exc) from exc

    def json_schema(self) -> Any:
        """Its JSON Schema, where it has one: what tells one version of it from another."""
        try:
            return self._schema.json_schema() if self._schema is not None else None
        except Exception:  # noqa: BLE001  # a schema JSON Schema cannot say: nothing to compare then
            return None


def _invalid(message: str, cause: BaseException) -> StepError:
    return StepError(message, code="STAGE_STATE_INVALID", advice="The State is as it was.", cause=cause)


class State:
    """The State a step has access to. Writes are judged in the order of their calls, and durable when awaited."""

    __slots__ = ("_live", "_order", "_schema", "_value")

    def __init__(self, live: LiveCall, schema: StateSchema, at_start: FrozenDict) -> None:
        self._live = live
        self._schema = schema
        self._order = asyncio.Lock()  # grants in the order it was asked, and each write asks when it begins: see LiveCall.perform
        self._value: Any = at_start.get("value", ABSENT)
        live.on_passed.append(self._passed)

    @property
    def value(self) -> Any:
        """A copy; `ABSENT` when there is none."""
        self._live.check()
        return thaw(self._value) if self._value is not ABSENT else ABSENT

    def create(self, value: Any) -> Awaitable[None]:
        """Make it."""
        return self._write("create", value)

    def update(self, value: Any) -> Awaitable[None]:
        """Replace it, whole."""
        return self._write("update", value)

    def clear(self) -> Awaitable[None]:
        """Remove it."""
        return self._write("clear", None)

    def _write(self, what: What, value: Any) -> Awaitable[None]:
        try:
            self._check()
            self._live.needs_loop(f"access.state.{what}(…)")
            copied = freeze(value, None, "State")
        except NotJson as exc:
            return self._live.refuse(_invalid(f"The State is no JSON: {exc.message}", exc))
        except LoomError as exc:
            return self._live.refuse(exc)
        return self._live.perform(f"state.{what}", copied, lambda n: self._really(n, what, copied), self._again)

    def _check(self) -> None:
        self._live.check()
        if self._live.waiting:
            raise StepError(
                "The State cannot be written while a question of this step is open.",
                code="STAGE_STATE_INACTIVE",
                advice="Await the answer first.",
            )

    async def _really(self, number: int, what: What, value: Any) -> None:
        async with self._order:
            self._check()
            if what == "create" and self._value is not ABSENT:
                raise StepError("There is a State already.", code="STAGE_STATE_EXISTS", advice="Use access.state.update(…).")
            if what == "update" and self._value is ABSENT:
                raise StepError(
                    "There is no State to update.", code="STAGE_STATE_NOT_FOUND", advice="Use access.state.create(…)."
                )
            parsed: Any = ABSENT
            if what != "clear":
                parsed = await self._schema.parse(value)
                self._check()
            self._value = parsed
            after = FrozenDict() if parsed is ABSENT else freeze({"value": parsed})
            await self._live.store(number, f"state.{what}", value, after, after)

    def _passed(self, name: str, recorded: Any) -> None:
        if name.startswith("state."):
            self._again(recorded)

    def _again(self, recorded: Any) -> None:
        self._value = freeze(recorded["value"]) if "value" in recorded else ABSENT
