def slug(title):
    return title.replace(" ", "-")
