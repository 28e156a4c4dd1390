package cli

import (
	"runtime/debug"
	"strings"
)

// imageOf is where a release's image of a command is. What was not built of a release takes the newest.
func imageOf(name string) string {
	tag := "latest"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") && !strings.ContainsAny(info.Main.Version, "-+") {
		tag = info.Main.Version
	}
	return "ghcr.io/unthrottle/" + name + ":" + tag
}
