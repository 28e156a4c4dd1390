package verb

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// NewHeader is the header of a document that is made now.
func NewHeader(verb string) report.Header {
	return report.Header{Version: report.Version, Verb: verb, MadeBy: MadeBy(), Time: Now()}
}

// MadeBy names what makes a document.
func MadeBy() string { return "unthrottle " + buildVersion() }

// Now is the time as documents have it.
func Now() string { return time.Now().UTC().Format(time.RFC3339) }

// unstamped is the version of what was built in a checkout. In a workspace, which ours is, the go command records the commit only if it is
// asked to, and go run and go test never do.
const unstamped = "(devel)"

// buildVersion is the module's version, or the revision where it was built from a checkout.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, revision, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", modified"
		}
	}
	if version == "" {
		version = unstamped
	}
	if version == unstamped && len(revision) >= 12 {
		version += " " + revision[:12] + dirty
	}
	return version
}

// VersionText says which build of a command this is.
func VersionText(name string) string {
	text := fmt.Sprintf("%s %s, %s, %s/%s\n", name, buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if buildVersion() == unstamped {
		text += "The commit is not recorded: in a workspace go does that with go build -buildvcs=true.\n"
	}
	return text
}
