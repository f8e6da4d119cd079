"""Text corpora: reading files, splitting them into units, and sampling."""
