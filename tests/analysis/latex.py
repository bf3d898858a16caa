"""Whether LaTeX would take a table, as far as its structure shows."""

from __future__ import annotations

import re


def sound_latex(text: str) -> None:
    """Asserts that braces, dollars and environments close, and that each line fills its columns."""
    bare = re.sub(r"\\[\\{}$&%#_,]", lambda found: "⏎" if found[0] == r"\\" else "", text)
    depth = 0
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0, "a brace closes what none has opened"
    assert depth == 0, "a brace stays open"
    assert bare.count("$") % 2 == 0, "mathematics stays open"
    open_environments: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert not open_environments
    columns = re.search(r"\\begin\{tabular\}\{([lr]*)\}", text)
    assert columns is not None
    body = bare[bare.index(r"\toprule") : bare.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith("⏎")]
    assert {line.count("&") + 1 for line in lines} == {len(columns[1])}
    mathless = re.sub(r"\$[^$]*\$", "", bare)
    for letter in ("^", "_", "#", "~"):
        assert letter not in mathless.replace("\\", ""), f"a bare {letter}"
    assert "%" not in bare.replace("{%\n", ""), "a comment swallows the rest of its line"
    assert all(ord(letter) < 0x180 or letter == "⏎" for letter in bare), "a letter without glyph"
