"""A process that is killed while it commits to storage: python storing.py STORE FIRST

Batch n makes or replaces every artifact `a0` to `a9` with the data n, removes the artifact `turn<n-1>` and makes `turn<n>` at its
place, appends the record `r<n>` and removes the one before; "done n" is written once it was acknowledged. Several are in flight.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from loomnb.blueprints.storage import Later, Storage
from loomnb.ids import SYSTEM
from loomnb.store import Database
from tests.blueprints.storing import append, create, remove, remove_record, replace

ARTIFACTS = 10
IN_FLIGHT = 3


def main() -> None:
    storage = Storage(Database(sys.argv[1], SYSTEM))
    n = int(sys.argv[2])
    revisions = {a.id: a.revision for a in storage.list_artifacts().wait().data}
    counter = max(revisions.values(), default=0)
    last = next((int(r.id[1:]) for r in storage.list_records().wait().data), None)
    under_way: list[tuple[int, Later[Any]]] = []
    os.write(1, b"ready\n")
    while True:
        turn = [create(f"turn{n}", "turn", "of all", n)]
        gone = [remove(f"turn{last}", revisions[f"turn{last}"])] if last is not None else []
        written = []
        for i in range(ARTIFACTS):
            name = f"a{i}"
            written.append(replace(name, revisions[name], data=n) if name in revisions else create(name, data=n))
            counter += 1
            revisions[name] = counter
        counter += 1
        revisions[f"turn{n}"] = counter
        records = [append(f"r{n}", data=n), *([remove_record(f"r{last}")] if last is not None else [])]
        under_way.append((n, storage.commit([*written, *gone, *turn, *records])))
        last, n = n, n + 1
        if len(under_way) >= IN_FLIGHT:
            number, later = under_way.pop(0)
            later.wait(20)
            os.write(1, f"done {number}\n".encode())


if __name__ == "__main__":
    main()
