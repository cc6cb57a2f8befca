"""JSON documents that Python would read in a way that their author did not mean."""

import pytest

from posenc_ref._documents import parse_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b": 1, "c": 2, "b": 1}}', "config.json must have every key once, it has 'b' twi"),
        ("1" * 5000, "an integer has more than 4300 digits"),
        (b"\xfe\xff\x00", "config.json is not JSON: it must be UTF-8 text"),
    ],
)
def test_documents_are_refused_in_words_about_the_file(text, message):
    with pytest.raises(ValueError, match=message):
        parse_json(text, "config.json")
