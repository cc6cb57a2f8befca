"""The parts of the page that `tools/conformance_page.py` writes."""
