"""What objects are made of: kinds, fields, quantities, encodings, patches, and the refusals clients get."""
