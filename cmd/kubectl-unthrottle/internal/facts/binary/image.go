package binary

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// An Image is an image in a file. Its layers are read again for each program that is looked for.
type Image struct {
	ctx        context.Context // kept, for programs are read when they are asked for, by what has no context
	file       string
	blobs      blobs
	layers     []string // blobs, the lowest first
	env        []Variable
	path       []string
	dir        string
	entrypoint []string
	cmd        []string
	files      map[string]file
	left       int64 // of maxBytes
	headers    int64 // what is left of maxHeaders, of one reading of the layers
	programs   map[string]content
}

// Close gives the file free.
func (m *Image) Close() error { return m.blobs.Close() }

// ReadImage reads an image from a directory in OCI layout, a tarball of one, or what "docker save" writes; either may be
// compressed by gzip or zstd. If there are several images in it, name says which. When the context ends, so does reading it and its
// programs.
func ReadImage(ctx context.Context, file, name string) (*Image, error) {
	b, err := openBlobs(ctx, file)
	if err != nil {
		return nil, err
	}
	m := &Image{ctx: ctx, file: path.Base(file), blobs: b, left: maxBytes, programs: map[string]content{}}
	if err := m.read(name); err != nil {
		b.Close()
		return nil, fmt.Errorf("reading image %s: %w", file, err)
	}
	return m, nil
}

func (m *Image) read(name string) error {
	config, err := m.manifest(name)
	if err != nil {
		return err
	}
	var c struct {
		Config struct {
			Env             []string
			Entrypoint, Cmd []string
			WorkingDir      string
		} `json:"config"`
	}
	if err := m.document(config, &c); err != nil {
		return err
	}
	m.entrypoint, m.cmd, m.dir = c.Config.Entrypoint, c.Config.Cmd, c.Config.WorkingDir
	m.path = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	for _, text := range c.Config.Env {
		switch name, value, _ := strings.Cut(text, "="); name {
		case "PATH":
			m.path = strings.SplitN(value, ":", maxPath+1)
		case "GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT":
			m.env = append(m.env, Variable{name, value})
		}
	}
	if len(m.layers) > maxLayers {
		return tooLarge("more than %d layers", maxLayers)
	}
	return m.list()
}

// A list of a document has a bound of its own: each "{}" of the text takes forty times its length.
type list[T any] []T

// UnmarshalJSON reads one after the other, to stop in time.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(data))
	start, err := d.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return errors.New("not a list")
	}
	for d.More() {
		if len(*l) >= maxListed {
			return tooLarge("a list in it has more than %d parts", maxListed)
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	return nil
}

// A descriptor is OCI's reference to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
	Platform    *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// manifest finds the image's layers, and returns its configuration's blob. Docker's own manifest.json comes first: a file of
// "docker save" has both.
func (m *Image) manifest(name string) (config string, err error) {
	var saved list[struct {
		Config   string
		RepoTags []string
		Layers   []string
	}]
	if err := m.document("manifest.json", &saved); err == nil && len(saved) > 0 {
		names := make([][]string, len(saved))
		for i, s := range saved {
			names[i] = s.RepoTags
		}
		i, err := choose(name, names)
		if err != nil {
			return "", err
		}
		m.layers = saved[i].Layers
		return saved[i].Config, nil
	}
	var index struct {
		Manifests list[descriptor] `json:"manifests"`
	}
	if err := m.document("index.json", &index); err != nil {
		return "", fmt.Errorf("not an image: neither OCI layout nor docker save: %w", err)
	}
	var images []descriptor
	var names [][]string
	for _, d := range index.Manifests {
		if p := d.Platform; p != nil && p.OS == "unknown" { // an attestation
			continue
		}
		images = append(images, d)
		names = append(names, []string{d.Annotations["io.containerd.image.name"], d.Annotations["org.opencontainers.image.ref.name"]})
	}
	if samePlatforms := len(images) > 1 && !slices.ContainsFunc(images, func(d descriptor) bool { return d.Platform == nil }); samePlatforms {
		images = []descriptor{forHere(images)}
		names = names[:1]
	}
	i, err := choose(name, names)
	if err != nil {
		return "", err
	}
	return m.follow(images[i], 0)
}

// choose finds the image of that name among several.
func choose(name string, names [][]string) (int, error) {
	if len(names) == 1 {
		return 0, nil
	}
	var all []string
	for i, list := range names {
		for _, n := range list {
			if n != "" && Normal(n) == Normal(name) {
				return i, nil
			}
			if n != "" {
				all = append(all, n)
			}
		}
	}
	return 0, fmt.Errorf("%d images, and none is called %q: %.200q", len(names), name, all)
}

// follow goes from a descriptor through indexes to a manifest.
func (m *Image) follow(d descriptor, depth int) (config string, err error) {
	var doc struct {
		Manifests list[descriptor] `json:"manifests"`
		Config    descriptor       `json:"config"`
		Layers    list[descriptor] `json:"layers"`
	}
	name, err := blobName(d.Digest)
	if err != nil {
		return "", err
	}
	if err := m.document(name, &doc); err != nil {
		return "", err
	}
	if len(doc.Manifests) > 0 {
		if depth > 3 {
			return "", errors.New("its indexes are nested too deeply")
		}
		return m.follow(forHere(doc.Manifests), depth+1)
	}
	for _, l := range doc.Layers {
		name, err := blobName(l.Digest)
		if err != nil {
			return "", err
		}
		m.layers = append(m.layers, name)
	}
	return blobName(doc.Config.Digest)
}

// forHere is the image for this machine's architecture, else for amd64, else the first for Linux.
func forHere(all []descriptor) descriptor {
	for _, arch := range []string{runtime.GOARCH, "amd64", ""} {
		for _, d := range all {
			if p := d.Platform; p != nil && p.OS == "linux" && (p.Architecture == arch || arch == "") {
				return d
			}
		}
	}
	return all[0]
}

var digest = regexp.MustCompile(`^[a-z0-9]{1,32}:[a-f0-9]{32,128}$`)

func blobName(d string) (string, error) {
	if !digest.MatchString(d) {
		return "", fmt.Errorf("%.80q is not a digest", d)
	}
	return "blobs/" + strings.Replace(d, ":", "/", 1), nil
}

// document reads a JSON document.
func (m *Image) document(name string, to any) error {
	r, err := m.blobs.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(until{m.ctx, r}, maxDocument+1))
	if err != nil {
		return err
	}
	if len(data) > maxDocument {
		return fmt.Errorf("%.80q: %w", name, errTooLarge)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%.80q: %w", name, err)
	}
	return nil
}
