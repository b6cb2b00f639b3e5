"""A panel's view without a page: what panel.js says and hears, spoken by hand (so messages can be timed and misplaced)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kernel.client import Cell, Kernel

WITHIN = 10.0  # seconds a kernel has to say anything at all; a failing test waits this long, a passing one does not


class View:
    """One view of one panel."""

    bases = itertools.count(1000, 1000)

    def __init__(self, kernel: Kernel, model_id: str, *, subshell: str | None = None) -> None:
        self.kernel, self.model_id, self.subshell = kernel, model_id, subshell
        self.numbers = itertools.count(next(self.bases))  # each view counts in a thousand of its own, as panel.js does
        self.head_rev = 0

    @classmethod
    def of(cls, cell: Cell, kernel: Kernel, *, subshell: str | None = None, silent: bool = False) -> View:
        """The view of the panel a cell shows; like the real one it says hello, unless it is to be silent."""
        kernel.until(lambda: cell.model_ids, WITHIN, what=lambda: f"a panel; {cell}")
        view = cls(kernel, cell.model_ids[-1], subshell=subshell)
        if not silent:
            view.hello()
        return view

    # -- saying ------------------------------------------------------------------------------------

    def say(self, **message: Any) -> int:
        """Send a message with a number of its own."""
        number = next(self.numbers)
        self.kernel.comm_msg(self.model_id, {**message, "n": number}, subshell=self.subshell)
        return number

    def hello(self) -> None:
        """Say hello and wait for the acknowledgement."""
        number = self.say(type="hello", have={"stamp": 0, "log": 0, "head": self.head_rev})
        self.until(lambda: any(m.get("ack") == number for m in self.heard), "the acknowledgement of a hello")
        self.head_rev = self.heard[-1].get("head_rev", self.head_rev)

    def answer(self, values: Any = None, *, ask: str = "") -> Any:
        """Submit the form of an open ask (the only one, or the one of this name) and wait for the kernel's verdict."""
        self.until(lambda: self.head["asks"], "an open ask")
        number = self.say(type="answer", ask=ask or self.head["asks"][0]["id"], values=values or {})
        self.until(lambda: self._reply(number), "the verdict on an answer")
        return self._reply(number)

    # -- hearing -----------------------------------------------------------------------------------

    @property
    def heard(self) -> list[Any]:
        """Everything this model sent."""
        return self.kernel.custom.get(self.model_id, [])

    @property
    def head(self) -> dict[str, Any]:
        """The panel's head as last sent."""
        heads = [m["head"] for m in self.heard if m.get("head")]
        found: dict[str, Any] = heads[-1] if heads else self.kernel.states[self.model_id]["head"]
        return found

    @property
    def log(self) -> str:
        """The run's log as a view would show it."""
        text = ""
        for m in self.heard:
            if "log" in m:
                text = text[: m["log_from"]] + m["log"]
        return text

    def _reply(self, number: int) -> Any:
        return next((m for m in self.heard if m.get("n") == number and m["type"] in {"accepted", "refused"}), None)

    def until(self, holds: Any, what: str, timeout: float = WITHIN) -> None:
        """Take messages until it holds."""
        self.kernel.until(holds, timeout, what=lambda: f"{what}; the panel last said {self.heard[-1:]}")

    def until_asked(self, label: str) -> None:
        """Wait until an ask of this label is open."""
        self.until(lambda: label in [a["label"] for a in self.head["asks"]], f"the ask {label!r}")

    def until_status(self, status: str) -> None:
        """Wait for a status."""
        self.until(lambda: self.head["status"] == status, f"the status {status!r}")
