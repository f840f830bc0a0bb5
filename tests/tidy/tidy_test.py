#!/usr/bin/env python3
"""Guards what the compiler does not: walls between layers, clocks, sleeps, words, links, form.

  tests/tidy/tidy_test.py          judge the whole tree, after a self-test of every rule
  tests/tidy/tidy_test.py PATH...  report only these files

What a rule means stands in rules.py; exceptions.txt excuses files and functions, each with its
reason. Python's standard library is all it needs.
"""

import os
import sys

sys.dont_write_bytecode = True
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/tidy"))

from rules import RULES  # noqa: E402
from samples import BACKGROUND, SAMPLES  # noqa: E402
from source_tree import Source, Tree, load_tree  # noqa: E402


def self_test():
    """Every rule can fail, and does not where it should not. Yields what is wrong."""
    for name, function in RULES.items():
        samples = SAMPLES.get(name, {"bad": [], "good": []})
        if not samples["bad"] or not samples["good"]:
            yield f"rule {name} has no samples in samples.py"
        for verdict in ("bad", "good"):
            for number, (path, text) in enumerate(samples[verdict]):
                sample = Source(path, text)
                around = BACKGROUND + samples["good"]
                tree = Tree([Source(*other) for other in around if other[0] != path] + [sample])
                found = list(function(sample, tree))
                if bool(found) != (verdict == "bad"):
                    yield f"rule {name}: {verdict} sample {number} ({path}) gave {found}"
        excused = Tree([], {("length", "a.cc"): "reason"})
    if list(RULES["length"](Source("a.cc", "int a;\n" * 501), excused)):
        yield "an exception does not excuse"


def judge(tree, only):
    for path in sorted(tree.sources):
        for name, function in RULES.items():
            for line, message in function(tree.sources[path], tree):
                if not only or path in only:
                    yield f"{path}:{line}: {name}: {message}"
    for name, subject in sorted(set(tree.exceptions) - tree.used_exceptions):
        yield f"tests/tidy/exceptions.txt: '{name} {subject}' excuses nothing: remove it"


def main():
    wrong = [f"self-test: {line}" for line in self_test()]
    only = {os.path.relpath(os.path.abspath(path), ROOT) for path in sys.argv[1:]}
    tree = load_tree(ROOT)
    wrong += judge(tree, only)
    for line in wrong:
        print(line)
    print(f"tidy: {len(RULES)} rules, {len(tree.sources)} files, {len(wrong)} findings")
    return 1 if wrong or not tree.sources else 0


if __name__ == "__main__":
    sys.exit(main())
