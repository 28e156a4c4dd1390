package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// packed is gzip of a header of a tarball, or of zeros.
func packed(t *testing.T, h *tar.Header, zeros int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if h != nil {
		if err := tar.NewWriter(z).WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	z.Write(make([]byte, zeros))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnpackingEnds: the time of an image is that of unpacking it, too. This one has 40 MB and unpacks to 40 GB, in which nothing is
// beyond any other bound.
func TestUnpackingEnds(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s := httptest.NewServer(fake.New(fake.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	const part, parts = 64 << 20, 640
	data := packed(t, &tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Mode: 0o755, Size: part * parts}, 0)
	data = append(data, bytes.Repeat(packed(t, nil, part), parts)...)
	m, err := mutate.AppendLayers(empty.Image, static.NewLayer(data, types.DockerLayer))
	if err == nil {
		m, err = mutate.Config(m, v1.Config{Entrypoint: []string{"/app"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	image := strings.TrimPrefix(s.URL, "http://") + "/bomb:1"
	ref, err := name.ParseReference(image)
	if err == nil {
		err = remote.Write(ref, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got Program
	Read(t.Context(), []Image{{image, []*workload.Container{{}}}}, Options{Within: 3 * time.Second}, func(p Program) { got = p })
	if got.Err == nil || got.Err.Error() != "there was no time left for it" {
		t.Errorf("got %+v", got)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v, left: %v", err, left)
	}
}
