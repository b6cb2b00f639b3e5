"""Workflows that the kernel tests run: each a cell's code that ends with `run` shown."""

from __future__ import annotations

OPEN = """
import loomnb as loom, os, time, asyncio
loom.open("store.duckdb")
"""

TWO_QUESTIONS = (
    OPEN
    + """
from pydantic import BaseModel

class Name(BaseModel):
    name: str

class Age(BaseModel):
    age: int

@loom.workflow
class GreetWorkflow(loom.BaseWorkflow):
    @loom.transition(to="asked")
    async def prepare(self, state, ctx):
        with open("made.txt", "a") as file:
            file.write("prepare\\n")

    @loom.transition(from_="asked", to="named", wait=True, schema=Name)
    async def name(self, state, input, ctx):
        '''Your name'''
        with open("made.txt", "a") as file:
            file.write("name\\n")
        self.assign_state(name=input.data.name)

    @loom.transition(from_="named", to="end", wait=True, schema=Age)
    def age(self, state, input, ctx):
        '''Your age'''
        self.set_result({"name": state["name"], "age": input.data.age})

run = loom.start(GreetWorkflow, key="greet")
run
"""
)

ONE_BUTTON = (
    OPEN
    + """
@loom.workflow
class GoWorkflow(loom.BaseWorkflow):
    @loom.transition(to="ready")
    async def prepare(self, state, ctx):
        pass

    @loom.transition(from_="ready", to="end", wait=True)
    async def go(self, state, input, ctx):
        '''Go on'''
        self.set_result("gone")

run = loom.start(GoWorkflow)
run
"""
)


def workflow(body: str, *, start: str = "loom.start(OneWorkflow)", sync: bool = False, head: str = "") -> str:
    """A cell with a workflow of one automatic move, `body`, started and shown."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    return f"""{OPEN}
{head}
@loom.workflow
class OneWorkflow(loom.BaseWorkflow):
    @loom.transition(to="end")
    {"def" if sync else "async def"} work(self, state, ctx):
{lines}

run = {start}
run
"""
