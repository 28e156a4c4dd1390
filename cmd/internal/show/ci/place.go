package ci

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/chavacava/garif"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

const (
	sourceRoot  = "%SRCROOT%"
	fingerprint = "unthrottle/v1"
)

// Repository is the directory of the repository that a directory is in: the nearest one above with a .git, which is a file in worktrees. ""
// if there isn't one.
func Repository(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return filepath.ToSlash(dir)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// Below is a file as it is called in a repository, or unchanged if it is not there: then root comes back empty.
func Below(root, file string) (name, in string) {
	absolute, err := filepath.Abs(file)
	if root == "" || err != nil {
		return filepath.ToSlash(file), ""
	}
	name, err = filepath.Rel(filepath.FromSlash(root), absolute)
	if err != nil || name == ".." || strings.HasPrefix(name, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(file), ""
	}
	return filepath.ToSlash(name), root
}

// physical is a place as SARIF has it; nil if it is in no file.
func physical(p report.Place) *garif.PhysicalLocation {
	if p.File == "" {
		return nil
	}
	at := &garif.PhysicalLocation{ArtifactLocation: &garif.ArtifactLocation{Uri: (&url.URL{Path: p.File}).String()}}
	switch {
	case p.Root != "":
		at.ArtifactLocation.UriBaseId = sourceRoot
	case strings.HasPrefix(p.File, "/") || filepath.IsAbs(filepath.FromSlash(p.File)):
		at.ArtifactLocation.Uri = fileURI(p.File)
	}
	if p.Line > 0 {
		at.Region = &garif.Region{StartLine: p.Line, StartColumn: p.Column}
		if p.EndLine > p.Line {
			at.Region.EndLine = p.EndLine
		}
	}
	return at
}

// fileURI is the URI of an absolute path with slashes, such as /a or C:/a.
func fileURI(path string) string {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}
