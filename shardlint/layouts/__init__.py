"""What the text tells of the layouts of arrays: an abstract interpreter, and the values it computes with."""
