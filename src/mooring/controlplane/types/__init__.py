"""Parts of API objects: kinds, fields, quantities, encodings, patches, and error statuses."""
