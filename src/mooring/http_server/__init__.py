"""A small HTTP server: a thread per connection, everything bounded in size and time. Extenders and endpoints use it."""
