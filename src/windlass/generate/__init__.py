"""The loop behind a model API: `scope.models.generate`."""
