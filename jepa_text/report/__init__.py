"""Arrays to figures, tables, HTML, and lines on the terminal."""
