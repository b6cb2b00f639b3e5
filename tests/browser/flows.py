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

RELEASE_DEFINED = """
import loomnb as loom
from pydantic import BaseModel
loom.open("store.duckdb")

class Brief(BaseModel):
    product: str
    audience: str = ""
    rounds: int = 0
    remarks: list[str] = []

class Sent(BaseModel):
    to: list[str] = []

@loom.code
async def clarify(access):
    print("asking for the audience")
    answers = await access.interaction.ask_questions([
        {"id": "audience", "question": "Who reads them?", "isSkippable": False, "description": "It decides the *tone*.",
         "options": [{"id": "d", "label": "developers", "description": "with code"}, {"id": "u", "label": "everybody"}]},
        {"id": "length", "question": "How long may they be?", "isSkippable": True},
    ])
    await access.state.update({**access.state.value, "audience": answers["audience"]})
    return loom.StepResult("clear")

@clarify.recover
async def clarified(saved, access):
    print("the kernel died meanwhile")
    await access.state.update({**access.state.value, "audience": saved.answers["audience"]})
    return loom.StepResult("clear")

@loom.code
async def write(access):
    brief = access.state.value
    text = f"# {brief['product']}\\n\\nFor *{brief['audience']}*.\\n\\n- faster `store`\\n- blueprints\\n"
    text += "".join(f"- {remark}\\n" for remark in brief["remarks"])
    found = await access.storage.get_artifact("release", "notes")
    operation = {"type": "create_artifact", "id": "notes", "payload": {"flowName": "release", "stageName": "notes", "data": text}}
    if found is not None:
        operation |= {"type": "replace_artifact", "expectedRevision": found.revision}
    await access.storage.commit([operation])
    await access.state.update({**brief, "rounds": brief["rounds"] + 1})
    print("wrote round", brief["rounds"] + 1)
    return loom.StepResult("written")

@loom.code
async def review(access):
    brief = access.state.value
    verdict = await access.interaction.confirm(f"Are the notes of **{brief['product']}** for *{brief['audience']}* good?")
    if verdict.is_confirmed:
        return loom.StepResult("done")
    await access.state.update({**brief, "remarks": [*brief["remarks"], verdict.feedback or "more"]})
    return loom.StepResult("again")

@loom.code
async def send(access):
    print("sending")
    token = "secret-" + "token"
    if not READY:
        raise ConnectionError(f"the server refused {token}")
    return loom.StepResult("done")

READY = True
release = loom.Blueprint(
    flow_name="release",
    title="Release notes",
    entry_stage_name="notes",
    stages={
        "notes": loom.BlueprintStage(
            state_schema=Brief,
            initialize_state=lambda context: {"product": context.intent},
            entry_step_name="clarify",
            steps={
                "clarify": loom.BlueprintStep(execution=clarify, on={"clear": "write"}),
                "write": loom.BlueprintStep(execution=write, on={"written": "review"}),
                "review": loom.BlueprintStep(execution=review, on={"done": loom.STAGE_END, "again": "write"}),
            },
            on={"done": "sending"},
        ),
        "sending": loom.BlueprintStage(
            state_schema=Sent,
            initialize_state=lambda context: {},
            entry_step_name="send",
            steps={"send": loom.BlueprintStep(execution=send, on={"done": loom.STAGE_END})},
            on={"done": loom.WORKFLOW_END},
        ),
    },
)
"""
RELEASE = RELEASE_DEFINED + '\nrun = loom.flow(release, "Loom 1.2", key="release")\nrun\n'
