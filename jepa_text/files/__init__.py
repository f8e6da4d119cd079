"""Files and folders: where a path may lead, writing whole or not at all, checksums."""
