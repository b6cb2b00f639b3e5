"""The notebooks that the browser tests open."""

from __future__ import annotations

NOTES = '''
import loomnb as loom, asyncio
from typing import Literal
from pydantic import BaseModel, Field
loom.open("store.duckdb")

class Verdict(BaseModel):
    verdict: Literal["ship", "hold"]
    stars: int = Field(ge=1, le=5, description="One is *poor*, five is **great**.")
    note: str | None = None

@loom.workflow
class ReleaseNotesWorkflow(loom.BaseWorkflow):
    @loom.transition(to="drafted")
    async def draft(self, state, ctx):
        print("drafting the notes")
        self.document_store.save(
            loom.MarkdownDocument,
            {"markdown": "## Release **1.2**\\n\\n- faster `store`\\n- new panel\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |"},
        )
        self.document_store.save(loom.MessageDocument, {"role": "assistant", "text": "Here is my *draft*."})

    @loom.transition(from_="drafted", to="approved", wait=True, schema=Verdict)
    async def approve(self, state, input, ctx):
        """Is this draft good to go?"""
        print("approved as", input.data.verdict)
        self.assign_state(verdict=input.data.verdict, stars=input.data.stars, note=input.data.note)

    @loom.transition(from_="approved", to="end", wait=True)
    def publish(self, state, input, ctx):
        """Publish now"""
        self.set_result(dict(state))

run = loom.start(ReleaseNotesWorkflow, key="notes")
run
'''

QUESTIONS = """
import loomnb as loom
loom.open("store.duckdb")
env = loom.ask_questions([
    {"id": "env", "question": "Where to?", "isSkippable": False,
     "options": [{"id": "s", "label": "staging", "description": "safe"}, {"id": "p", "label": "production"}]},
    {"id": "why", "question": "Why?", "isSkippable": True},
], key="env")
ship = loom.confirm("Ship **1.2**?", key="ship")
name = loom.ask_questions([{"id": "name", "question": "Your name?", "isSkippable": False}], key="name")
display(env, ship, name)
"""

BREAKS = '''
import loomnb as loom, os
loom.open("store.duckdb")

def read(path):
    return open(path).read()

@loom.workflow
class ImportWorkflow(loom.BaseWorkflow):
    @loom.transition(to="read")
    async def load(self, state, ctx):
        print("reading")
        self.assign_state(text=read("input.txt"))

    @loom.transition(from_="read", to="end", wait=True)
    def go(self, state, input, ctx):
        """Go on"""

run = loom.start(ImportWorkflow)
run
'''
