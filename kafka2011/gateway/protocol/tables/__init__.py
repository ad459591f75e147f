"""The fields of each message: `data` for records and offsets, `admin` for topics and settings, `groups` for groups."""
