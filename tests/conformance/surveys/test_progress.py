"""The lines of progress of a long command."""

from posenc_ref.conformance.surveys import progress


def test_progress_is_plain_lines_in_a_pipe(capsys, monkeypatch):
    def printed(*calls):
        now = iter([0.0, *(at for at, *_ in calls)])
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
        show_progress = progress.lines()
        for _, name, done in calls:
            show_progress(name, done, 2)
        return capsys.readouterr().err.splitlines()

    assert printed((0.0, "", 0), (1.0, "a", 1), (1.5, "b", 2)) == []
    assert printed(
        (0.0, "", 0), (3.0, "", 0), (4.0, "a", 0), (13.0, "b", 1), (14.0, "c", 1), (15.0, "d", 2)
    ) == [
        "posenc: 0 of 2 parts done after 3 s",
        "posenc: 1 of 2 parts done after 13 s, last: b",
        "posenc: 2 of 2 parts done after 15 s, last: d",
    ]
