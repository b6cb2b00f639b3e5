"""What `import loomnb` costs against the imports it cannot do without: CPU of fresh processes, the least of several.

The target is about `import loomnb`. Its names load at first use; what the first of them costs is printed beside what
pydantic costs once a model is made (it loads lazily, too).
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys

import rounds

STATEMENTS = {
    "nothing": "pass",
    "import pydantic, duckdb": "import pydantic, duckdb",
    "the same, one model made": "import pydantic, duckdb\nclass M(pydantic.BaseModel):\n    x: int",
    "import loomnb": "import loomnb",
    "import loomnb; loomnb.BaseWorkflow": "import loomnb; loomnb.BaseWorkflow",
}
LIMIT = "import pydantic, duckdb"
# Imports of the notebook's world: a headless process must not pay for them.
FORBIDDEN = ("IPython", "ipywidgets", "anywidget", "ipykernel", "traitlets", "nest_asyncio")
CHILD = """
import sys, time
start = time.process_time()
{statement}
print(time.process_time() - start, *[name for name in {forbidden} if name in sys.modules])
"""


def cpu(statement: str) -> tuple[float, list[str]]:
    code = CHILD.format(statement=statement, forbidden=FORBIDDEN)
    # -P: the script's folder must not be on the path, or a module there could be imported instead.
    # Bytecode is kept, as it is for whoever did not forbid it: compiling anew would be most of the figure.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr[-800:])
    seconds, *names = done.stdout.split()
    return float(seconds), names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    least: dict[str, float] = {}
    dragged: dict[str, list[str]] = {}
    for number in range(options.rounds + 1):
        for name in random.sample(list(STATEMENTS), k=len(STATEMENTS)):
            try:
                seconds, dragged[name] = cpu(STATEMENTS[name])
            except RuntimeError as failure:
                if number == 0:
                    print(f"{name} FAILED:\n{failure}")
                continue
            if number:  # the first round only writes bytecode and fills the page cache
                least[name] = min(seconds, least.get(name, seconds))
    print(f"CPU of a fresh process, least of {options.rounds}\n\n| statement | ms CPU | x {LIMIT} |\n|---|---|---|")
    for name in STATEMENTS:
        if name in least:
            print(f"| {name} | {least[name] * 1e3:.1f} | {least[name] / least[LIMIT]:.2f} |")
    print(f"\nTargets, as multiples of {LIMIT}:")
    ratio = least["import loomnb"] / least[LIMIT] if "import loomnb" in least else None
    met = [rounds.verdict("import loomnb", ratio, 1.0, at_least=False)]
    for name, names in dragged.items():
        if names:
            print(f"  MISSED  {name} imports {', '.join(names)}")
            met.append(False)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
