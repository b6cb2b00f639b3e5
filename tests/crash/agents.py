"""A kernel with a turn of an agent that is killed at a place: python -m tests.crash.agents STORE PLACE

It goes as far as the place, says "at PLACE" on its pipe, and stands still there until it is killed. What its model and its tools
do to the world outside is a line each in the file EFFECTS names.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import loomnb as loom
from loomnb.agents import agent_tool
from loomnb.runtime import TurnRequest
from loomnb.studio.agents import Agent
from loomnb.testing import Said, ScriptedModel, at_rest

__all__ = ["PLACES", "killed_agent"]

PLACES = ("model", "read", "waiting", "action", "last answer", "end")


class Held:
    """Where this process stands still; None in one that is not killed."""

    place: str | None = None


def stop(place: str) -> None:
    """Stand still here, if this is the place."""
    if Held.place == place:
        os.write(1, f"at {place}\n".encode())
        threading.Event().wait()


def effect(what: str) -> None:
    """Something in the world outside that no transaction takes back."""
    file = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what}\n".encode())
    os.close(file)


def killed_agent(session: loom.Loom) -> Agent:
    """It looks, mails with an approval, and says so."""

    def look(what: str) -> str:
        """Looks something up."""
        effect("look")
        stop("read")
        return f"{what} is there"

    @agent_tool(kind="action")
    def send_mail(to: str, ctx: Any) -> str:
        """Sends a mail."""
        effect(f"mail {ctx.idempotency_key.split(':', 1)[1]}")
        stop("action")
        return f"sent to {to}"

    turns = [Said(tools=[("look", {"what": "it"})]), Said(tools=[("send_mail", {"to": "bob"})]), Said(text="Done.")]

    def script(_: TurnRequest, turn: int) -> Said:
        effect(f"model {turn}")
        stop({0: "model", 2: "last answer"}.get(turn, ""))
        return turns[turn]

    return Agent(ScriptedModel(script), [look, send_mail], name="killed_agent", store=session)


def main() -> None:
    store, Held.place = sys.argv[1], sys.argv[2]
    session = loom.Loom(store, headless=True)
    run = killed_agent(session).run("Do it", key="k")
    if Held.place in ("model", "read"):
        threading.Event().wait()
    at_rest(run)
    stop("waiting")
    run.answer("send_mail", True)
    at_rest(run)
    stop("end")


if __name__ == "__main__":
    main()
