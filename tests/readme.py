"""What the README shows, and the files it speaks of."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.M | re.S)
COMMANDS = [
    line.split("#")[0].strip()
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    if line.startswith("tailmiss ")
]
PYTHON = [text for language, text in BLOCKS if language == "python"]


def write_files(folder: Path) -> None:
    """The rollouts and the curve that the commands audit."""
    with open(folder / "rollouts.jsonl", "w") as file:
        for prompt in range(12):
            for i in range(8):
                reward = int(i < prompt % 9)
                row = {"prompt": f"p{prompt}", "reward": reward, "completion": f"a {i}"}
                file.write(json.dumps(row) + "\n")
    (folder / "k_value.csv").write_text("k,value\n1,20.0\n4,41.3\n16,62.1\n64,78.4\n")
