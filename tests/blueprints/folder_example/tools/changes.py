"""What the writer may look up."""

from pydantic import BaseModel

from loomnb.blueprints.model import AgentTool


class Since(BaseModel):
    version: str


def _list(since, _access):
    return [f"A change since {since.version}"]


list_changes = AgentTool(
    id="list_changes", description="The changes since a version.", input_schema=Since, output_schema=list[str], execute=_list
)
