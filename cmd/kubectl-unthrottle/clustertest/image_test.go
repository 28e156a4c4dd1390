package clustertest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage follows the digests from the index to the files, as a container runtime does.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("file "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	image := Image{
		Name: "localhost/some/server:7", Entrypoint: []string{"/bin/server"}, Args: []string{"-x"}, Env: []string{"A=b"},
		Files: map[string]string{"/bin/server": filepath.Join(dir, "a"), "etc/deep/file": filepath.Join(dir, "b")},
	}
	var first, second bytes.Buffer
	if err := errors.Join(image.Write(&first), image.Write(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same image is written in two ways")
	}
	files := untar(t, first.Bytes())
	blob := func(d descriptor) []byte {
		hex, _ := strings.CutPrefix(d.Digest, "sha256:")
		data := files["blobs/sha256/"+hex]
		if fmt.Sprintf("%x", sha256.Sum256(data)) != hex || len(data) != d.Size {
			t.Fatalf("there is no %s of %d bytes", d.Digest, d.Size)
		}
		return data
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config struct{ Entrypoint, Cmd, Env []string }
		Rootfs struct {
			IDs []string `json:"diff_ids"`
		}
	}
	for _, document := range []struct {
		data func() []byte
		into any
	}{
		{func() []byte { return files["index.json"] }, &index},
		{func() []byte { return blob(index.Manifests[0]) }, &manifest},
		{func() []byte { return blob(manifest.Config) }, &config},
	} {
		if err := json.Unmarshal(document.data(), document.into); err != nil {
			t.Fatal(err)
		}
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != image.Name {
		t.Errorf("its name is %q", got)
	}
	if c := config.Config; !slices.Equal(c.Entrypoint, image.Entrypoint) || !slices.Equal(c.Cmd, image.Args) || !slices.Equal(c.Env, image.Env) {
		t.Errorf("its configuration is %+v", c)
	}
	if !slices.Equal(config.Rootfs.IDs, []string{manifest.Layers[0].Digest}) {
		t.Errorf("its layers are %q", config.Rootfs.IDs)
	}
	layer := untar(t, blob(manifest.Layers[0]))
	if got := slices.Sorted(maps.Keys(layer)); !slices.Equal(got, []string{"bin/", "bin/server", "etc/", "etc/deep/", "etc/deep/file"}) {
		t.Errorf("its files are %q", got)
	}
	if string(layer["bin/server"]) != "file a" {
		t.Errorf("the server is %q", layer["bin/server"])
	}
	image.Files["c"] = filepath.Join(dir, "c")
	if err := image.Write(io.Discard); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), image.Name) {
		t.Errorf("with a file that is missing the error is %v", err)
	}
}
