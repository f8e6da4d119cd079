"""Before a run: parameters, arithmetic, memory, hours, money."""
