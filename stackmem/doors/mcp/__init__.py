"""stackmem's memory for other agents, as a server of the Model Context Protocol."""
