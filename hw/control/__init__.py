"""The control node: what the host sees, and what starts, joins and stops the units."""
