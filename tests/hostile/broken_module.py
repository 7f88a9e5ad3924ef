"""A module whose import fails, for a tool named `module:function`."""

raise RuntimeError("this module cannot be imported")
