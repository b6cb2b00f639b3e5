"""What each stage knows: its State."""

from pydantic import BaseModel


class Notes(BaseModel):
    run: str
    version: str
    changes: list[str]
    explained: dict[str, str] = {}
    added: list[str] = []
    text: str = ""


class Announcement(BaseModel):
    run: str
