"""How the writer ends."""

from typing import Literal

from pydantic import BaseModel


class Drafted(BaseModel):
    outcome: Literal["unclear", "drafted"]
