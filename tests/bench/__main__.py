"""`python -m tests.bench`: safd beside its floors, measured by turns in one run, as ratios of medians."""

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
from pathlib import Path

import attrs

from tests.bench.generate import messages
from tests.bench.parts import daemon, load
from tests.bench.rows import FULL, GROUPS, QUICK, Bench, Row


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a shorter record: a look, not a figure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows as JSON (- for stdout)")
    parser.add_argument("--only", choices=sorted(GROUPS), action="append", help="one group of rows; may be repeated")
    parser.add_argument("--target", default="openai-chat", help="what replay rows ask for")
    parser.add_argument("--folder", type=Path, help="where stores lie; a disk that is really synced")
    return parser.parse_args()


def machine() -> str:
    return (
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Linux {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def line(row: Row) -> str:
    low, high = row.span
    verdict = "met" if row.met else "MISSED"
    return (
        f"{row.work:40} {row.safd:>12,.0f} {row.floor:>12,.0f} {row.unit:11} "
        f"{row.ratio:6.2f}x ({low:.2f}..{high:.2f})  {row.goal:16} {verdict}"
    )


def main() -> int:
    chosen = arguments()
    size = QUICK if chosen.quick else FULL
    out = sys.stderr if chosen.json == Path("-") else sys.stdout
    print(f"{machine()}\n{size}\n", file=out)
    print(f"{'work':40} {'safd':>12} {'floor':>12} {'unit':11} {'ratio':7} (least..most)  goal", file=out)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="safd-bench-", dir=chosen.folder) as made, load() as run:
        folder = Path(made)
        record = list(messages(size.record))
        for name in chosen.only or GROUPS:
            # a daemon of its own for each group: what one leaves behind does not weigh on the next
            with daemon(folder / f"daemon-{name}") as here:
                bench = Bench(folder=folder, size=size, load=run, daemon=here, record=record, target=chosen.target)
                for row in GROUPS[name](bench):
                    rows.append(row)
                    print(line(row), f"\n{'':6}{row.note}", file=out, flush=True)
    if chosen.json:
        report = json.dumps({"machine": machine(), "size": attrs.asdict(size), "rows": [attrs.asdict(r) for r in rows]})
        if chosen.json == Path("-"):
            print(report)
        else:
            chosen.json.write_text(report + "\n", encoding="utf-8")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
