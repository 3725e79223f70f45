"""Configuration of a project: settings, target releases, and the project to which a file belongs."""
