"""The State a stage begins with."""


def from_intent(context):
    return {"about": context.intent}
