"""What a project asks for: settings, releases, and which project a file belongs to."""
