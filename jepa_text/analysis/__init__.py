"""Models x layers x poolings x tasks -> values with controls, and a page."""
