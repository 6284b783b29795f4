"""What the four volume plugins share: claims, volumes, who may be where. No plugin lives here."""
