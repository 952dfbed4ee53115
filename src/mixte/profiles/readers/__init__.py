"""One reader per profile format; each has ``read(source) -> Profile``. `mixte.profiles.read_profile` finds it."""
