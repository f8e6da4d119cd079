"""Result files of members: reading, selection, comparison, tables, figures and pages."""
