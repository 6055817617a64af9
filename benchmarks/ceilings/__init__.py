"""Direct SQL, as fast as it can be made: what Gandy is measured against."""
