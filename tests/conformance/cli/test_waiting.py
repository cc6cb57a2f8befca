"""The line that a terminal shows while a function is judged."""

import io
import time

import pytest
from rich.console import Console

from posenc_ref.conformance.cli.options import output


@pytest.mark.parametrize(
    ("terminal", "seconds", "shown"), [(True, 0.3, True), (True, 0.0, False), (False, 0.3, False)]
)
def test_a_terminal_that_waits_gets_a_line(monkeypatch, terminal, seconds, shown):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal)
    monkeypatch.setattr(output, "Console", lambda **_: console)
    with output.waiting("judging a[b].py", after=0.05):
        time.sleep(seconds)
    assert ("judging a[b].py" in text.getvalue()) is shown
