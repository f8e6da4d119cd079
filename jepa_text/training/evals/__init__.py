"""One evaluation per file: run(model, ...) gives {name: value}."""
