package conformance

import "testing"

func model(t *testing.T, open func(t *testing.T) Subject) { _ = open; _ = t }
