"""Work on the machines of a Dask cluster. Nothing else imports dask, and this only what a command asks for."""
