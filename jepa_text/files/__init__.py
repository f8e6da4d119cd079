"""Local and remote files: paths, atomic writes, checksums, caching, transfer."""
