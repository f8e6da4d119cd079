"""Studies: several runs on the same rows, trained, evaluated and compared."""
