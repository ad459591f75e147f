"""The console: one small process that shows a cluster to browsers, and changes nothing."""
