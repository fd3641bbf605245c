"""What documents show works as it is shown."""

from __future__ import annotations

import pytest
from documents import ROOT, blocks, run_document

RUN = ["docs/PYTHON.md", *(f"docs/tutorials/{name}.md" for name in ("images", "cells", "news", "batch"))]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_code_in_a_document_runs(name, tmp_path):
    assert run_document(ROOT / name, tmp_path) > 0


def test_the_start_of_the_readme_in_python_runs(tmp_path):
    section = (ROOT / "README.md").read_text().partition("### Use mccgr in Python")[2].partition("\n##")[0]
    document = tmp_path / "section.md"
    document.write_text(section)
    assert run_document(document, tmp_path) == 1


DOCUMENT = """
```python
n = 3
print(n, "blocks")
```

```text
... blocks
```

```sh
echo one > file
cat file
```

```toml
not = "run"
```

```python
from pathlib import Path

assert Path("file").read_text() == "one\\n" and n == 3
```
"""


def test_blocks_share_names_and_a_folder_and_print_what_is_shown(tmp_path):
    document = tmp_path / "document.md"
    document.write_text(DOCUMENT)
    assert run_document(document, tmp_path) == 3
    assert [block.line for block in blocks(DOCUMENT)] == [3, 12, 21]


@pytest.mark.parametrize(
    ("right", "wrong"), [("... blocks", "4 blocks"), ("echo one", "false; echo one"), ("n == 3", "n == 4")]
)
def test_a_block_that_does_something_else_is_found(right, wrong, tmp_path):
    document = tmp_path / "document.md"
    document.write_text(DOCUMENT.replace(right, wrong))
    with pytest.raises(AssertionError):
        run_document(document, tmp_path)
