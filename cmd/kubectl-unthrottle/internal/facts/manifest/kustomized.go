package manifest

import (
	"context"
)

// kustomized keeps a kustomization that was found, and what it refers to.
func (r *reader) kustomized(t *tree, file string, data []byte) {}

// tops are the kustomizations that no other one refers to.
func (s *sources) tops() []*folder { return nil }

func (r *reader) renderFolder(ctx context.Context, k *folder, late bool) {}
