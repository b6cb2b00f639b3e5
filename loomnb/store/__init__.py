"""The DuckDB file: schema and migrations, the one writer, reading, SQL, snapshots."""

from loomnb.store.database import MEMORY, Database, StoreWarning, damaged
from loomnb.store.relation import Relation, cell_text, parameters, query
from loomnb.store.writer import Action, Chain, Row, parsed

__all__ = [
    "MEMORY",
    "Action",
    "Chain",
    "Database",
    "Relation",
    "Row",
    "StoreWarning",
    "cell_text",
    "damaged",
    "parameters",
    "parsed",
    "query",
]
