"""Figures, HTML and Markdown pages, and terminal output."""
