"""The agents that the chat panel is tried with, as cells. Nothing of them is a real model."""

from __future__ import annotations

__all__ = ["ASSISTANT", "LONG"]

ASSISTANT = '''
import asyncio, os, pathlib
import loomnb as loom
from loomnb.agents import agent_tool
from loomnb.studio.agents import Agent
from loomnb.testing import Said, ScriptedModel
from loomnb.present import chart

loom.open("store.duckdb")

@agent_tool(presentation={"label": "Weather in {city}", "running": "Asking for the weather in {city}…",
                          "done": "Asked for the weather in {city}"})
def weather(city: str, days: int = 3) -> dict:
    """The weather of the next days."""
    return {"city": city, "days": [{"day": "Mon", "degrees": 21}, {"day": "Tue", "degrees": 19}][:days]}

@agent_tool(kind="action", presentation={
    "label": "Send a mail", "running": "Sending the mail to {to}…", "done": "Sent the mail to {to}",
    "confirm": {"title": "Send this mail?", "detail": "It goes to **{to}** at once.", "verb": "Send mail"}})
def send_mail(to: str, subject: str, text: str, urgent: bool = False) -> str:
    """Send a mail."""
    with open("sent.txt", "a") as f:
        f.write(f"{to}: {subject}\\n")
    return f"sent to {to}"

ANSWER = """The week in **Lisbon** stays mild:

| day | degrees |
|-----|--------:|
| Mon | 21 |
| Tue | 19 |
| Wed | 23 |

- take a *light* jacket for the evening
- no rain in sight

```python
print("sunny")
```
"""

def script(request, turn):
    words = [m["content"] for m in request.messages if m["role"] == "user"]
    last = words[-1]
    tools = 0
    for m in request.messages[::-1]:
        if m["role"] == "user":
            break
        tools += m["role"] == "assistant"
    if "suggest" in (request.system or "").lower() and not request.tools:
        return '["And next week?", "Mail it to Bob"]'
    if "mail" in last.lower():
        if tools == 0:
            return Said(tools=[("send_mail", {"to": "bob@example.org", "subject": "Weather", "text": "Mild all week."})],
                        usage={"inputTokens": 420, "outputTokens": 38}, cost=0.0008)
        result = request.messages[-1]["toolResults"][0]
        told = result["output"].get("output") or result["output"] if isinstance(result["output"], dict) else result["output"]
        text = "All right, I did not send it." if result.get("denied") else f"Done: {told}."
        return Said(text=text, usage={"inputTokens": 470, "outputTokens": 9}, cost=0.0007)
    if "fail" in last.lower() and not os.path.exists("up"):
        return ConnectionError("the server of the model is not there")
    if "long" in last.lower():
        return Said(text="This takes " + "a long while " * 60)
    if tools == 0:
        return Said(text="Let me look.", reasoning="The person asks about the weather: that is what the tool is for.",
                    tools=[("weather", {"city": "Lisbon"})], usage={"inputTokens": 310, "outputTokens": 25}, cost=0.0005)
    return Said(text=ANSWER, usage={"inputTokens": 402, "outputTokens": 88}, cost=0.0011)

async def pause(turn, frame):
    if frame["kind"] == "text" and "while" in frame["text"]:
        while not os.path.exists("go"):
            await asyncio.sleep(0.02)

agent = Agent(ScriptedModel(script, pause=pause), [weather, send_mail], "You help.", name="helper", title="Helper",
              models={"small": ScriptedModel(script, pause=pause)}, follow_ups=2)
'''
"""Says a weather report after a tool's call, sends mails if a person agrees, fails as long as there is no file `up`, and waits in
the middle of a long answer until there is a file `go`."""

LONG = (
    ASSISTANT
    + """
from loomnb.agents import ChatMessage, Actor
chat = agent.chat()
store = chat.store
store.now(store.create_thread(actor=agent.actor, id=chat.thread_id, agent_name="helper", title="A long one"))
async def fill():
    for n in range(500):
        await store.append_message(chat.thread_id, ChatMessage(role="user", content=f"Question {n}"))
        text = f"Answer **{n}** with `code` and a list:\\n\\n- one\\n- two"
        await store.append_message(chat.thread_id, ChatMessage(role="assistant", content=text))
store.now(fill())
chat
"""
)
