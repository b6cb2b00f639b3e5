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


DELIVER_DEFINED = (
    OPEN
    + """
class Spec(BaseModel):
    goal: str
    name: str = ""

def made(text):
    with open("made.txt", "a") as file:
        file.write(text + "\\n")

@loom.code
async def clarify(access):
    made("clarify")
    print("who is it for?")
    answers = await access.interaction.ask_questions(
        [{"id": "name", "question": "Your name?", "isSkippable": False}]
    )
    made("clarified")
    await access.state.update({**access.state.value, "name": answers["name"]})
    return loom.StepResult("clear")

@clarify.recover
async def go_on(saved, access):
    made("recover " + saved.action.id)
    await access.state.update({**access.state.value, "name": saved.answers["name"]})
    return loom.StepResult("clear")

@loom.code
async def publish(access):
    print("is it good?")
    spec = access.state.value
    verdict = await access.interaction.confirm(f"Publish **{spec['goal']}** for {spec['name']}?")
    if not verdict.is_confirmed:
        print("no:", verdict.feedback)
        return loom.StepResult("again")
    await access.storage.commit([
        {"type": "create_artifact", "id": "notes", "payload": {"flowName": "deliver", "stageName": "spec", "data": spec}}
    ])
    return loom.StepResult("done")

deliver = loom.Blueprint(
    flow_name="deliver",
    entry_stage_name="spec",
    stages={
        "spec": loom.BlueprintStage(
            state_schema=Spec,
            initialize_state=lambda context: {"goal": context.intent},
            entry_step_name="clarify",
            steps={
                "clarify": loom.BlueprintStep(execution=clarify, on={"clear": "publish"}),
                "publish": loom.BlueprintStep(execution=publish, on={"done": loom.STAGE_END, "again": "clarify"}),
            },
            on={"done": loom.WORKFLOW_END},
        )
    },
)
""".replace("class Spec", "from pydantic import BaseModel\n\nclass Spec")
)
DELIVER = DELIVER_DEFINED + '\nrun = loom.flow(deliver, "Notes", key="notes")\nrun\n'


def step(body: str, *, flow: str = "one", sync: bool = False, start: str = "", head: str = "", recover: str = "") -> str:
    """A cell with a blueprint of one step, `body`, started and shown."""
    indented = "\n".join("    " + line for line in body.strip().splitlines())
    goes_on = "\n".join("    " + line for line in recover.strip().splitlines())
    goes_on = f"@{flow}_work.recover\nasync def {flow}_go_on(saved, access):\n{goes_on}" if recover else ""
    start = start or f'loom.flow({flow}, "do it", key="{flow}")'
    return f"""{OPEN}
{head}
@loom.code
{"def" if sync else "async def"} {flow}_work(access):
{indented}

{goes_on}

{flow} = loom.Blueprint(flow_name="{flow}", entry_stage_name="only", stages={{
    "only": loom.BlueprintStage(
        state_schema=dict, initialize_state=lambda context: {{"n": 0}}, entry_step_name="work",
        steps={{"work": loom.BlueprintStep(execution={flow}_work, on={{"done": loom.STAGE_END}})}},
        on={{"done": loom.WORKFLOW_END}},
    )
}})
run = {start}
run
"""
