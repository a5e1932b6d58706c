"""The what-if answers against a network that anyone with root can build: namespaces, veth cables, token buckets, DDP over Gloo."""
