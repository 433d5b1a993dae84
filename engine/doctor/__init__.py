"""What `penstock doctor` looks at: this machine, storage, a server. Add a check here. Not how it is shown."""
