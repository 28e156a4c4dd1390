// Package registry answers: which program is in an image that isn't on disk? In go the names of images as containers have
// them; out comes what package binary makes of each. It pulls an image into a directory that is removed once it is read.
//
// It asks the registries that the names say, with the credentials that docker and podman have for them, and nothing else. Each
// image has its size and its time.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// An Image is one that some containers run.
type Image struct {
	Name       string
	Containers []*workload.Container // what they start in it may differ
}

// Options bound what it may cost. The zero value is good.
type Options struct {
	AtOnce int           // images at the same time; 0: 2
	Within time.Duration // for an image; 0: 2 minutes
	Most   int64         // bytes of an image's layers, as sent; 0: 1 GB
}

// A Program is what was found in an image. Err says why it was not read, or not understood.
type Program struct {
	Image string
	binary.Binary
	Err error
}

var errDiffer = errors.New("its containers start different programs")

// Read pulls images and looks for their programs. got gets each; it is not called twice at a time.
func Read(ctx context.Context, images []Image, o Options, got func(Program)) {
	o.AtOnce, o.Within, o.Most = cmp.Or(o.AtOnce, 2), cmp.Or(o.Within, 2*time.Minute), cmp.Or(o.Most, 1e9)
	var (
		all  sync.WaitGroup
		one  sync.Mutex
		free = make(chan struct{}, o.AtOnce)
	)
	for _, image := range images {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			within, cancel := context.WithTimeout(ctx, o.Within)
			defer cancel()
			p := Program{Image: image.Name}
			p.Binary, p.Err = read(within, image, o.Most)
			one.Lock()
			defer one.Unlock()
			got(p)
		})
	}
	all.Wait()
}

func read(ctx context.Context, image Image, most int64) (b binary.Binary, err error) {
	dir, remove, err := ours.TempDir("image")
	if err != nil {
		return b, err
	}
	defer remove()
	if err := pull(ctx, image.Name, dir, most); err != nil {
		return b, err
	}
	m, err := binary.ReadImage(ctx, dir, image.Name)
	if err != nil {
		return b, reason(ctx, err)
	}
	defer m.Close()
	for i, c := range image.Containers {
		p := m.Program(c.Command, c.Args)
		switch {
		case ctx.Err() != nil:
			return binary.Binary{}, reason(ctx, ctx.Err())
		case p.Unknown != "":
			return b, errors.New(p.Unknown)
		case i > 0 && p.String() != b.String():
			return b, errDiffer
		}
		b = p
		b.From = "the program in " + image.Name
	}
	return b, reason(ctx, ctx.Err())
}

// mostAround is how much larger than a layer an answer may be: a manifest has some KB, and a blob's size is checked by the client.
const mostAround = 4 << 20

// pull writes an image into a directory in OCI layout. The client holds each layer to its digest and its size.
func pull(ctx context.Context, image, dir string, most int64) error {
	ref, err := name.ParseReference(image)
	if err != nil {
		return fmt.Errorf("invalid name: %w", err)
	}
	// Blobs lie elsewhere, and so redirects are followed where the client does: not to private addresses. Credentials stay.
	asks := web.New(web.Options{Of: "the registry", Most: most + mostAround, Elsewhere: true, Proxy: true})
	defer asks.CloseIdleConnections()
	m, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(asks.Transport), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("kubectl-unthrottle"),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}), remote.WithRetryBackoff(remote.Backoff{Steps: 1}))
	if err != nil {
		return reason(ctx, err)
	}
	manifest, err := m.Manifest()
	if err != nil {
		return reason(ctx, err)
	}
	size := int64(0)
	for _, l := range manifest.Layers {
		if size += l.Size; l.Size < 0 || size > most {
			return fmt.Errorf("its layers have more than %d MB", most/1e6)
		}
	}
	if manifest.Config.Size > most {
		return errors.New("its configuration is too large")
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return reason(ctx, to.AppendImage(m))
}

// reason is an error in few words.
func reason(ctx context.Context, err error) error {
	var refused *transport.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("there was no time left for it")
	case errors.As(err, &refused) && (refused.StatusCode == 401 || refused.StatusCode == 403):
		return errors.New("its registry does not let you: log in with docker or podman")
	case errors.As(err, &refused) && refused.StatusCode == 404:
		return errors.New("its registry does not have it")
	}
	return err
}
