"""The steps: as in 08-release-notes-blueprint.ipynb, and `publish` also puts the notes on a web site."""

import asyncio
import os
import time
from pathlib import Path

import loomnb as loom

FLOW = "team-notes"


def vague(notes):
    return [change for change in notes["changes"] if len(change.split()) < 3 and change not in notes["explained"]]


@loom.code
async def draft(access):
    notes = access.state.value
    if vague(notes):
        return loom.StepResult("unclear")
    lines = [notes["explained"].get(change, change) for change in notes["changes"]] + notes["added"]
    notes["text"] = "\n".join([f"## Version {notes['version']}", "", *(f"- {line}" for line in lines)])
    await access.state.update(notes)
    return loom.StepResult("drafted")


@loom.code
async def clarify(access):
    questions = [
        {"id": change, "question": f"What does “{change}” mean for users?", "isSkippable": False}
        for change in vague(access.state.value)
    ]
    return await explain(await access.interaction.ask_questions(questions), access)


@clarify.recover
async def clarify_later(saved, access):
    return await explain(saved.answers, access)


async def explain(answers, access):
    notes = access.state.value
    for change in vague(notes):
        notes["explained"][change] = answers[change]
    await access.state.update(notes)
    return loom.StepResult("explained")


@loom.code
async def confirm(access):
    return await judge(await access.interaction.confirm(access.state.value["text"]), access)


@confirm.recover
async def confirm_later(saved, access):
    return await judge(saved.confirmation, access)


async def judge(verdict, access):
    if verdict.is_confirmed:
        return loom.StepResult("good")
    if not verdict.feedback:
        return loom.StepResult("dropped")
    notes = access.state.value
    notes["added"].append(verdict.feedback)
    await access.state.update(notes)
    return loom.StepResult("again")


def count(notes):
    return len(notes["changes"]) + len(notes["added"])


@loom.code
async def publish(access):
    notes = access.state.value
    if await access.storage.get_record_by_id(notes["run"]):
        print(f"version {notes['version']} was kept before")
    else:
        old = await access.storage.get_artifact(FLOW, "writing")
        kept = {"flowName": FLOW, "stageName": "writing", "data": notes["text"]}
        said = {"flowName": FLOW, "stageName": "writing", "data": {"version": notes["version"], "changes": count(notes)}}
        await access.storage.commit(
            [
                {"type": "replace_artifact", "id": old.id, "expectedRevision": old.revision, "payload": kept}
                if old
                else {"type": "create_artifact", "id": FLOW, "payload": kept},
                {"type": "append_record", "id": notes["run"], "payload": said},
            ]
        )
        print(f"version {notes['version']} is kept")
    await asyncio.to_thread(upload, notes)
    return loom.StepResult("published")


def upload(notes):
    site = Path(os.environ["SITE"])
    while not site.exists():  # the site is down
        time.sleep(0.05)
    (site / f"{notes['version']}.md").write_text(notes["text"])


@loom.code
async def announce(access):
    record = await access.storage.get_record_by_id(access.state.value["run"])
    print(f"version {record.data['version']} is out, changes: {record.data['changes']}")
    return loom.StepResult("announced")
