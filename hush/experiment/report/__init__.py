"""What a reader gets from a run: tables, the page and the comparison figure."""
