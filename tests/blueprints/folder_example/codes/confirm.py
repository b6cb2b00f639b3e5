"""Lets a person confirm the notes. A question that was open when the kernel died is answered into `recover`."""


async def confirm(_input, access):
    verdict = await access.interaction.confirm(access.state.value["text"])
    return await _judged(verdict.is_confirmed, verdict.feedback, access)


async def recover(saved, access):
    return await _judged(saved.answer["isConfirmed"], saved.answer.get("feedback", ""), access)


async def _judged(is_confirmed, feedback, access):
    if is_confirmed:
        return {"outcome": "confirmed"}
    if not feedback:
        return {"outcome": "given up"}
    notes = access.state.value
    await access.state.update({**notes, "known": [*notes["known"], feedback]})
    return {"outcome": "declined"}


confirm.recover = recover
