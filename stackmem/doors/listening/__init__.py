"""What every listener shares: its socket, how strictly requests are read, and who is answered."""
