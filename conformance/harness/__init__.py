"""Call the judged function, compare its results, and report."""
