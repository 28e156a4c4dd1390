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
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// An Image is what a container is made from: one layer of files, and what to start.
type Image struct {
	Name       string   // with a tag, such as localhost/server:1
	Entrypoint []string // of paths in the image
	Args       []string
	Env        []string          // NAME=value
	User       string            // empty: root
	Labels     map[string]string // of the image
	Files      map[string]string // files of this machine by their paths in the image
}

// GoImage is an image of one Go program, which is built for it without cgo: a package by its path, as go build takes it.
func GoImage(t testing.TB, name, pkg string) Image {
	t.Helper()
	return Image{Name: name, Entrypoint: []string{"/program"}, Files: map[string]string{"/program": BuildGo(t, pkg)}}
}

// BuildGo builds a Go program that needs no other file to run, with the go command's flags if there are any, and returns its
// path. It is gone when the test ends.
func BuildGo(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := buildGo(program, pkg, flags...); err != nil {
		t.Fatal(err)
	}
	return program
}

// buildGo builds a program where the last one of its kind was put before, from the user's cache: the go command sees from that one's ID
// whether it has to link again, which takes longer than all else.
func buildGo(program, pkg string, flags ...string) error {
	kept := keptProgram(pkg, flags)
	before, err := os.ReadFile(kept)
	if err == nil {
		if err := os.WriteFile(program, before, 0o755); err != nil {
			return err
		}
	}
	args := append([]string{"build", "-trimpath", "-o", program}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	if after, err := os.ReadFile(program); err == nil && kept != "" && !bytes.Equal(before, after) {
		_ = keepProgram(kept, after) // or the next one is linked again
	}
	return nil
}

// keptProgram is where a program is kept for the next test that builds it; "": nowhere, as this user has no cache.
func keptProgram(pkg string, flags []string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	if strings.HasPrefix(pkg, ".") {
		if pkg, err = filepath.Abs(pkg); err != nil {
			return ""
		}
	}
	return filepath.Join(cache, "unthrottle-test", "programs", fmt.Sprintf("%x", sha256.Sum256([]byte(pkg+" "+strings.Join(flags, " "))))[:16])
}

// keepProgram puts a program where others may be reading the one before it.
func keepProgram(kept string, program []byte) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(kept), "new")
	if err != nil {
		return err
	}
	_, err = f.Write(program)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), kept)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Write writes the image as a tar archive with the layout of the Open Container Initiative, which container runtimes import.
// The same files always make the same archive.
func (i Image) Write(w io.Writer) error {
	if err := i.write(w); err != nil {
		return fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	return nil
}

// descriptor is how a document of an image refers to another one, or to a layer.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const mediaType = "application/vnd.oci.image."

func (i Image) write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	type object = map[string]any
	blobs := map[string][]byte{} // by path
	blob := func(kind string, data []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		blobs["blobs/sha256/"+sum] = data
		return descriptor{MediaType: mediaType + kind, Digest: "sha256:" + sum, Size: len(data)}
	}
	layerBlob := blob("layer.v1.tar", layer)
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": object{"Entrypoint": i.Entrypoint, "Cmd": i.Args, "Env": i.Env, "User": i.User, "Labels": i.Labels, "WorkingDir": "/"},
		"rootfs": object{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": mediaType + "manifest.v1+json",
		"config": blob("config.v1+json", config), "layers": []descriptor{layerBlob},
	})
	if err != nil {
		return err
	}
	manifestBlob := blob("manifest.v1+json", manifest)
	_, tag, _ := strings.Cut(path.Base(i.Name), ":")
	manifestBlob.Annotations = map[string]string{"io.containerd.image.name": i.Name, "org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(object{"schemaVersion": 2, "mediaType": mediaType + "index.v1+json", "manifests": []descriptor{manifestBlob}})
	if err != nil {
		return err
	}
	blobs["index.json"], blobs["oci-layout"] = index, []byte(`{"imageLayoutVersion":"1.0.0"}`)
	return writeTar(w, blobs, 0o644)
}

func (i Image) layer() ([]byte, error) {
	files := map[string][]byte{}
	for name, source := range i.Files {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(path.Clean("/"+name), "/")] = data
	}
	var layer bytes.Buffer
	err := writeTar(&layer, files, 0o755)
	return layer.Bytes(), err
}

// writeTar writes files and the directories that they are in.
func writeTar(w io.Writer, files map[string][]byte, mode int64) error {
	archive := tar.NewWriter(w)
	made := map[string]bool{".": true}
	var directories func(dir string) error
	directories = func(dir string) error {
		if made[dir] {
			return nil
		}
		if err := directories(path.Dir(dir)); err != nil {
			return err
		}
		made[dir] = true
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := directories(path.Dir(name)); err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(files[name]))}); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	return archive.Close()
}
