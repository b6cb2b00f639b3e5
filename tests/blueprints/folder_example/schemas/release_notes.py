"""What both stages know."""

from pydantic import BaseModel


class ReleaseNotes(BaseModel):
    about: str
    text: str = ""
    questions: list[str] = []
    known: list[str] = []
