"""Result lines of members: what they choose, how they compare, and how they are shown."""
