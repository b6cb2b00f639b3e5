"""Asks a person what the writer could not know."""


async def clarify(_input, access):
    notes = access.state.value
    answers = await access.interaction.ask_questions(
        [{"id": str(n), "question": question, "isSkippable": False} for n, question in enumerate(notes["questions"])]
    )
    known = [f"{q} {answers[str(n)]}" for n, q in enumerate(notes["questions"])]
    await access.state.update({**notes, "questions": [], "known": [*notes["known"], *known]})
    return {"outcome": "answered"}
