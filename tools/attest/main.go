// Command attest answers: what is in a release, and what was it made from? It writes two kinds of documents for .ci/release,
// each to stdout, with nothing in them that another build of the same commit would not have:
//
//	attest contents VERSION BINARY        what a binary is linked of, as CycloneDX lists it, from what Go wrote into it
//	attest origin VERSION COMMIT FILE...  the files' sums, and the commit and the Go that they were made of, as in-toto and
//	                                      SLSA state it
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

func main() {
	document, err := attest(os.Args[1:])
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		err = out.Encode(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attest:", err)
		os.Exit(1)
	}
}

func attest(args []string) (any, error) {
	switch {
	case len(args) == 3 && args[0] == "contents":
		return contents(args[1], args[2])
	case len(args) > 3 && args[0] == "origin":
		return origin(args[1], args[2], args[3:])
	}
	return nil, fmt.Errorf("usage: attest contents VERSION BINARY, or attest origin VERSION COMMIT FILE...")
}

const repository = "https://github.com/unthrottle/unthrottle"

// A bill is a list of what a program is made of: https://cyclonedx.org/docs/1.6/json/.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"` // of the document
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func contents(version, binary string) (bill, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return bill{}, fmt.Errorf("reading what %s is made of: %w", binary, err)
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1}
	b.Metadata.Component = module("application", info.Path, version, "")
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "-trimpath" {
			b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{s.Key, s.Value})
		}
	}
	// The standard library has no line of its own among the modules, and most advisories.
	b.Components = []component{module("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			return bill{}, fmt.Errorf("%s was built with %s replaced by %s: a release is not", binary, m.Path, m.Replace.Path)
		}
		b.Components = append(b.Components, module("library", m.Path, m.Version, m.Sum))
	}
	return b, nil
}

// module is a component with the sum by which go.sum knows it.
func module(kind, path, version, sum string) component {
	c := component{Type: kind, Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version}
	if sum != "" {
		c.Properties = []property{{"go.sum", sum}}
	}
	return c
}

// A statement says of files where they come from: https://in-toto.io/Statement/v1, https://slsa.dev/spec/v1.0/provenance.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	Definition definition `json:"buildDefinition"`
	Run        run        `json:"runDetails"`
}

type definition struct {
	Type       string            `json:"buildType"`
	Parameters map[string]string `json:"externalParameters"`
	From       []subject         `json:"resolvedDependencies"`
}

type run struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

func origin(version, commit string, files []string) (statement, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, file := range files {
		sum, err := digest(file)
		if err != nil {
			return s, err
		}
		s.Subject = append(s.Subject, subject{Name: filepath.Base(file), Digest: map[string]string{"sha256": sum}})
	}
	script := repository + "/blob/" + commit + "/.ci/release"
	s.Predicate.Definition = definition{
		Type:       script,
		Parameters: map[string]string{"version": version},
		From: []subject{
			{URI: "git+" + repository + "@refs/tags/" + version, Digest: map[string]string{"gitCommit": commit}},
			{URI: "pkg:golang/toolchain@" + strings.TrimPrefix(runtime.Version(), "go")},
		},
	}
	s.Predicate.Run.Builder.ID = script // regardless of who runs it: the accompanying signature says who that was
	return s, nil
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
