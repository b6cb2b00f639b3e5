"""What each stage begins with."""

CHANGES = {
    "2.0": ["Tables can be exported as CSV", "Search tweaks"],
    "2.1": ["Dark colours at night"],
    "2.2": ["The menu can be reached by keyboard"],
}


def writing(context):
    return {"run": context.run_id, "version": context.intent, "changes": CHANGES[context.intent]}


def announcing(context):
    return {"run": context.run_id}
